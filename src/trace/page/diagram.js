// Draws the architecture from the config. Every box shows an option or a size of the model.

const NORMS = {layer: 'LayerNorm', rms: 'RMSNorm'};
const ACTS = {gelu_tanh: 'GELU (tanh)', gelu: 'GELU', relu: 'ReLU', relu2: 'ReLU²', swiglu: 'SiLU(gate) × fc'};

function normBox(label) {
  return {kind: 'norm', label: NORMS[C.norm], note: label + (C.norm_affine ? (C.norm === 'layer' && C.norm_bias ? ', gain and bias' : ', gain') : ', no parameters')};
}

// Returns the entries of a vertical chain. An entry is a box, a sum, or a wire with the shape of its tensor.
// A sum joins the wire that branched off at the entry with `mark`.
function modelChain() {
  const stream = shape([T, C.n_embd]);
  const chain = [{wire: `${T} ids`}, {kind: 'embed', label: 'Token embedding', note: shape([C.vocab_size, C.n_embd]), wire: stream}];
  if (C.position === 'learned') chain.push({kind: 'embed', label: '+ position embedding', note: shape([C.n_ctx, C.n_embd]), wire: stream});
  if (C.embd_norm) chain.push({kind: 'norm', label: NORMS[C.norm], note: 'embedding norm, no parameters', wire: stream});
  chain.push({kind: 'stream', label: `${L} block${L === 1 ? '' : 's'}`, note: (C.norm_position === 'pre' ? 'norm before' : 'norm after') + ' each sub-layer', wire: stream, href: '#flow', tall: true});
  if (C.final_norm) chain.push({...normBox('final norm'), wire: stream});
  chain.push({kind: 'embed', label: 'Output head', note: C.tie_embeddings ? 'tied to the token embedding' : shape([C.vocab_size, C.n_embd]), wire: shape([T, C.vocab_size])});
  if (C.logit_softcap > 0) chain.push({kind: 'norm', label: 'Softcap', note: `${C.logit_softcap} · tanh(z / ${C.logit_softcap})`, wire: shape([T, C.vocab_size])});
  chain.push({kind: 'stream', label: 'Softmax', note: 'probabilities of the next token', wire: shape([T, C.vocab_size]), href: '#next'});
  return chain;
}

function attentionChain() {
  const heads = shape([T, H, D]), keys = shape([T, C.n_kv_head, D]);
  const qk = C.n_kv_head === H ? `q, k, v: ${heads}` : `q: ${heads}  k, v: ${keys}`;
  const chain = [{kind: 'attention', label: 'Query, key, value', note: `${C.n_embd} → ${(H + 2 * C.n_kv_head) * D}${C.qkv_bias ? ' + bias' : ''}`, wire: qk}];
  if (C.position === 'rope') chain.push({kind: 'attention', label: 'Rotate q and k', note: `by position, base ${thousands(C.rope_theta)}`, wire: qk});
  if (C.qk_norm) chain.push({kind: 'norm', label: 'RMSNorm of q and k', note: 'per head, no parameters', wire: qk});
  chain.push({kind: 'attention', label: 'q·k / √' + D, note: C.sliding_window ? `causal mask, last ${C.sliding_window} keys` : 'causal mask', wire: shape([H, T, T]), href: '#attention'});
  chain.push({kind: 'attention', label: 'Softmax, then × v', note: C.n_kv_head === H ? 'separate v for each head' : `${H / C.n_kv_head} query heads share one KV head`, wire: heads, href: '#attention'});
  chain.push({kind: 'attention', label: 'Projection', note: `${H * D} → ${C.n_embd}${C.out_bias ? ' + bias' : ''}`, wire: shape([T, C.n_embd])});
  return chain;
}

function blockChain() {
  const stream = shape([T, C.n_embd]), pre = C.norm_position === 'pre', wide = shape([T, C.d_ff]);
  const gated = C.act === 'swiglu', chain = [{wire: stream, mark: 'a'}];
  if (pre) chain.push({...normBox('norm 1'), wire: stream});
  chain.push(...attentionChain(), {sum: 'a', wire: stream});
  if (!pre) chain.push({...normBox('norm 1'), wire: stream});
  chain[chain.length - 1].mark = 'b';
  if (pre) chain.push({...normBox('norm 2'), wire: stream});
  chain.push({kind: 'mlp', label: gated ? 'fc and gate' : 'fc', note: `${C.n_embd} → ${gated ? '2 × ' : ''}${C.d_ff}${C.mlp_bias ? ' + bias' : ''}`, wire: gated ? shape([T, 2 * C.d_ff]) : wide});
  chain.push({kind: 'mlp', label: ACTS[C.act], note: 'applied to each neuron', wire: wide, href: '#flow'});
  chain.push({kind: 'mlp', label: 'Projection', note: `${C.d_ff} → ${C.n_embd}${C.mlp_bias ? ' + bias' : ''}`, wire: stream}, {sum: 'b', wire: stream});
  if (!pre) chain.push({...normBox('norm 2'), wire: stream});
  return chain;
}

const KIND_COLOUR = {embed: '--embed', norm: '--norm', attention: '--attention', mlp: '--mlp', stream: '--soft'};

