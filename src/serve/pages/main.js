// Sets up the page: models, the text field, and reconnecting to a server that was unavailable.

let models = [], modelsKnown = false;
const modelList = document.getElementById('model'), banner = document.getElementById('banner'), asked = document.getElementById('ask');

const chosenModel = () => models.find(m => m.id === modelList.value) || null;

let bannerTimer = 0;
function showBanner(text, seconds) {
  clearTimeout(bannerTimer);
  banner.textContent = text;
  banner.hidden = !text;
  if (seconds) bannerTimer = setTimeout(() => { banner.hidden = true; }, seconds * 1000);
}

// Shows the error of a turn that was removed.
function showProblem(text) {
  const problem = document.getElementById('problem');
  problem.textContent = text;
  problem.hidden = !text;
}

async function loadModels() {
  try {
    const answer = await (await ask('GET', '/v1/models')).json();
    const before = modelList.value || stored(local, 'gpt-model');
    if (modelsKnown && JSON.stringify(answer.data) === JSON.stringify(models)) return;
    modelsKnown = true;
    models = answer.data;
    clear(modelList, ...models.map(m => make('option', {value: m.id, text: m.id + (m.chat_template ? '' : ' (text completion)')})));
    if (models.some(m => m.id === before)) modelList.value = before;
    drawMessages();
    loadRuns();
  } catch (error) {
    if (error.status === 401) askForKey();
    else if (error.status === 0) serverIsGone();
    else showBanner(error.message);
  }
}

async function loadRuns() {
  try {
    const {runs} = await (await ask('GET', '/training/runs')).json();
    document.getElementById('training').hidden = !runs.length;
  } catch (error) { /* the link stays hidden; other requests report the error */ }
}

// Retries at growing intervals until the server responds.
let gone = false;
async function serverIsGone() {
  if (gone) return;
  gone = true;
  showBanner('The server does not respond. This page keeps trying to reach it; no conversation is lost.');
  for (let wait = 1; gone; wait = Math.min(2 * wait, 8)) {
    await new Promise(resolve => setTimeout(resolve, wait * 1000));
    gone = !await fetch('/health', {cache: 'no-store'}).then(r => r.ok, () => false);
  }
  showBanner('The server is back.', 4);
  loadModels();
}

function drawControls() {
  const busy = Boolean(answering), chat = chats();
  document.getElementById('send').hidden = busy;
  document.getElementById('send').disabled = !chosenModel();
  document.getElementById('send').textContent = chat || !chosenModel() ? 'Send' : 'Continue';
  document.getElementById('stop').hidden = !busy;
  asked.placeholder = chat || !chosenModel() ? 'Write a message' : currentConversation().messages.length ? 'Add text, or leave this empty and press Continue' : 'Write the start of a text';
  document.getElementById('show-tokens').setAttribute('aria-pressed', String(showsTokens));
}

function submit() {
  const text = asked.value;
  if (answering || !chosenModel() || (!text.trim() && (chats() || !currentConversation().messages.length))) return;
  asked.value = '';
  sizeField();
  toEnd();
  send(text);
}

function sizeField() {
  asked.style.height = 'auto';
  asked.style.height = Math.min(asked.scrollHeight + 2, 220) + 'px';
}

function startForm() {
  document.getElementById('form').addEventListener('submit', event => { event.preventDefault(); submit(); });
  asked.addEventListener('input', sizeField);
  asked.addEventListener('keydown', event => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  document.getElementById('stop').addEventListener('click', () => { if (answering) answering.abort.abort(); asked.focus(); });
  modelList.addEventListener('change', () => { store(local, 'gpt-model', modelList.value); drawMessages(); });
  document.getElementById('show-tokens').addEventListener('click', () => {
    showsTokens = !showsTokens;
    store(local, 'gpt-tokens', showsTokens ? 'yes' : 'no');
    drawMessages();
  });
  addEventListener('online', loadModels);
  document.addEventListener('visibilitychange', () => { if (!document.hidden && !answering) loadModels(); });
}

startTheme();
startList();
startSettings();
startKey(loadModels);
startInside();
startForm();
current = conversations[0] || null;
drawList();
drawMessages();
toEnd();
loadModels();
