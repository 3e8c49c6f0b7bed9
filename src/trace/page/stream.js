// The residual stream view. The view shows the norm of the stream and the change made by every sub-layer.

const STAGES = ['embedding'];
for (let i = 0; i < L; ++i) STAGES.push(`block ${i} attention`, `block ${i} MLP`);

// Draws the norm of the stream after each sub-layer and the change by each sub-layer, for the selected token.
function streamChart() {
  const width = 1100, height = 300, left = 46, bottom = 44, top = 14;
  const one = t => meta.stream.map(row => row[t]);
  const norms = one(state.token), changes = [0, ...meta.moves.map(row => row[state.token])];
  const most = Math.max(...norms, 1e-9), n = STAGES.length;
  const x = i => left + (width - left - 16) * (i + 0.5) / n, y = v => top + (height - top - bottom) * (1 - v / most);
  const svg = make('svg', {viewBox: `0 0 ${width} ${height}`, style: 'min-width:620px', role: 'img', 'aria-label': `Norm of the residual stream of token ${state.token} after every sub-layer`});
  for (let k = 0; k <= 4; ++k) {
    const v = most * k / 4;
    svg.append(make('line', {x1: left, x2: width - 16, y1: y(v), y2: y(v), stroke: 'var(--line)'}),
      make('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end', class: 'soft', text: v.toPrecision(3)}));
  }
  const bar = Math.max(2, Math.min(26, (width - left) / n * 0.6));
  changes.forEach((change, i) => {
    if (!i) return;
    svg.append(make('rect', {x: x(i) - bar / 2, y: y(change), width: bar, height: Math.max(0, y(0) - y(change)), rx: 2, opacity: .75,
      fill: i % 2 ? 'var(--attention)' : 'var(--mlp)',
      onmousemove: e => showTip(e, `${STAGES[i]}\nchange ${fix(change)} = ${percent(change / Math.max(norms[i - 1], 1e-12))} of the norm before it`), onmouseleave: hideTip}));
  });
  svg.append(make('polyline', {points: norms.map((v, i) => `${x(i)},${y(v)}`).join(' '), fill: 'none', stroke: 'var(--embed)', 'stroke-width': 2.5}));
  norms.forEach((v, i) => svg.append(make('circle', {cx: x(i), cy: y(v), r: 4, fill: 'var(--embed)',
    onmousemove: e => showTip(e, `after ${STAGES[i]}\n|x| = ${fix(v)}`), onmouseleave: hideTip})));
  const every = Math.ceil(L / 16);
  for (let i = 0; i < L; i += every) svg.append(make('text', {x: (x(2 * i + 1) + x(2 * i + 2)) / 2, y: height - 22, 'text-anchor': 'middle', class: 'soft', text: L > 8 ? i : 'block ' + i}));
  svg.append(make('text', {x: x(0), y: height - 22, 'text-anchor': 'middle', class: 'soft', text: n > 20 ? 'in' : 'embedding'}));
  return svg;
}

// Draws the relative change of every token by every sub-layer as a heat map.
function moveMap() {
  const canvas = make('canvas', {tabindex: 0, role: 'img', 'aria-label': 'Relative change of every token by every sub-layer; use the arrow keys to move', style: 'width:100%;height:' + clamp(2 * L * 14, 60, 340) + 'px;border-radius:4px'});
  const value = (stage, t) => meta.moves[stage][t] / Math.max(meta.stream[stage][t], 1e-12);
  const draw = () => paint(canvas, 2 * L, T, (r, c) => weightColour(value(r, c) / 1.5));
  const read = make('p', {class: 'read soft'});
  let at = [0, 0];
  const note = (r, t) => {
    read.textContent = `${STAGES[r + 1]} changes token ${t} (${shown(token(t))}) by ${percent(value(r, t))} of its norm`;
  };
  const place = e => {
    const box = canvas.getBoundingClientRect();
    return [clamp(Math.floor((e.clientY - box.top) / box.height * 2 * L), 0, 2 * L - 1), clamp(Math.floor((e.clientX - box.left) / box.width * T), 0, T - 1)];
  };
  canvas.addEventListener('mousemove', e => { const [r, t] = place(e); note(r, t); });
  canvas.addEventListener('click', e => { const [r, t] = place(e); at = [r, t]; select({token: t, layer: r >> 1}); });
  arrows(canvas, (rows, cols) => { at = [clamp(at[0] + rows, 0, 2 * L - 1), clamp(at[1] + cols, 0, T - 1)]; note(...at); say(read.textContent); });
  whenSeen(canvas, draw);
  note(0, state.token);
  return make('div', null, make('h3', {text: 'Relative change, one column per token and one row per sub-layer; full colour from 150 %'}), canvas, read);
}

function streamView() {
  const chart = make('div', {class: 'scroll'});
  view('stream', 'Residual stream', 'Each sub-layer adds its result to the residual stream. The line shows the norm of the selected token\'s vector, the bars show the norms of the changes by attention and MLP.',
    make('div', {class: 'card'}, chart,
      make('p', {class: 'legend'}, ...[['--embed', 'norm of the stream'], ['--attention', 'change by attention'], ['--mlp', 'change by the MLP']]
        .map(([c, text]) => make('span', null, make('i', {style: `background:var(${c})`}), text)))),
    make('div', {class: 'card', style: 'margin-top:14px'}, moveMap()));
  watch(changed => { if (changed.includes('token')) clear(chart, streamChart()); });
}
