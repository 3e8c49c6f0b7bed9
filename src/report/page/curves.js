// Chooses the charts of the page. The training and validation loss of a single run share a chart. Several
// runs have one line each in every chart.

let data = null, many = false;
function setData(next) {
  data = next;
  many = data.runs.length > 1;
}
const known = [
  ['lr', 'Learning rate', '', false, 0], ['grad_norm', 'Gradient norm', '', true, 1],
  ['tok_per_s', 'Tokens per second', '', false, 1], ['loss_scale', 'Loss scale', '', true, 0]];

const curveOf = (run, key) => run.curves[key] && run.curves[key].x.length ? run.curves[key] : null;

// Returns one line for each run that has the metric `key`.
function perRun(key, strength, marks) {
  return data.runs.map((run, i) => ({name: run.name, colour: i, curve: curveOf(run, key), strength, marks})).filter(s => s.curve);
}

function lossCharts() {
  if (many) {
    return [['loss', 'Training loss', 1, false], ['val_loss', 'Validation loss', 0, true]].map(([key, title, strength, marks]) => ({title, unit: 'nats per token', tall: true, lines: data.lines, series: perRun(key, strength, marks)}));
  }
  const series = [['loss', 'training', 1, false], ['val_loss', 'validation', 0, true], ['train_loss', 'training (evaluated)', 0, true]].map(([key, name, strength, marks], colour) => ({name, colour, curve: curveOf(data.runs[0], key), strength, marks}));
  return [{title: 'Loss', unit: 'nats per token', tall: true, lines: data.lines, series: series.filter(s => s.curve)}];
}

// Makes charts of metrics such as "grad_norm/blocks.0": one chart per kind, with one line for each part of
// the model. With several runs there are no such charts, because their lines could not be told apart.
function layerCharts() {
  if (many) return [];
  return [['grad_norm/', 'Gradient norm by module'], ['update_ratio/', 'Update-to-weight ratio by module']].map(([prefix, title]) => {
    const keys = Object.keys(data.runs[0].curves).filter(k => k.startsWith(prefix));
    return {title, logY: true, series: keys.map((key, colour) => ({name: key.slice(prefix.length), colour, curve: curveOf(data.runs[0], key)})).filter(s => s.curve)};
  });
}

function controls() {
  const smoothing = make('input', {type: 'range', min: 0, max: 100, value: Math.round(shared.smoothing * 100), 'aria-label': 'smoothing', oninput: () => { touched(); shared.smoothing = Number(smoothing.value) / 100; redrawAll(); }});
  const logX = make('button', {type: 'button', text: 'log x', 'aria-label': 'logarithmic x axis', 'aria-pressed': shared.logX, onclick: () => {
    shared.logX = !shared.logX;
    logX.setAttribute('aria-pressed', shared.logX);
    redrawAll();
  }});
  const all = make('button', {type: 'button', text: 'reset zoom', onclick: () => { shared.zoom = null; redrawAll(); }});
  return make('div', {class: 'controls', role: 'group', 'aria-label': 'All charts'}, make('label', null, 'smoothing', smoothing), logX, all,
    make('span', {class: 'soft', text: 'Drag in a chart to zoom, double-click to reset the zoom.'}));
}

function chartOptions() {
  const main = lossCharts().filter(c => c.series.length);
  const small = [...known.map(([key, title, unit, logY, strength]) => ({title, unit, logY, series: many ? perRun(key, strength) : perRun(key, strength).map((s, i) => ({...s, name: title, colour: 2 + i}))})), ...layerCharts()].filter(c => c.series.length);
  return {main, small};
}

function drawCurves() {
  const place = document.getElementById('curves'), {main, small} = chartOptions();
  if (!main.length && !small.length) return;
  place.append(controls());
  const list = [...main, ...small].map(options => new LineChart(options));
  place.append(...list.slice(0, main.length).map(c => c.node));
  if (small.length) place.append(make('div', {class: 'pair'}, ...list.slice(main.length).map(c => c.node)));
  document.documentElement.classList.add('drawn');
  for (const chart of list) chart.draw();
}

// Updates the charts with new data. Existing charts keep their zoom and scales. If there are other lines than
// before, all charts are created again.
function updateCurves() {
  const {main, small} = chartOptions(), all = [...main, ...small];
  const lines = o => [o.title, ...o.series.map(s => s.name)].join('\n');
  if (all.length === charts.length && all.every((o, i) => lines(o) === lines(charts[i].o))) {
    charts.forEach((chart, i) => { chart.o = all[i]; chart.draw(); });
    return;
  }
  charts.length = 0;
  clear(document.getElementById('curves'));
  drawCurves();
}

let resizing = 0;
addEventListener('resize', () => { clearTimeout(resizing); resizing = setTimeout(() => charts.forEach(c => c.draw()), 100); });
