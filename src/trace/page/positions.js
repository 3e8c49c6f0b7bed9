// The embedding view. The view shows the selected token before the first layer, and how its position is
// encoded.

function dial(angle, other, label, note) {
  const at = a => [44 + 34 * Math.cos(a), 44 - 34 * Math.sin(a)], [x, y] = at(angle), [u, v] = at(other);
  return make('svg', {viewBox: '0 0 88 118', role: 'img', 'aria-label': `${label}: ${note}`, style: 'width:88px'},
    make('circle', {cx: 44, cy: 44, r: 34, fill: 'var(--field)', stroke: 'var(--line)'}),
    make('line', {x1: 44, y1: 44, x2: u, y2: v, stroke: 'var(--second)', 'stroke-width': 2, 'stroke-dasharray': '4 3'}),
    make('line', {x1: 44, y1: 44, x2: x, y2: y, stroke: 'var(--accent)', 'stroke-width': 3}),
    make('text', {x: 44, y: 96, 'text-anchor': 'middle', text: label}), make('text', {x: 44, y: 112, 'text-anchor': 'middle', class: 'soft', text: note}));
}

function dials() {
  const pairs = meta.rope.length, step = Math.max(1, Math.ceil(pairs / 12));
  const list = meta.rope.map((f, i) => [f, i]).filter(([, i]) => i % step === 0);
  return [make('p', {class: 'soft', text: `Each of the ${pairs} pairs of channels is rotated by position × its own frequency (direction ${C.rope_sign > 0 ? '+' : '−'}). Solid line: token ${state.token}; dashed line: key ${state.key}. A score depends only on the angle between them, ${state.token - state.key === 1 ? '1 step' : state.token - state.key + ' steps'}.`}),
    make('div', {style: 'display:flex;flex-wrap:wrap;gap:8px'}, ...list.map(([f, i]) =>
      dial(C.rope_sign * f * state.token, C.rope_sign * f * state.key, 'pair ' + i, fix(f * state.token, 2) + ' rad')))];
}

function embeddingRow(name, label) {
  const t = tensor(name);
  if (!t) return null;
  const card = make('div', {class: 'step stream'}, make('h3', null, make('span', {text: label}), make('span', {class: 'soft', text: `[${t.cols}]`})), rowStrip(t));
  let sum = 0;
  for (let c = 0; c < t.cols; ++c) sum += t.data[state.token * t.cols + c] ** 2;
  card.append(make('p', {text: '|x| = ' + fix(Math.sqrt(sum))}));
  return card;
}

function positionView() {
  const holder = make('div');
  view('positions', 'Tokens and positions', C.position === 'learned' ? 'The embedding row of the selected token, the row of its position, and their sum, which is the input of the first block.'
    : 'The embedding row of the selected token. Its position is used later, when queries and keys are rotated.', make('div', {class: 'card'}, holder));
  watch(changed => {
    if (!changed.includes('token') && !changed.includes('key')) return;
    const entry = meta.tokens[state.token];
    const cards = [embeddingRow('embedding.token', 'token ' + entry.id), embeddingRow('embedding.position', 'position ' + state.token), embeddingRow('blocks.0.in', 'input of block 0')].filter(c => c);
    clear(holder, make('p', null, make('span', {class: 'token', text: shown(token(state.token))}), `  id ${entry.id}${entry.hex ? ', bytes ' + entry.hex : ''}, position ${state.token}`),
      make('div', {class: 'flow', style: 'grid-template-columns:repeat(auto-fit,minmax(250px,1fr))'}, ...cards), ...(C.position === 'rope' ? dials() : []));
  });
}
