// The parameters view. The view shows the parameter count of each model part, and the parameter values of
// small models.

const COMPONENT_COLOUR = {token_embedding: '--embed', position_embedding: '--embed', head: '--embed', attention: '--attention', mlp: '--mlp', norm: '--norm', final_norm: '--norm'};

// Squarified treemap (Bruls, Huizing & van Wijk 2000). Divides a rectangle among items in proportion to their
// sizes. The items must be sorted from largest to smallest.
function treemap(items, x, y, width, height) {
  const out = [], total = items.reduce((s, i) => s + i.size, 0);
  let rest = items.map(i => ({...i, area: i.size / total * width * height}));
  while (rest.length) {
    const side = Math.min(width, height), row = [];
    let sum = 0, worst = Infinity;
    while (rest.length) {
      const next = sum + rest[0].area;
      const bad = Math.max(...[...row, rest[0]].map(i => Math.max(side * side * i.area / (next * next), next * next / (side * side * i.area))));
      if (bad > worst) break;
      worst = bad;
      sum = next;
      row.push(rest.shift());
    }
    const thick = sum / side;
    let at = 0;
    for (const item of row) {
      const long = item.area / thick;
      out.push(width >= height ? {...item, x, y: y + at, w: thick, h: long} : {...item, x: x + at, y, w: long, h: thick});
      at += long;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
  }
  return out;
}

// Returns the parameters of one layer. Layer -1 stands for the parameters outside the layers.
function itemsOf(layer) {
  return meta.params.filter(p => p.layer === layer && p.size > 0).map(p => ({...p, label: p.name.replace(/^blocks\.\d+\./, '')}));
}
const sizeOf = items => items.reduce((s, i) => s + i.size, 0);

function treeBox(r, total, open) {
  const colour = COMPONENT_COLOUR[r.component] || '--soft';
  const text = `${r.name}${r.shape ? ' ' + shape(r.shape) : ''}\n${thousands(r.size)} parameters, ${percent(r.size / total)}`;
  const wide = r.w > 58;
  return make('g', {onclick: open, style: 'cursor:pointer', onmousemove: e => showTip(e, text), onmouseleave: hideTip},
    make('rect', {x: r.x + 1, y: r.y + 1, width: Math.max(0, r.w - 2), height: Math.max(0, r.h - 2), rx: 3, fill: `var(${colour})`, 'fill-opacity': r.children ? .08 : .3, stroke: `var(${colour})`}),
    wide && r.h > 20 ? make('text', {x: r.x + 7, y: r.y + 16, text: r.label.slice(0, Math.floor((r.w - 8) / 7))}) : null,
    wide && r.h > 38 && !r.children ? make('text', {x: r.x + 7, y: r.y + 32, class: 'soft', text: percent(r.size / total)}) : null);
}

function drawTreemap(layer) {
  const narrow = innerWidth < 600, width = narrow ? 360 : 1100, height = narrow ? 460 : 440;
  const items = itemsOf(layer);
  if (layer < 0) {
    for (let l = 0; l < L; ++l) items.push({name: 'block ' + l, label: 'block ' + l, layer: l, size: sizeOf(itemsOf(l)), children: itemsOf(l)});
  }
  items.sort((a, b) => b.size - a.size);
  const total = sizeOf(items);
  const svg = make('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Parameters by size, ${thousands(total)} in total`, style: 'width:100%'});
  const open = r => () => { if (r.children) openTreemap(r.layer); else if (meta.tensors.some(t => t.name === r.name)) openMatrix(r.name); };
  for (const r of treemap(items, 0, 0, width, height)) {
    svg.append(treeBox(r, total, open(r)));
    if (!r.children || r.w < 12 || r.h < 30) continue;
    const inner = r.children.sort((a, b) => b.size - a.size);
    for (const c of treemap(inner, r.x + 4, r.y + 22, r.w - 8, r.h - 26)) svg.append(treeBox(c, total, open(r)));
  }
  return svg;
}

let openTreemap = () => {};
function treemapView() {
  const holder = make('div'), list = make('select', {'aria-label': 'Part of the model to show', onchange: () => openTreemap(Number(list.value))});
  list.append(make('option', {value: -1, text: 'the whole model'}));
  for (let l = 0; l < L; ++l) list.append(make('option', {value: l, text: 'block ' + l}));
  openTreemap = layer => { list.value = layer; clear(holder, drawTreemap(layer)); };
  const rows = meta.components.map(c => make('tr', null, make('td', {text: c.label}), make('td', {text: thousands(c.total)}), make('td', {text: percent(c.total / meta.parameters)}), make('td', {text: c.per_layer ? thousands(c.per_layer) : ''})));
  rows.push(make('tr', {class: 'chosen'}, make('td', {text: 'total'}), make('td', {text: thousands(meta.parameters)}), make('td', {text: '100.0 %'}), make('td')));
  view('parameters', 'Parameters', 'The area of each rectangle is proportional to its number of parameters. Click a block or select it in the list to see its parts.',
    make('div', {class: 'card'}, make('div', {class: 'row'}, make('label', null, 'Show', list)), holder,
      make('div', {class: 'scroll', style: 'margin-top:12px'}, make('table', null, make('thead', null, make('tr', null, ...['component', 'parameters', 'share', 'per block'].map(t => make('th', {text: t})))), make('tbody', null, ...rows)))),
    cacheTable());
  whenSeen(holder, () => openTreemap(Number(list.value)));
}

function cacheTable() {
  const per = meta.cache_elements;
  const rows = [1, T, C.n_ctx].filter((n, i, all) => all.indexOf(n) === i).map(n => make('tr', null, make('td', {text: thousands(n)}), ...[4, 2, 1].map(b => make('td', {text: bytes(n * per * b)}))));
  return make('div', {class: 'card', style: 'margin-top:14px'}, make('h3', {text: 'KV cache'}),
    make('p', {class: 'soft', text: `Keys and values: 2 × ${L} blocks × ${C.n_kv_head} heads × ${D} channels per token.`}),
    make('div', {class: 'scroll'}, make('table', null, make('thead', null, make('tr', null, ...['tokens', 'fp32', 'bf16', 'int8'].map(t => make('th', {text: t})))), make('tbody', null, ...rows))));
}

// The matrix view. The view shows any matrix as a heat map.
let openMatrix = () => {};
function matrixView() {
  if (!meta.tensors.length) return;
  const list = make('select', {'aria-label': 'Matrix', onchange: () => draw()});
  for (const [label, group] of [['parameters', 'parameter'], ['intermediate results of this prompt', 'activation']]) {
    const entries = meta.tensors.filter(t => t.group === group);
    if (!entries.length) continue;
    const options = make('optgroup', {label});
    for (const t of entries) options.append(make('option', {value: t.name, text: `${t.name} ${shape(t.shape)}`}));
    list.append(options);
  }
  const canvas = make('canvas', {tabindex: 0, role: 'img', style: 'cursor:crosshair'}), read = make('p', {class: 'read soft'}), note = make('p', {class: 'soft'}), origin = make('div', {class: 'origin'});
  let t = null, rows = 0, at = [0, 0];
  const value = (r, c) => t.data[r * t.cols + c];
  const tell = (r, c) => { read.textContent = `row ${r}, column ${c}: ${value(r, c).toPrecision(5)}`; };
  const open = (r, c) => { at = [r, c]; tell(r, c); clear(origin, ...originSteps(t.name, r, c, value(r, c))); };
  const place = e => {
    const box = canvas.getBoundingClientRect();
    return [clamp(Math.floor((e.clientY - box.top) / box.height * rows), 0, rows - 1), clamp(Math.floor((e.clientX - box.left) / box.width * t.cols), 0, t.cols - 1)];
  };
  canvas.addEventListener('mousemove', e => { const [r, c] = place(e); tell(r, c); showTip(e, `[${r}, ${c}] = ${value(r, c).toPrecision(5)}`); });
  canvas.addEventListener('mouseleave', hideTip);
  canvas.addEventListener('click', e => open(...place(e)));
  arrows(canvas, (dr, dc) => { open(clamp(at[0] + dr, 0, rows - 1), clamp(at[1] + dc, 0, t.cols - 1)); say(read.textContent); });
  const draw = () => {
    t = tensor(list.value);
    rows = t.data.length / t.cols;
    let sum = 0, most = 0;
    for (const v of t.data) { sum += v * v; most = Math.max(most, Math.abs(v)); }
    const rms = Math.sqrt(sum / t.data.length);
    paint(canvas, rows, t.cols, (r, c) => signedColour(value(r, c) / Math.max(3 * rms, 1e-12)));
    const room = Math.min(1180, innerWidth - 60), cell = Math.max(1, Math.min(18, Math.floor(room / t.cols)));
    canvas.style.width = Math.min(cell * t.cols, Math.max(room, t.cols)) + 'px';
    canvas.style.height = clamp(cell * rows, 14, 4000) + 'px';
    canvas.setAttribute('aria-label', `Heat map of ${t.name}, ${rows} rows, ${t.cols} columns; use the arrow keys to move`);
    note.textContent = `${t.name} ${shape(t.shape)} · rms ${rms.toPrecision(4)} · largest ${most.toPrecision(4)} · full colour at 3 rms`;
    open(0, 0);
  };
  const section = view('matrices', 'Matrices', 'All values of a matrix: an intermediate result or, for small models, a parameter. Orange is positive, blue is negative. Click a value to see how it was computed.',
    make('div', {class: 'card'}, make('div', {class: 'row'}, make('label', null, 'Matrix', list)), note, make('div', {class: 'scroll', style: 'max-height:620px'}, canvas), read, origin));
  openMatrix = name => { list.value = name; draw(); section.scrollIntoView(); };
  whenSeen(canvas, draw);
}
