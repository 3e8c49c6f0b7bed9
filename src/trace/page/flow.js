// The view of one layer. The view shows every step of the layer for the selected token.

function stepKind(name) {
  if (name.startsWith('norm')) return 'norm';
  if (name.startsWith('mlp')) return 'mlp';
  return ['in', 'mid', 'out', 'sum'].includes(name) ? 'stream' : 'attention';
}

// Every new selection creates new strips. Strips that are still on the page are redrawn when the theme
// changes.
let strips = [];
themed.push(() => {
  strips = strips.filter(([canvas]) => canvas.isConnected);
  for (const [, draw] of strips) draw();
});

// Draws the vector of the selected token as a strip of cells.
function vectorStrip(name) {
  const t = tensor(name);
  return t ? rowStrip(t) : null;
}
function rowStrip(t) {
  const canvas = make('canvas', {role: 'img', 'aria-label': 'The vector of token ' + state.token});
  const row = t.data.subarray(state.token * t.cols, (state.token + 1) * t.cols);
  let most = 1e-12;
  for (const v of row) most = Math.max(most, Math.abs(v));
  const draw = () => paint(canvas, 1, t.cols, (_, c) => signedColour(row[c] / most));
  draw();
  strips.push([canvas, draw]);
  canvas.addEventListener('mousemove', e => {
    const box = canvas.getBoundingClientRect(), c = clamp(Math.floor((e.clientX - box.left) / box.width * t.cols), 0, t.cols - 1);
    showTip(e, `channel ${c}: ${row[c].toPrecision(4)}`);
  });
  canvas.addEventListener('mouseleave', hideTip);
  return canvas;
}

function stepCard(step) {
  const full = `blocks.${state.layer}.${step.name}`, isWeights = step.name === 'attention';
  const card = make('div', {class: 'step ' + stepKind(step.name)},
    make('h3', null, make('span', {text: step.name}), make('span', {class: 'soft', text: shape(step.shape)})),
    isWeights ? null : vectorStrip(full), make('p', {text: step.about}),
    make('p', {text: isWeights ? 'rms ' + fix(step.rms) : `|x| of this token ${fix(step.norms[state.token])} · all values: ${fix(step.low, 2)} to ${fix(step.high, 2)}`}));
  if (isWeights) card.append(make('a', {href: '#attention', text: 'show the heads'}));
  else if (meta.tensors.some(t => t.name === full)) card.append(make('button', {type: 'button', class: 'link', text: 'show all tokens as a heat map', onclick: () => openMatrix(full)}));
  return card;
}

function changeLine(layer) {
  const parts = [['attention', 'attention'], ['MLP', 'mlp'], ['the whole block', 'block']].map(([name, key]) => {
    const c = meta.changes[layer][key];
    return make('tr', null, make('td', {text: name}), make('td', {text: key === 'block' ? '' : fix(c.added)}), make('td', {text: fix(c.absolute)}), make('td', {text: percent(c.relative)}), make('td', {text: fix(c.cosine)}));
  });
  return make('div', {class: 'scroll'}, make('table', null,
    make('thead', null, make('tr', null, ...['all tokens', '|added|', '|after − before|', 'relative to |before|', 'cosine'].map(t => make('th', {text: t})))),
    make('tbody', null, ...parts)));
}

function neurons(layer) {
  const m = meta.mlp[layer], top = m.top[state.token];
  return make('p', {class: 'soft', text: `MLP: ${percent(m.active)} of all (token, neuron) pairs are active; ${percent(m.never)} of the ${C.d_ff} neurons are inactive for all tokens. Strongest neurons of this token: ` +
    top.map(([index, value]) => `${index} (${value > 0 ? '+' : '−'}${fix(Math.abs(value), 2)})`).join('  ')});
}

function flowView() {
  const flow = make('div', {class: 'flow'}), below = make('div', {style: 'margin-top:14px'}), title = make('span', {class: 'soft'});
  view('flow', 'Inside a block', 'The steps of one block in order. Each strip is the vector of the selected token after this step: orange is positive, blue is negative, and full colour is the largest absolute value of the strip.',
    make('div', {class: 'card'}, make('div', {class: 'row'}, choice('Block', L, 'layer', 'block'), title), flow, below));
  const draw = () => {
    title.textContent = `token ${state.token}: ${shown(token(state.token))}`;
    clear(flow, ...meta.steps[state.layer].map(stepCard));
    clear(below, changeLine(state.layer), neurons(state.layer));
  };
  let started = false;
  whenSeen(flow, () => { started = true; draw(); });
  watch(changed => { if (started && (changed.includes('token') || changed.includes('layer'))) draw(); });
}
