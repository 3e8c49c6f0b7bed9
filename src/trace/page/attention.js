// The attention view. The view shows thumbnails of all heads, one head in detail, and the computation of one
// attention weight. This script computes all attention weights from the queries and keys in the page.

const scale = 1 / Math.sqrt(D);
const masked = (i, j) => j > i || (C.sliding_window > 0 && j <= i - C.sliding_window);

function queryKey(layer, head) {
  const q = tensor(`blocks.${layer}.q`), k = tensor(`blocks.${layer}.k`);
  const kvHead = Math.floor(head / (H / C.n_kv_head));
  return {q: q.data, k: k.data, qAt: i => (i * H + head) * D, kAt: j => (j * C.n_kv_head + kvHead) * D};
}

function dotProduct(layer, head, i, j) {
  const {q, k, qAt, kAt} = queryKey(layer, head);
  let sum = 0;
  for (let d = 0, a = qAt(i), b = kAt(j); d < D; ++d) sum += q[a + d] * k[b + d];
  return sum;
}

// Returns the dot products and attention weights of query i in a head, and the intermediate values of the
// softmax.
function scoreRow(layer, head, i) {
  const dots = [], weights = new Float64Array(T);
  let most = -Infinity, sum = 0;
  for (let j = 0; j < T; ++j) {
    dots.push(dotProduct(layer, head, i, j));
    if (!masked(i, j)) most = Math.max(most, dots[j] * scale);
  }
  for (let j = 0; j < T; ++j) if (!masked(i, j)) sum += weights[j] = Math.exp(dots[j] * scale - most);
  for (let j = 0; j < T; ++j) weights[j] /= sum;
  return {dots, weights, most, sum};
}

// Returns all attention weights of a head [T,T]. The weights of the most recently computed heads are cached.
const kept = new Map();
function headWeights(layer, head) {
  const name = layer * H + head;
  if (kept.has(name)) return kept.get(name);
  const {q, k, qAt, kAt} = queryKey(layer, head);
  const out = new Float32Array(T * T);
  for (let i = 0; i < T; ++i) {
    const first = C.sliding_window > 0 ? Math.max(0, i - C.sliding_window + 1) : 0;
    let most = -Infinity, sum = 0;
    for (let j = first; j <= i; ++j) {
      let s = 0;
      for (let d = 0, a = qAt(i), b = kAt(j); d < D; ++d) s += q[a + d] * k[b + d];
      out[i * T + j] = s * scale;
      most = Math.max(most, s * scale);
    }
    for (let j = first; j <= i; ++j) sum += out[i * T + j] = Math.exp(out[i * T + j] - most);
    for (let j = first; j <= i; ++j) out[i * T + j] /= sum;
  }
  kept.set(name, out);
  if (kept.size > Math.max(8, Math.floor(3e7 / (T * T)))) kept.delete(kept.keys().next().value);
  return out;
}

// Draws the thumbnail of a head with at most 96 cells per side. If a cell covers several weights, it shows
// the largest one.
function drawThumb(canvas, layer, head) {
  const w = headWeights(layer, head), n = Math.min(T, 96), step = T / n;
  const small = new Float32Array(n * n);
  for (let i = 0; i < T; ++i) {
    const r = Math.min(n - 1, Math.floor(i / step)) * n;
    for (let j = 0; j <= i; ++j) {
      const at = r + Math.min(n - 1, Math.floor(j / step));
      if (w[i * T + j] > small[at]) small[at] = w[i * T + j];
    }
  }
  paint(canvas, n, n, (r, c) => weightColour(small[r * n + c]));
}

function headGrid() {
  const size = clamp(Math.floor((Math.min(innerWidth, 1240) - 140) / H), 36, 132);
  const grid = make('div', {class: 'heads', role: 'group', 'aria-label': 'All heads; use the arrow keys to move between them', style: `grid-template-columns:auto repeat(${H},${size}px)`});
  grid.append(make('span', {text: ''}));
  for (let h = 0; h < H; ++h) grid.append(make('span', {text: 'head ' + h}));
  const buttons = [];
  for (let l = 0; l < L; ++l) {
    grid.append(make('span', {text: 'block ' + l}));
    for (let h = 0; h < H; ++h) {
      const s = meta.heads[l][h];
      const canvas = make('canvas', {'aria-hidden': 'true'});
      const label = `block ${l}, head ${h}: ${s.habit}; entropy ${fix(s.entropy, 2)} bits, itself ${percent(s.self, 0)}, previous ${percent(s.previous, 0)}, first ${percent(s.first, 0)}`;
      const button = make('button', {type: 'button', style: `width:${size}px;height:${size}px`, 'aria-label': label, 'aria-pressed': 'false',
        onclick: () => select({layer: l, head: h}), onmousemove: e => showTip(e, label), onmouseleave: hideTip}, canvas);
      whenSeen(button, () => drawThumb(canvas, l, h));
      buttons.push(button);
      grid.append(button);
    }
  }
  arrows(grid, (rows, cols) => {
    const layer = clamp(state.layer + rows, 0, L - 1), head = clamp(state.head + cols, 0, H - 1);
    select({layer, head});
    buttons[layer * H + head].focus();
  });
  watch(() => buttons.forEach((b, i) => {
    const mine = i === state.layer * H + state.head;
    b.setAttribute('aria-pressed', mine ? 'true' : 'false');
    b.tabIndex = mine ? 0 : -1;
  }));
  return make('div', {class: 'scroll'}, grid);
}

