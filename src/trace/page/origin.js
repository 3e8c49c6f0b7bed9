// Shows how an element of a matrix was computed: as the sum of products of two rows, or as the sum of two
// values.

const post = C.norm_position === 'post';
// Each entry contains a result of a layer, its input, and the matrix that the input is multiplied with.
const products = [
  ['q.projected', post ? 'in' : 'norm1.out', 'attn.q'], ['k.projected', post ? 'in' : 'norm1.out', 'attn.k'],
  ['q', post ? 'in' : 'norm1.out', 'attn.q'], ['k', post ? 'in' : 'norm1.out', 'attn.k'],
  ['v', post ? 'in' : 'norm1.out', 'attn.v'], ['attention.out', 'heads', 'attn.out'],
  ['mlp.gate', post ? 'norm1.out' : 'norm2.out', 'mlp.gate'], ['mlp.fc', post ? 'norm1.out' : 'norm2.out', 'mlp.fc'],
  ['mlp.out', 'mlp.hidden', 'mlp.proj'],
];
const sums = [['mid', 'in', 'attention.out'], ['out', 'mid', 'mlp.out'], ['sum', 'norm1.out', 'mlp.out']];
const carried = name => meta.tensors.some(t => t.name === name);

// Returns {input, weight, bias} for a product and {parts} for a sum. Returns null if the page does not
// contain these tensors.
function originOf(name) {
  if (name === 'logits') return C.logit_softcap ? null : wholeProduct('final_norm.out', C.tie_embeddings ? 'wte.weight' : 'head.weight', 'head.bias');
  const match = name.match(/^(blocks\.\d+\.)(.+)$/);
  if (!match) return null;
  const [, block, step] = match;
  const sum = sums.find(s => s[0] === step), product = products.find(p => p[0] === step);
  if (sum && !(post && step === 'out')) {
    const parts = sum.slice(1).map(s => block + s);
    return parts.every(carried) ? {parts} : null;
  }
  if (!product || (step.length === 1 && carried(block + step + '.projected'))) return null;
  if (step.length === 1 && step !== 'v' && (C.position === 'rope' || C.qk_norm)) return null;
  return wholeProduct(block + product[1], block + product[2] + '.weight', block + product[2] + '.bias');
}
function wholeProduct(input, weight, bias) {
  return carried(input) && carried(weight) ? {input, weight, bias: carried(bias) ? bias : null} : null;
}

// Returns the terms whose sum is the value in row r and column c.
function termsOf(origin, r, c) {
  if (origin.parts) return {terms: origin.parts.map(p => { const t = tensor(p); return t.data[r * t.cols + c]; }), bias: 0};
  const x = tensor(origin.input), w = tensor(origin.weight);
  const terms = Array.from({length: x.cols}, (_, i) => x.data[r * x.cols + i] * w.data[c * w.cols + i]);
  return {terms, bias: origin.bias ? tensor(origin.bias).data[c] : 0};
}

// Draws one bar for every term. Positive terms are orange and point up; negative terms are blue and point
// down.
function termBars(terms, label, tell) {
  const most = Math.max(...terms.map(Math.abs), 1e-9), width = 320, height = 56, bar = width / terms.length;
  const svg = make('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, style: 'width:100%;max-width:420px;height:56px', preserveAspectRatio: 'none'});
  terms.forEach((p, i) => svg.append(make('rect', {x: i * bar + bar * .1, width: bar * .8, y: p > 0 ? height / 2 - p / most * height / 2 : height / 2, height: Math.max(.5, Math.abs(p) / most * height / 2),
    fill: p > 0 ? 'var(--second)' : 'var(--accent)', onmousemove: e => showTip(e, tell(i)), onmouseleave: hideTip})));
  svg.append(make('line', {x1: 0, x2: width, y1: height / 2, y2: height / 2, stroke: 'var(--soft)', 'stroke-width': .6}));
  return svg;
}

function originSteps(name, r, c, value) {
  const origin = originOf(name), title = make('h3', {text: `Computation of ${name}[${r}, ${c}]`});
  if (!origin) return [];
  const {terms, bias} = termsOf(origin, r, c), local = s => s.replace(/^blocks\.\d+\./, '');
  if (origin.parts) {
    return [title, make('p', {text: `${local(origin.parts[0])} ${fix(terms[0], 4)} + ${local(origin.parts[1])} ${fix(terms[1], 4)} = ${fix(value, 4)}`})];
  }
  const x = tensor(origin.input), w = tensor(origin.weight);
  const term = i => `${fix(x.data[r * x.cols + i])} × ${fix(w.data[c * w.cols + i])} = ${fix(terms[i])}`;
  const order = [...terms.keys()].sort((a, b) => Math.abs(terms[b]) - Math.abs(terms[a])).slice(0, 5);
  return [title,
    make('p', {text: `Row ${r} of ${local(origin.input)} times row ${c} of ${local(origin.weight)}, ${terms.length} channels` + (origin.bias ? `, plus the bias ${fix(bias, 4)}` : '') + `: ${fix(value, 4)}`}),
    termBars(terms, 'Product of each channel', i => `channel ${i}\n${term(i)}`),
    make('p', {class: 'soft', text: 'largest products: ' + order.map(i => `channel ${i}: ${term(i)}`).join('; ')})];
}
