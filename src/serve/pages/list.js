// The list of conversations that are stored in this browser, and the current conversation.

let conversations = readConversations(), current = null;
const listBox = document.getElementById('list'), listButton = document.getElementById('open-list');

function currentConversation() {
  if (!current) current = newConversation();
  return current;
}

function keep(conversation) {
  conversation.time = Date.now();
  conversations = [conversation, ...conversations.filter(c => c !== conversation)];
  if (!keepConversation(conversation, conversations)) showBanner('The storage of the browser is full. This conversation is kept only until the page is closed.', 8);
  drawList();
}

// Removes a conversation from the list and from storage. Conversations without messages are not stored.
function forgetConversation(conversation) {
  conversations = conversations.filter(c => c !== conversation);
  dropConversation(conversation);
  conversation.title = '';
  drawList();
}

function show(conversation) {
  current = conversation;
  editing = -1;
  showProblem('');
  openList(false);
  drawList();
  drawMessages();
  toEnd();
  document.getElementById('ask').focus();
}

function remove(conversation) {
  if (answering && answering.conversation === conversation) answering.abort.abort();
  forgetConversation(conversation);
  if (current === conversation) show(conversations[0] || newConversation());
}

// Asks for confirmation in place: a second click deletes the conversation.
function removeButton(conversation) {
  const name = conversation.title || 'Untitled';
  const button = make('button', {type: 'button', class: 'small', text: '×', title: 'Delete', 'aria-label': `Delete the conversation ${name}`});
  button.addEventListener('click', () => {
    if (button.dataset.sure) { remove(conversation); return; }
    button.dataset.sure = 'yes';
    button.textContent = 'delete?';
    button.setAttribute('aria-label', `Press again to delete the conversation ${name}`);
  });
  button.addEventListener('blur', () => { delete button.dataset.sure; button.textContent = '×'; });
  return button;
}

function drawList() {
  clear(document.getElementById('conversations'), ...conversations.map(c => make('li', null,
    make('button', {type: 'button', class: 'entry', 'aria-current': c === current ? 'true' : null, text: c.title || 'Untitled', onclick: () => show(c)}), removeButton(c))));
}

function openList(open) {
  document.body.classList.toggle('list-open', open);
  listButton.setAttribute('aria-expanded', String(open));
  if (open) document.getElementById('new').focus();
}

function saveFile(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], {type}));
  make('a', {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function startList() {
  const name = ending => (currentConversation().title || 'conversation').replace(/[^\w -]+/g, '').trim().slice(0, 40).replace(/ +/g, '-') + ending;
  document.getElementById('new').addEventListener('click', () => show(newConversation()));
  document.getElementById('export-json').addEventListener('click', () => saveFile(name('.json'), 'application/json', JSON.stringify({model: chosenModel() && chosenModel().id, settings, ...currentConversation()}, null, 1)));
  document.getElementById('export-md').addEventListener('click', () => saveFile(name('.md'), 'text/markdown', asMarkdown(currentConversation())));
  listButton.addEventListener('click', () => openList(!document.body.classList.contains('list-open')));
  document.addEventListener('keydown', event => { if (event.key === 'Escape' && document.body.classList.contains('list-open')) { openList(false); listButton.focus(); } });
  drawList();
}
