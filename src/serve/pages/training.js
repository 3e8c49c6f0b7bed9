// Shows a training run while it runs. Polls the newest values every few seconds, and loads the curves and the
// report again if they have changed.

const kEvery = 3, kSlowest = 15;  // seconds
const touched = () => {}, keepView = () => {};  // hooks of the chart scripts that are not needed, because this page is never reloaded
const shownOf = {name: null, version: null, report: null};

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60), hours = Math.floor(minutes / 60);
  return hours < 1 ? `${minutes} min` : hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

function card(label, value, note) {
  return make('div', {class: 'card'}, make('div', {class: 'label', text: label}), make('div', {class: 'value', text: value}), note ? make('div', {class: 'note', text: note}) : null);
}

const kStates = {running: 'running', finished: 'finished', silent: 'no updates for a while, the run may have ended', damaged: 'cannot be read'};

function drawFacts(run) {
  document.title = `${run.name}: step ${thousands(run.step)}`;
  field('title').textContent = run.name;
  tell(kStates[run.state]);
  field('progress').hidden = run.steps === null;
  if (run.steps !== null) field('progress').value = run.step / run.steps;
  const known = [['step', thousands(run.step), run.steps === null ? '' : `of ${thousands(run.steps)}`]];
  if (run.loss !== null) known.push(['training loss', fix(run.loss, 4), '']);
  if (run.val_loss !== null) known.push(['validation loss', fix(run.val_loss, 4), 'latest']);
  if (run.tok_per_s !== null) known.push(['tokens per second', thousands(Math.round(run.tok_per_s)), '']);
  if (run.seconds !== null) known.push(['training time', duration(run.seconds), '']);
  if (run.eta_seconds !== null && run.state === 'running') known.push(['time left', duration(run.eta_seconds), 'at the current speed']);
  clear(field('heads'), ...known.map(item => card(...item)));
}

function drawSamples(samples) {
  clear(field('samples'), ...(samples.length ? [make('h2', {text: 'Samples'}), make('div', {class: 'card'}, ...samples.map(s => make('div', {class: 'sample'},
    make('div', {class: 'step', text: `after step ${thousands(s.step)}`}), make('pre', {text: s.text}))))] : []));
}

// Changes the text only if it differs, because a screen reader announces every change.
function tell(text) {
  if (field('state').textContent !== text) field('state').textContent = text;
}

const kReportTags = new Set('H2 H3 P DIV SPAN PRE CODE DL DT DD TABLE CAPTION THEAD TBODY TR TH TD UL OL LI WBR BR'.split(' '));

// Copies an element of the report, keeping only allowed tags and the class attribute. The file was written by
// the run and is untrusted.
function copied(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.textContent;
  if (!kReportTags.has(node.tagName)) return null;
  return make(node.tagName.toLowerCase(), {class: node.getAttribute('class')}, ...[...node.childNodes].map(copied));
}

// Shows the other parts of the report that the run writes: its tables and commands.
function drawReport(html) {
  const main = new DOMParser().parseFromString(html, 'text/html').querySelector('main');
  if (!main) return;
  const parts = [];
  let drop = false;  // newer samples are shown above
  for (const node of main.children) {
    if (node.tagName === 'H2') drop = node.textContent === 'Samples';
    if (!drop && !node.matches('.heads, #curves, #plain-charts')) parts.push(copied(node));
  }
  clear(field('report'), ...parts.filter(part => part !== null));
}

async function drawRun(run) {
  drawFacts(run);
  const path = encodeURIComponent(run.name);
  if (run.name !== shownOf.name || run.version !== shownOf.version) {
    const details = await (await ask('GET', `/training/runs/${path}`)).json();
    setData(details.curves);
    updateCurves();
    drawSamples(details.samples);
    Object.assign(shownOf, {report: run.name === shownOf.name ? shownOf.report : null, name: run.name, version: details.version});
  }
  if (run.report_version && run.report_version !== shownOf.report) {
    drawReport(await (await ask('GET', `/training/reports/${path}`)).text());
    shownOf.report = run.report_version;
  } else if (!run.report_version) {
    clear(field('report'));  // removes the report of a previously shown run
    shownOf.report = null;
  }
}

function drawChoice(runs) {
  const names = runs.map(r => r.name), list = field('run'), before = list.value;
  if ([...list.options].map(o => o.value).join('\n') === names.join('\n')) return;
  clear(list, ...names.map(name => make('option', {value: name, text: name})));
  if (names.includes(before)) list.value = before;
  field('run-label').hidden = names.length < 2;
}

// Updates the page and returns the seconds until the next update. Errors are shown, and the update is
// repeated later.
async function look() {
  try {
    const {runs} = await (await ask('GET', '/training/runs')).json();
    drawChoice(runs);
    const run = runs.find(r => r.name === field('run').value);
    if (run) await drawRun(run); else tell('This server has no training run. Start it with the folder of a run.');
    return kEvery;
  } catch (error) {
    if (error.status === 401) askForKey();
    tell(error.status === 0 ? 'The server does not respond. This page keeps trying to reach it.' : error.message);
    return kSlowest;
  }
}

// A server started by `gpt train --serve` has no model to chat with.
async function findModels() {
  try {
    const {data} = await (await ask('GET', '/v1/models')).json();
    field('chat').hidden = !data.length;
  } catch (error) { /* the link stays hidden; other requests report the error */ }
}

let looking = false;
async function lookOn() {
  if (looking) return;
  looking = true;
  const wait = document.hidden ? kSlowest : await look();
  looking = false;
  clearTimeout(lookOn.timer);
  lookOn.timer = setTimeout(lookOn, Math.min(wait, kSlowest) * 1000);
}

startTheme();
startKey(() => { lookOn(); findModels(); });
field('run').addEventListener('change', lookOn);
document.addEventListener('visibilitychange', () => { if (!document.hidden) lookOn(); });
lookOn();
findModels();
