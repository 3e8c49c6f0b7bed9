// Shows the current conversation.

const list = document.getElementById('messages');
let showsTokens = stored(local, 'gpt-tokens') === 'yes', editing = -1;

async function copyText(text) {
  try { await navigator.clipboard.writeText(text); say('Copied.'); } catch (e) { say('The browser does not allow copying here.'); }
}

const atEnd = () => list.scrollHeight - list.scrollTop - list.clientHeight < 80;
const toEnd = () => { list.scrollTop = list.scrollHeight; };

function bodyOf(conversation, index) {
  const message = conversation.messages[index];
  if (message.role === 'user') return make('div', {class: 'text plain', text: message.content});
  if (showsTokens && message.tokens && message.tokens.length) return tokenView(conversation, index);
  if (!chats()) return make('div', {class: 'text plain', text: message.content});
  return make('div', {class: 'text'}, ...markdownNodes(message.content));
}

function actionsOf(conversation, index) {
  const message = conversation.messages[index], last = index === conversation.messages.length - 1, busy = Boolean(answering);
  const act = (text, onclick, label) => make('button', {type: 'button', class: 'small', text, 'aria-label': label, disabled: busy, onclick});
  const mine = message.role === 'user';
  return make('div', {class: 'actions'},
    act('Edit', () => { editing = index; drawMessages(); }, mine ? 'Edit the message and send it again' : 'Edit the response'),
    !mine && last ? act('Regenerate', () => again(conversation)) : null,
    !mine && last && message.content && (message.cut || message.note === 'stopped' || message.problem) ? act('Continue', () => answer(conversation)) : null,
    mine && last ? act('Respond', () => send('')) : null,
    act('Copy', () => copyText(message.content)),
    act('Inspect', () => lookInside(conversation.messages.slice(0, index + (mine ? 1 : 0)), mine ? '' : message.content)));
}

// Returns the editor of a message. Saving removes all later messages; after a user message, a new response is
// requested.
function editorOf(conversation, index) {
  const message = conversation.messages[index], mine = message.role === 'user';
  const field = make('textarea', {rows: clamp(message.content.split('\n').length + 1, 3, 12), 'aria-label': 'Edited text'});
  field.value = message.content;
  const end = () => { editing = -1; drawMessages(); };
  const save = () => {
    editing = -1;
    conversation.messages.length = index + 1;
    message.content = field.value;
    delete message.tokens;
    delete message.note;
    message.cut = true;
    keep(conversation);
    if (mine) send(''); else drawMessages();
  };
  field.addEventListener('keydown', event => { if (event.key === 'Escape') end(); });
  setTimeout(() => field.focus());
  return make('div', {class: 'editor'}, field, make('div', {class: 'row end'}, make('button', {type: 'button', text: 'Cancel', onclick: end}),
    make('button', {type: 'button', class: 'main', text: mine ? 'Send again' : 'Save', onclick: save})));
}

function messageNode(conversation, index) {
  const message = conversation.messages[index], mine = message.role === 'user', name = mine ? 'You' : message.model || 'Model';
  const waits = answering && answering.message === message;
  return make('article', {class: 'message ' + message.role, 'aria-label': mine ? 'Your message' : 'Response', 'aria-busy': waits ? 'true' : null},
    make('div', {class: 'who', text: name}),
    editing === index ? editorOf(conversation, index) : bodyOf(conversation, index),
    waits ? make('span', {class: 'caret', 'aria-hidden': 'true'}) : null,
    message.problem ? make('p', {class: 'problem', role: 'alert', text: message.problem}) : null,
    message.note ? make('div', {class: 'note soft', text: message.note}) : null,
    waits || editing === index ? null : actionsOf(conversation, index));
}

function emptyNode() {
  const model = chosenModel();
  if (!model) return make('p', {class: 'about empty', text: modelsKnown ? 'This server has no model.' : 'Loading the list of models…'});
  const text = chats() ? `Chat with ${model.id}. Context length: ${thousands(model.max_model_len)} tokens.`
    : `${model.id} has no chat template and can only continue a text. Write the start of a text. Context length: ${thousands(model.max_model_len)} tokens.`;
  return make('div', {class: 'about empty'}, make('h1', {text: chats() ? 'New conversation' : 'New text'}), make('p', {text}));
}

function drawMessages() {
  const conversation = currentConversation(), end = atEnd();
  closeAlternatives();
  hideTip();
  if (list.contains(document.activeElement)) list.focus({preventScroll: true});  // the focused element is about to be removed
  clear(list, ...(conversation.messages.length ? conversation.messages.map((_, i) => messageNode(conversation, i)) : [emptyNode()]));
  drawControls();
  if (end) toEnd();
}

// While a response arrives, only its message is redrawn, once per frame.
let drawing = false;
function drawLater(message) {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const conversation = currentConversation(), index = conversation.messages.indexOf(message), node = list.children[index];
    if (index < 0 || !answering || answering.message !== message || !node) return;
    const end = atEnd(), old = node.querySelector('.text');
    if (old && !old.contains(document.activeElement)) old.replaceWith(bodyOf(conversation, index));
    if (end) toEnd();
  });
}