function drawBox(item, x, y, width, height) {
  const colour = `var(${KIND_COLOUR[item.kind]})`;
  const group = make('g', null,
    make('rect', {x, y, width, height, rx: 8, fill: 'var(--card)', stroke: colour, 'stroke-width': 2}),
    make('rect', {x, y: y + 8, width: 5, height: height - 16, fill: colour}),
    make('text', {x: x + 15, y: y + 18, 'font-weight': 600, text: item.label}),
    make('text', {x: x + 15, y: y + 34, class: 'soft', text: item.note}));
  if (!item.href) return group;
  const link = document.createElementNS('http://www.w3.org/2000/svg', 'a');
  link.setAttribute('href', item.href);
  link.setAttribute('aria-label', item.label + ': open the view');
  link.append(group);
  return link;
}

function drawChain(title, chain) {
  const x = 60, boxWidth = 240, boxHeight = 42, gap = 26, middle = x + boxWidth / 2;
  const width = Math.max(360, ...chain.map(item => middle + 12 + 5.8 * (item.wire || '').length));
  const svg = make('svg', {role: 'img', 'aria-label': title});
  const marks = {};
  let y = 6;
  const line = (x1, y1, x2, y2) => svg.append(make('line', {x1, y1, x2, y2, stroke: 'var(--soft)', 'stroke-width': 1.5}));
  for (const item of chain) {
    if (item.sum) {
      const from = marks[item.sum], at = y + 11;
      svg.append(make('path', {d: `M${middle} ${from} H26 V${at} H${middle - 11}`, fill: 'none', stroke: 'var(--embed)', 'stroke-width': 2}),
        make('circle', {cx: middle, cy: at, r: 11, fill: 'var(--card)', stroke: 'var(--embed)', 'stroke-width': 2}),
        make('text', {x: middle, y: at + 5, 'text-anchor': 'middle', 'font-weight': 700, text: '+'}));
      y += 22;
    } else if (item.label) {
      const height = item.tall ? boxHeight + 8 : boxHeight;
      if (item.tall) svg.append(make('rect', {x: x + 8, y: y + 6, width: boxWidth, height: height, rx: 8, fill: 'var(--field)', stroke: 'var(--soft)'}));
      svg.append(drawBox(item, x, y, boxWidth, height));
      y += item.tall ? height + 6 : height;
    }
    if (item.mark) marks[item.mark] = y + 6;
    line(middle, y, middle, y + gap);
    svg.append(make('text', {x: middle + 8, y: y + gap / 2 + 4, class: 'shape', text: item.wire}));
    y += gap;
  }
  svg.append(make('path', {d: `M${middle - 5} ${y - 6} L${middle} ${y} L${middle + 5} ${y - 6}`, fill: 'none', stroke: 'var(--soft)', 'stroke-width': 1.5}));
  svg.setAttribute('viewBox', `0 0 ${width} ${y + 4}`);
  svg.setAttribute('style', `max-width:${width * 1.15}px;margin:0 auto`);
  return make('div', {class: 'card'}, make('h3', {text: title}), svg);
}

// Describes the architecture in words, for readers who prefer text to a diagram.
function inWords() {
  const pre = C.norm_position === 'pre', list = [
    `Each token id selects its row of ${C.n_embd} values from the embedding matrix${C.position === 'learned' ? ', and a learned row for its position is added' : ''}${C.embd_norm ? '; then a norm is applied' : ''}.`,
    `${L} blocks follow. In each block, attention reads ${pre ? 'a normalized copy of the' : 'the'} stream: with ${H} heads, every token attends to ${C.sliding_window ? `the last ${C.sliding_window} tokens` : 'itself and earlier tokens'}. The result is added to the stream${pre ? '' : ', and the sum is normalized'}.`,
    C.position === 'rope' ? 'Only attention uses the position of a token: queries and keys are rotated by position.' : 'The position of a token is part of its vector from the start.',
    `Then an MLP of ${thousands(C.d_ff)} neurons (${ACTS[C.act]}) processes each token separately. Its result is added to the stream${pre ? '' : ', and the sum is normalized again'}.`,
    `${C.final_norm ? 'After a final norm, the' : 'The'} head multiplies the stream with one row per token of the vocabulary. The results are ${thousands(C.vocab_size)} logits${C.logit_softcap > 0 ? `, limited to ±${C.logit_softcap}` : ''}; softmax converts them to probabilities.`];
  return make('ol', {class: 'soft', style: 'margin:14px 0 0;padding-left:20px'}, ...list.map(text => make('li', {text})));
}

function diagramView() {
  const model = drawChain('The model', modelChain());
  model.append(inWords());
  view('architecture', 'Architecture', 'The whole model and one of its blocks, as specified by the config. The labels of the wires are the shapes of the tensors for this prompt.',
    make('div', {class: 'cards two'}, model, drawChain('One block', blockChain())),
    make('p', {class: 'legend'}, ...[['embed', 'embedding and residual stream'], ['norm', 'norm'], ['attention', 'attention'], ['mlp', 'MLP']]
      .map(([kind, text]) => make('span', null, make('i', {style: `background:var(${KIND_COLOUR[kind]})`}), text))));
}