// The attention map of one head. Rows are queries and columns are keys.
class HeadMap {
  constructor() {
    this.canvas = make('canvas', {tabindex: 0, role: 'img', style: 'cursor:crosshair'});
    this.read = make('p', {class: 'read soft'});
    this.node = make('div', null, make('div', {class: 'scroll', style: 'max-height:760px'}, this.canvas), this.read);
    this.canvas.addEventListener('mousemove', e => this.hover(e));
    this.canvas.addEventListener('mouseleave', () => { this.over = null; hideTip(); });
    this.canvas.addEventListener('click', e => { const p = this.place(e); if (p) select({token: p[0], key: p[1]}); });
    arrows(this.canvas, (rows, cols) => {
      select({token: clamp(state.token + rows, 0, T - 1), key: clamp(state.key + cols, 0, T - 1)});
      say(this.read.textContent);
    });
  }
  place(e) {
    const box = this.canvas.getBoundingClientRect();
    const c = Math.floor((e.clientX - box.left - this.left) / this.cell), r = Math.floor((e.clientY - box.top - this.top) / this.cell);
    return r >= 0 && c >= 0 && r < T && c < T ? [r, c] : null;
  }
  hover(e) {
    const p = this.place(e);
    if (!p) { hideTip(); return; }
    const [i, j] = p, w = headWeights(state.layer, state.head)[i * T + j];
    showTip(e, `query ${i} ${shown(token(i))}\nkey ${j} ${shown(token(j))}\n` + (masked(i, j) ? 'masked' : 'weight ' + fix(w, 4)));
  }
  draw() {
    const w = headWeights(state.layer, state.head);
    const room = Math.min(this.node.parentNode ? this.node.parentNode.clientWidth : 640, innerWidth > 820 ? 660 : innerWidth - 52);
    const labels = T <= 48;
    this.left = labels ? 78 : 0;
    this.top = labels ? 62 : 0;
    this.cell = labels ? clamp(Math.floor((room - this.left) / T), 12, 34) : Math.max(1, Math.floor(room / T));
    const size = this.cell * T, dpr = devicePixelRatio || 1, canvas = this.canvas;
    canvas.width = (this.left + size) * dpr;
    canvas.height = (this.top + size) * dpr;
    canvas.style.width = this.left + size + 'px';
    canvas.style.height = this.top + size + 'px';
    const context = canvas.getContext('2d');
    context.scale(dpr, dpr);
    const cells = this.cells(w);
    context.imageSmoothingEnabled = false;
    context.drawImage(cells, this.left, this.top, size, size);
    if (labels) this.drawLabels(context);
    context.strokeStyle = css('--focus');
    context.lineWidth = 2;
    context.strokeRect(this.left, this.top + state.token * this.cell, size, this.cell);
    context.strokeRect(this.left + state.key * this.cell, this.top + state.token * this.cell, this.cell, this.cell);
    const weight = w[state.token * T + state.key];
    this.read.textContent = `query ${state.token} ${shown(token(state.token))} → key ${state.key} ${shown(token(state.key))}: ` +
      (masked(state.token, state.key) ? 'masked, weight 0' : 'weight ' + fix(weight, 4));
    canvas.setAttribute('aria-label', `Attention of block ${state.layer}, head ${state.head}, one row per query, one column per key; use the arrow keys to move. ${this.read.textContent}`);
  }
  // Returns the image of all weights. The image is cached while only the selection changes.
  cells(w) {
    const name = [state.layer, state.head, dark()].join();
    if (this.drawn !== name) {
      this.drawn = name;
      this.picture = document.createElement('canvas');
      const hidden = dark() ? [20, 23, 29] : [250, 250, 251];
      paint(this.picture, T, T, (i, j) => masked(i, j) ? hidden : weightColour(w[i * T + j]));
    }
    return this.picture;
  }
  drawLabels(context) {
    context.fillStyle = css('--soft');
    context.font = Math.min(12, this.cell) + 'px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';
    context.textBaseline = 'middle';
    for (let t = 0; t < T; ++t) {
      const text = shown(token(t)).slice(0, 9), middle = (t + .5) * this.cell;
      context.textAlign = 'right';
      context.fillText(text, this.left - 6, this.top + middle);
      context.save();
      context.translate(this.left + middle, this.top - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = 'left';
      context.fillText(text, 0, 0);
      context.restore();
    }
  }
}

// Draws the product of query and key for each channel. The sum of the products is the score.
function productBars(layer, head, i, j) {
  const {q, k, qAt, kAt} = queryKey(layer, head);
  const products = Array.from({length: D}, (_, d) => q[qAt(i) + d] * k[kAt(j) + d]);
  return termBars(products, 'Product of query and key for each channel', d => `channel ${d}\nq ${fix(q[qAt(i) + d])} × k ${fix(k[kAt(j) + d])} = ${fix(products[d])}`);
}

function scorePath() {
  const {layer, head, token: i, key: j} = state, row = scoreRow(layer, head, i);
  const dot = row.dots[j], scaled = dot * scale, hidden = masked(i, j);
  const step = (title, value, ...more) => make('li', null, make('b', {text: title}), make('span', {class: 'big', text: value}), ...more);
  return [make('h3', {text: `Score of query ${i} and key ${j}`}),
    make('ol', {class: 'steps'},
      step(`1  dot product of ${D} channels, q·k`, fix(dot, 4), productBars(layer, head, i, j)),
      step(`2  scale: × 1/√${D}`, hidden ? fix(scaled, 4) : fix(scaled, 4)),
      step('3  mask', hidden ? '−∞' : 'visible', make('span', {class: 'soft', text: hidden ? (j > i ? '  the key is after the query' : '  the key is outside the window') : `  key ${j} ≤ query ${i}`})),
      step('4  softmax: exp(score − largest) / sum', hidden ? '0' : fix(row.weights[j], 4),
        make('span', {class: 'soft', text: hidden ? '' : `  exp(${fix(scaled)} − ${fix(row.most)}) / ${fix(row.sum)}`}))),
    rowTable(row, i, j)];
}

function rowTable(row, i, chosen) {
  const keys = [...Array(T).keys()];
  let list = keys;
  if (T > 40) {
    list = keys.filter(j => !masked(i, j)).sort((a, b) => row.weights[b] - row.weights[a]).slice(0, 30);
    if (!list.includes(chosen)) list.push(chosen);
    list.sort((a, b) => a - b);
  }
  const body = make('tbody', null, ...list.map(j => make('tr', {class: j === chosen ? 'chosen' : null, onclick: () => select({key: j}), style: 'cursor:pointer'},
    make('td', {class: 'mono', text: j + ' ' + shown(token(j)).slice(0, 14)}), make('td', {text: fix(row.dots[j])}), make('td', {text: fix(row.dots[j] * scale)}),
    make('td', {text: masked(i, j) ? '−∞' : fix(row.dots[j] * scale)}), make('td', {text: fix(row.weights[j], 4)}))));
  const note = list.length < T ? make('p', {class: 'soft', text: `The ${list.length} keys with the largest weights, of ${keys.filter(j => !masked(i, j)).length} visible keys:`}) : null;
  return make('div', null, note, make('div', {class: 'scroll tall'}, make('table', null,
    make('thead', null, make('tr', null, ...['key', 'q·k', '× 1/√' + D, 'masked', 'weight'].map(t => make('th', {text: t})))), body)));
}

// Shows the prompt. The background colour of each token is the attention weight from the selected query.
function lookText() {
  const weights = scoreRow(state.layer, state.head, state.token).weights;
  return make('p', {class: 'mono', style: 'white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.9;margin:10px 0 0', 'aria-label': 'The prompt, coloured by attention weight'},
    ...meta.tokens.map((_, t) => {
      const c = weightColour(weights[t]), light = (c[0] * .3 + c[1] * .59 + c[2] * .11) > 140;
      return make('span', {text: lineEnds(token(t)), title: fix(weights[t], 4), style: `border-radius:3px;padding:1px 0;${t === state.token ? 'outline:2px solid var(--focus);' : ''}` + (masked(state.token, t) ? 'color:var(--soft)' : `background:${rgb(c)};color:${light ? '#14181f' : '#fff'}`)});
    }));
}

function attentionView() {
  const map = new HeadMap(), path = make('div'), text = make('div'), title = make('h3');
  view('attention', 'Attention', 'Each picture is one head, with one row per query and one column per key. A stronger colour is a larger attention weight. Select a head to see how each weight is computed from a dot product.',
    make('div', {class: 'card'}, headGrid()),
    make('div', {class: 'card', style: 'margin-top:14px'},
      make('div', {class: 'row'}, choice('Block', L, 'layer', 'block'), choice('Head', H, 'head', 'head'), meta.half ? make('span', {class: 'soft', text: 'queries and keys are stored in half precision on this page, so weights are accurate to about 3 digits'}) : null),
      title, text, make('div', {class: 'detail'}, map.node, path)));
  const draw = () => {
    const s = meta.heads[state.layer][state.head];
    title.textContent = `Block ${state.layer}, head ${state.head}: ${s.habit} · entropy ${fix(s.entropy, 2)} bits · mean distance ${fix(s.distance, 1)} tokens`;
    clear(text, lookText());
    clear(path, ...scorePath());
    map.draw();
  };
  let started = false;
  whenSeen(map.node, () => { started = true; draw(); });
  watch(() => { if (started) draw(); });
  addEventListener('resize', () => { if (started) later(() => map.draw()); });
}
