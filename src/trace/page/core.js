// Code that all views share: the data of the page, the selected token, layer and head, and small helpers.

const meta = JSON.parse(document.getElementById('meta').textContent);
const C = meta.config, T = meta.tokens.length, L = C.n_layer, H = C.n_head, D = C.head_dim;

// The current selection, which all views follow. `key` is the selected key in the attention view.
const state = {token: T - 1, layer: 0, head: 0, key: Math.max(0, T - 2)};
const watchers = [];
const watch = f => { watchers.push(f); f(Object.keys(state)); };
function select(changes) {
  const changed = Object.keys(changes).filter(k => state[k] !== changes[k]);
  if (!changed.length) return;
  Object.assign(state, changes);
  for (const f of watchers) f(changed);
}

// Creates a view: a section with a title, a sentence that explains the view, and the content.
function view(id, title, about, ...children) {
  const section = make('section', {id, 'aria-labelledby': id + '-title'},
    make('h2', {id: id + '-title', text: title}), make('p', {class: 'about', text: about}), ...children);
  document.getElementById('main').append(section);
  document.getElementById('nav').append(make('a', {href: '#' + id, text: title}));
  return section;
}

const shape = dims => '[' + dims.join(', ') + ']';
function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  while (n >= 1024 && u < 4) { n /= 1024; ++u; }
  return (u ? n.toPrecision(3) : n) + ' ' + units[u];
}

const nameOf = id => meta.texts[id] === undefined ? '#' + id : meta.texts[id];
const token = t => nameOf(meta.tokens[t].id);
// Replaces the symbols for line end and tab with arrows. `shown` also makes spaces visible.
const lineEnds = text => text.replace(/\u240a/g, '↵').replace(/\u2409/g, '⇥');
const shown = text => lineEnds(text).replace(/ /g, '·');

// Tensors are stored in the page as base64 text. They are decoded on first use.
const unpacked = new Map();
let halfTable = null;
function halfValue(h) {
  if (!halfTable) {
    halfTable = new Float32Array(65536);
    for (let i = 0; i < 65536; ++i) {
      const sign = i & 0x8000 ? -1 : 1, e = i >> 10 & 31, m = i & 1023;
      halfTable[i] = sign * (e === 0 ? m * 2 ** -24 : e === 31 ? (m ? NaN : Infinity) : (1 + m / 1024) * 2 ** (e - 15));
    }
  }
  return halfTable[h];
}
function tensor(name) {
  if (unpacked.has(name)) return unpacked.get(name);
  const entry = meta.tensors.find(t => t.name === name);
  if (!entry) return null;
  const text = atob(document.getElementById('t-' + name).textContent);
  const raw = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) raw[i] = text.charCodeAt(i);
  let data;
  if (entry.type === 'f32') data = new Float32Array(raw.buffer);
  else {
    const half = new Uint16Array(raw.buffer);
    data = new Float32Array(half.length);
    for (let i = 0; i < half.length; ++i) data[i] = halfValue(half[i]);
  }
  const out = {name, shape: entry.shape, data, cols: entry.cols};
  unpacked.set(name, out);
  return out;
}

function mix(a, b, x) { return [0, 1, 2].map(i => Math.round(a[i] + (b[i] - a[i]) * x)); }
// Returns the colour of an attention weight, from the card background for 0 to the full colour for 1. The
// square root makes small weights visible.
function weightColour(w) {
  const x = Math.sqrt(Math.min(Math.max(w, 0), 1));
  return dark() ? mix([30, 36, 46], [190, 220, 255], x) : mix([240, 243, 248], [10, 60, 150], x);
}
// Returns the colour of a signed value: blue for negative, background for zero, orange for positive. These
// colours are distinguishable with all types of colour vision.
function signedColour(x) {
  const zero = dark() ? [28, 33, 41] : [246, 247, 249];
  const end = x < 0 ? (dark() ? [90, 165, 255] : [25, 90, 190]) : (dark() ? [255, 160, 80] : [190, 80, 10]);
  return mix(zero, end, Math.sqrt(Math.min(Math.abs(x), 1)));
}
const rgb = c => 'rgb(' + c.join(',') + ')';

// Draws one pixel per cell. The style sheet scales the canvas.
function paint(canvas, rows, cols, colour) {
  canvas.width = Math.max(cols, 1);
  canvas.height = Math.max(rows, 1);
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, canvas.height);
  for (let r = 0, at = 0; r < rows; ++r) {
    for (let c = 0; c < cols; ++c, at += 4) {
      const [red, green, blue] = colour(r, c);
      image.data[at] = red; image.data[at + 1] = green; image.data[at + 2] = blue; image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

// Draws a node when it first becomes visible, and again when the theme changes.
const waiting = new Map();
const seen = 'IntersectionObserver' in window ? new IntersectionObserver(entries => {
  for (const entry of entries) {
    if (!entry.isIntersecting || !waiting.has(entry.target)) continue;
    const draw = waiting.get(entry.target);
    waiting.delete(entry.target);
    seen.unobserve(entry.target);
    later(draw);
  }
}, {rootMargin: '300px'}) : null;
function whenSeen(node, draw) {
  let drawn = false;
  const run = () => { drawn = true; draw(); };
  themed.push(() => { if (drawn) later(draw); });
  if (!seen) { later(run); return; }
  waiting.set(node, run);
  seen.observe(node);
}
// Runs queued work in time slices of 12 ms so that scrolling stays smooth.
const queue = [];
let busy = false;
function later(work) {
  queue.push(work);
  if (busy) return;
  busy = true;
  const next = () => {
    const until = performance.now() + 12;
    while (queue.length && performance.now() < until) queue.shift()();
    if (queue.length) setTimeout(next, 0); else busy = false;
  };
  setTimeout(next, 0);
}

// Draws all nodes immediately, including nodes that have not been visible yet. Used for printing and by the
// self-test.
function drawAll() {
  for (const [node, draw] of [...waiting]) {
    waiting.delete(node);
    seen.unobserve(node);
    draw();
  }
  while (queue.length) queue.shift()();
}
printed.push(drawAll);

// Handles arrow keys on a grid: calls move(rows, columns).
function arrows(node, move) {
  const steps = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  node.addEventListener('keydown', event => {
    const step = steps[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(step[0], step[1]);
  });
}

function choice(label, count, key, prefix) {
  const list = make('select', {'aria-label': label, onchange: () => select({[key]: Number(list.value)})});
  for (let i = 0; i < count; ++i) list.append(make('option', {value: i, text: prefix + ' ' + i}));
  watch(changed => { if (changed.includes(key)) list.value = state[key]; });
  return make('label', null, label, list);
}
