// The logit lens with the top predictions after every layer, and the final predictions of the model.

const LENS_MODES = {
  top: 'most likely token', p: 'probability of the actual token', rank: 'rank of the actual token',
};

function lensCell(cell, mode) {
  const [id, p, nextP, rank] = cell;
  if (mode === 'top') return {text: shown(nameOf(id)).slice(0, 10), weight: p};
  if (rank === 0) return {text: '', weight: 0};
  return mode === 'p' ? {text: percent(nextP, nextP < .1 ? 1 : 0), weight: nextP} : {text: String(rank), weight: 1 / rank};
}

function lensTable(mode) {
  const window = 64, first = T <= window ? 0 : clamp(state.token - window / 2, 0, T - window), last = Math.min(T, first + window);
  const columns = Array.from({length: last - first}, (_, i) => first + i);
  const head = make('tr', null, make('th', {text: 'after'}), ...columns.map(t => make('th', {class: 'mono', text: shown(token(t)).slice(0, 9), title: 'token ' + t})));
  const rows = meta.lens.map((stage, s) => make('tr', null, make('td', {text: s ? 'block ' + (s - 1) : 'embedding'}), ...columns.map(t => {
    const cell = stage[t], {text, weight} = lensCell(cell, mode), c = weightColour(weight), light = (c[0] * .3 + c[1] * .59 + c[2] * .11) > 140;
    const next = cell[3] ? `\nactual next token: ${shown(nameOf(meta.tokens[t + 1].id))}, ${percent(cell[2], 2)}, rank ${cell[3]}` : '';
    return make('td', {class: 'mono' + (t === state.token ? ' now' : ''), text, style: `background:${rgb(c)};color:${light ? '#14181f' : '#fff'}`,
      onclick: () => select({token: t}), onmouseleave: hideTip,
      onmousemove: e => showTip(e, `${s ? 'after block ' + (s - 1) : 'embedding alone'}, at token ${t}\nprediction ${shown(nameOf(cell[0]))} (${percent(cell[1], 1)})${next}`)});
  })));
  return make('table', {class: 'lens'}, make('thead', null, head), make('tbody', null, ...rows));
}

function lensView() {
  let mode = 'top';
  const holder = make('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Logit lens table'});
  const draw = () => {
    clear(holder, lensTable(mode));
    const now = holder.querySelector('td.now');
    if (now) holder.scrollLeft = now.offsetLeft - holder.clientWidth / 2;
  };
  const buttons = Object.entries(LENS_MODES).map(([key, label]) => make('button', {type: 'button', text: label, 'aria-pressed': key === mode ? 'true' : 'false', onclick: event => {
    mode = key;
    for (const b of buttons) b.setAttribute('aria-pressed', b === event.currentTarget ? 'true' : 'false');
    draw();
  }}));
  view('lens', 'Logit lens', `Predictions if the model stopped after a given block: ${C.final_norm ? 'the final norm and the head are' : 'the head is'} applied to the stream after each block. One column per token of the prompt; a stronger colour is a more confident prediction.`,
    make('div', {class: 'card'}, make('div', {class: 'row'}, ...buttons), holder));
  let started = false;
  whenSeen(holder, () => { started = true; draw(); });
  watch(changed => { if (started && changed.includes('token')) draw(); });
}

// Computes exact probabilities at a temperature. The page contains the logits of the most likely tokens. For
// all other tokens together, the page contains log(sum(exp(logit / temperature))) at every position of the
// temperature slider.
function probabilities(t, step) {
  const p = meta.predictions[t], tau = meta.temperatures[step];
  const scaled = p.top.map(([, z]) => z / tau), most = Math.max(...scaled, p.rest[step]);
  const sum = scaled.reduce((s, z) => s + Math.exp(z - most), 0) + Math.exp(p.rest[step] - most);
  return {top: p.top.map(([id, z], i) => ({id, logit: z, p: Math.exp(scaled[i] - most) / sum})), rest: Math.exp(p.rest[step] - most) / sum};
}

function nextView() {
  const normal = meta.temperatures.indexOf(1);
  const bars = make('div', {class: 'bars'}), title = make('h3'), note = make('p', {class: 'soft'}), value = make('span', {class: 'big'});
  const slider = make('input', {type: 'range', min: 0, max: meta.temperatures.length - 1, step: 1, value: normal, 'aria-label': 'Temperature', oninput: () => draw()});
  const draw = () => {
    const step = Number(slider.value), t = state.token, {top, rest} = probabilities(t, step), p = meta.predictions[t];
    value.textContent = fix(meta.temperatures[step], 2);
    slider.setAttribute('aria-valuetext', value.textContent);
    title.textContent = `After token ${t}: ${shown(token(t))}`;
    const most = Math.max(...top.map(c => c.p), rest, 1e-9);
    clear(bars, ...top.flatMap(c => [make('span', {class: 'mono', text: shown(nameOf(c.id)).slice(0, 18), title: 'id ' + c.id + ', logit ' + fix(c.logit, 4)}),
      make('i', {style: `width:${100 * c.p / most}%`, class: c.id === p.next ? 'came' : null}), make('span', {text: percent(c.p, 2)})]),
    make('span', {class: 'soft', text: 'all other tokens'}), make('i', {style: `width:${100 * rest / most}%;opacity:.35`}), make('span', {text: percent(rest, 2)}));
    note.textContent = `Entropy at temperature 1: ${fix(p.entropy, 2)} bits. ` + (p.rank ? `The actual next token, ${shown(nameOf(p.next))}, has rank ${p.rank} and probability ${percent(p.nextP, 2)}.` : 'This is the last token of the prompt, so the actual next token is unknown.');
  };
  view('next', 'Next token', 'Probabilities of the next token after the selected token. Low temperatures sharpen the distribution, high temperatures flatten it.',
    make('div', {class: 'card'}, make('div', {class: 'row'}, make('label', null, 'Temperature', slider), value,
      make('button', {type: 'button', text: 'reset to 1', onclick: () => { slider.value = normal; draw(); }})), title, bars, note));
  watch(changed => { if (changed.includes('token')) draw(); });
}
