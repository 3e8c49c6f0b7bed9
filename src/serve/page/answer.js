// Asking the model: a conversation in a chat, or a text to be continued where the model has no chat template.

const kAlternatives = 5;
let answering = null;  // {abort, conversation, message} while an answer is on its way

const chats = () => Boolean(chosenModel() && chosenModel().chat_template);

// The settings that are not empty, as numbers. What is no number is left to the server, which says what is wrong.
function samplingFields() {
  const fields = {};
  for (const name of ['temperature', 'top_p', 'top_k', 'seed', 'max_tokens']) {
    const text = settings[name].trim();
    if (text) fields[name] = Number.isNaN(Number(text)) ? text : Number(text);
  }
  return fields;
}

// The messages of a chat as the server reads them. A last one of the assistant's is continued.
function chatMessages(messages) {
  const list = messages.map(({role, content}) => ({role, content}));
  return settings.system.trim() ? [{role: 'system', content: settings.system}, ...list] : list;
}
const joined = messages => messages.map(m => m.content).join('');

// What the model reads before it answers. messages: the last one is the answer so far, which may be empty.
function context(messages) {
  const last = messages[messages.length - 1], used = last.content ? messages : messages.slice(0, -1);
  return chats() ? {messages: chatMessages(used)} : {prompt: joined(used)};
}

function requestOf(messages) {
  const common = {model: chosenModel().id, ...context(messages), ...samplingFields(), stream: true, stream_options: {include_usage: true}};
  if (chats()) return ['/v1/chat/completions', {...common, logprobs: true, top_logprobs: kAlternatives}];
  const most = common.max_tokens === undefined ? {max_tokens: 200} : {};
  return ['/v1/completions', {...common, ...most, logprobs: kAlternatives}];
}

// An answer keeps the name of its model whichever is chosen later, or of both where another one goes on with it.
function nameAuthor(message, name) {
  const all = message.content && message.model ? message.model.split(', ') : [];
  message.model = all.at(-1) === name ? message.model : [...all, name].join(', ');
}

// Appends what comes to the last message, which is the assistant's. Whatever happens is written there.
async function answer(conversation) {
  const message = conversation.messages[conversation.messages.length - 1], abort = new AbortController();
  answering = {abort, conversation, message};
  delete message.problem;
  delete message.note;
  message.cut = true;
  if (chosenModel()) nameAuthor(message, chosenModel().id);
  drawMessages();
  const begun = performance.now();
  let usage = null;
  try {
    const [path, body] = requestOf(conversation.messages);
    usage = await readAnswer(message, await ask('POST', path, body, abort.signal));
    message.note = noteOf(message, usage, (performance.now() - begun) / 1000);
  } catch (error) {
    takeProblem(message, error);
  }
  answering = null;
  keep(conversation);
  drawMessages();
  say(message.problem ? message.problem : `The answer: ${message.content}`);
}

async function readAnswer(message, response) {
  const tokens = new TokenReader();
  let usage = null, finish = null, completes = false;
  message.tokens = message.tokens || [];
  for await (const event of eventsOf(response)) {
    usage = event.usage || usage;
    const choice = event.choices && event.choices[0];
    if (!choice) continue;
    completes = !choice.delta;
    message.content += (choice.delta ? choice.delta.content : choice.text) || '';
    message.tokens.push(...tokens.read(choice.logprobs));
    finish = choice.finish_reason || finish;
    drawLater(message);
  }
  // In a completion the token that ends the text is the last one, and no part of it.
  if (finish === 'stop' && completes) message.tokens.pop();
  const rest = tokens.rest(), final = message.tokens[message.tokens.length - 1];
  if (rest && final) final[0] += rest;
  message.cut = finish === 'length';
  return usage;
}

function noteOf(message, usage, seconds) {
  const parts = [];
  if (usage) parts.push(`${thousands(usage.completion_tokens)} token${usage.completion_tokens === 1 ? '' : 's'}`, `${fix(usage.completion_tokens / Math.max(seconds, 1e-3), 1)} a second`);
  if (message.cut) parts.push('the limit of tokens is reached');
  return parts.join(' · ');
}

function takeProblem(message, error) {
  if (error.name === 'AbortError') { message.note = 'stopped'; return; }
  if (error.status === 401) { askForKey(); message.problem = 'The server needs a key.'; return; }
  if (error.status === 0) serverIsGone();
  message.problem = error instanceof ServerError ? error.message : `Something went wrong in this page: ${error.message}`;
}

function send(text) {
  if (answering || !chosenModel()) return;
  const conversation = currentConversation();
  if (text) conversation.messages.push({role: 'user', content: text});
  if (!conversation.title) conversation.title = text.trim().split('\n')[0].slice(0, 60);
  const last = conversation.messages[conversation.messages.length - 1];
  if (!last) return;
  conversation.messages.push({role: 'assistant', content: ''});
  keep(conversation);
  answer(conversation);
}

function again(conversation) {
  if (answering) return;
  conversation.messages[conversation.messages.length - 1] = {role: 'assistant', content: ''};
  answer(conversation);
}

// From a token of an answer on with another one: what came after it is gone.
function continueWith(conversation, index, tokenIndex, alternative) {
  if (answering) return;
  const message = conversation.messages[index], place = placesOf(message)[tokenIndex];
  message.content = message.content.slice(0, place.start) + alternative[0];
  message.tokens = [...message.tokens.slice(0, tokenIndex), [alternative[0], alternative[1], message.tokens[tokenIndex][2]]];
  conversation.messages.length = index + 1;
  answer(conversation);
}
