// The settings dialog, and the dialog for inspecting the model.

const settings = readSettings();

function startSettings() {
  for (const [name, {default: value, min, max}] of Object.entries(kSampling)) {
    if (kSettingNames.includes(name)) Object.assign(field('set-' + name), {placeholder: value, min, max});
  }
  field('open-settings').addEventListener('click', () => {
    for (const name of kSettingNames) field('set-' + name).value = settings[name];
    field('system-label').hidden = !chats();
    field('settings').showModal();
  });
  field('settings').addEventListener('close', () => {
    for (const name of kSettingNames) settings[name] = field('set-' + name).value;
    keepSettings(settings);
  });
}

let inside = null;  // {fields} of the context to inspect; null: the text in the dialog
let making = null;  // AbortController of the request in flight

// Opens the dialog. `messages` are the messages before the response; `text` is the response up to the
// inspected position, or empty.
function lookInside(messages, text) {
  const all = text ? [...messages, {role: 'assistant', content: text}] : messages;
  inside = chats() ? {messages: chatMessages(all)} : {prompt: joined(all)};
  openInside(`A page with all intermediate results of ${chosenModel().id} for the conversation up to this point, and its prediction of the next token.`);
  makeInside();
}

function openInside(about) {
  field('inside-about').textContent = about;
  field('inside-label').hidden = inside !== null;
  field('inside-make').hidden = inside !== null;
  clear(field('inside-state'));
  if (!field('inside').open) field('inside').showModal();
}

async function makeInside() {
  if (making) making.abort();
  const mine = making = new AbortController();
  field('inside-state').textContent = 'Computing…';
  try {
    const body = inside || {prompt: field('inside-text').value};
    const response = await ask('POST', '/trace', {model: chosenModel().id, ...body}, mine.signal);
    showInside(await response.blob());
  } catch (error) {
    if (error.name === 'AbortError') return;
    if (error.status === 401) { field('inside').close(); askForKey(); return; }
    if (error.status === 0) serverIsGone();
    field('inside-state').textContent = error.message;
  }
}

// Opens the page in a new tab. If the browser blocks the tab, the user can click the link.
function showInside(blob) {
  const address = URL.createObjectURL(blob);
  const open = make('a', {href: address, target: '_blank', id: 'inside-open', text: 'Open the page'});
  clear(field('inside-state'), 'The page is ready. ', open, ` (${fix(blob.size / 1048576, 1)} MiB)`);
  open.focus();
  open.click();
}

function startInside() {
  field('open-inside').addEventListener('click', () => {
    inside = null;
    openInside('A page with all intermediate results of the model for a text: attention, neurons, and the prediction after each layer.');
    field('inside-text').focus();
  });
  field('inside-form').addEventListener('submit', event => { event.preventDefault(); makeInside(); });
  field('inside-close').addEventListener('click', () => field('inside').close());
  field('inside').addEventListener('close', () => { if (making) making.abort(); });
}
