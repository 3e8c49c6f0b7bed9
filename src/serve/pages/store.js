// Browser storage. Conversations and settings are stored in localStorage, the API key in sessionStorage until
// the tab is closed.
//
// A conversation is {id, title, time, messages}. A message is {role: 'user' or 'assistant', content, model,
// tokens, note, problem}, where `model` is the name of the model that wrote the message.
//
// A token is [text, log-probability, alternatives]. An alternative is [text or null, log-probability], and
// the most likely one comes first. The text is null if the token is not a whole character, or if another
// token in the list has the same text. In the second case, the name of the token is the third element.

const kConversation = 'gpt-chat ', kSettings = 'gpt-settings', kKey = 'gpt-key';
const kSettingNames = ['system', 'temperature', 'top_p', 'top_k', 'seed', 'max_tokens'];

// A browser may forbid storage. All data then lasts only as long as the page.
function stored(storage, name) {
  try { return storage().getItem(name); } catch (e) { return null; }
}
function store(storage, name, text) {
  try { storage().setItem(name, text); return true; } catch (e) { return false; }
}
function forget(storage, name) {
  try { storage().removeItem(name); } catch (e) { /* nothing was stored */ }
}
const local = () => localStorage, session = () => sessionStorage;

function parsed(text) {
  try { return JSON.parse(text); } catch (e) { return null; }
}

const isConversation = c => c && typeof c.id === 'string' && Array.isArray(c.messages) &&
  c.messages.every(m => m && typeof m.content === 'string' && (m.role === 'user' || m.role === 'assistant'));

// Returns all conversations, newest first.
function readConversations() {
  const names = [];
  try {
    for (let i = 0; i < localStorage.length; ++i) names.push(localStorage.key(i));
  } catch (e) { return []; }
  const all = names.filter(n => n.startsWith(kConversation)).map(n => parsed(stored(local, n))).filter(isConversation);
  return all.sort((a, b) => b.time - a.time);
}

// Stores a conversation. If storage is full, deletes token probabilities, first of other conversations, then
// of this one. Returns false if the conversation could not be stored.
function keepConversation(conversation, others) {
  const write = c => store(local, kConversation + c.id, JSON.stringify(c));
  if (write(conversation)) return true;
  for (const c of [...others.filter(o => o !== conversation).reverse(), conversation]) {
    for (const m of c.messages) delete m.tokens;
    write(c);
    if (write(conversation)) return true;
  }
  return false;
}
const dropConversation = conversation => forget(local, kConversation + conversation.id);

function newConversation() {
  const id = Array.from(crypto.getRandomValues(new Uint8Array(8)), b => b.toString(16).padStart(2, '0')).join('');
  return {id, title: '', time: Date.now(), messages: []};
}

function readSettings() {
  const kept = parsed(stored(local, kSettings)) || {};
  return Object.fromEntries(kSettingNames.map(name => [name, typeof kept[name] === 'string' ? kept[name] : '']));
}
const keepSettings = settings => store(local, kSettings, JSON.stringify(settings));

// Returns a conversation as a Markdown document.
function asMarkdown(conversation) {
  const parts = conversation.messages.map(m => `## ${m.role === 'user' ? 'You' : m.model || 'Model'}\n\n${m.content}\n`);
  return `# ${conversation.title || 'Conversation'}\n\n${parts.join('\n')}`;
}
