// Shows a response token by token: colored by probability, with the alternatives of each token and the
// available actions.

// Returns the range [start, end) of each token in the text. A template may drop leading spaces of a response,
// and an edited response only has tokens for its end. Positions are therefore counted from the end of the
// text.
function placesOf(message) {
  const shift = message.content.length - message.tokens.reduce((n, t) => n + t[0].length, 0), inside = n => clamp(n, 0, message.content.length);
  let at = shift;
  return message.tokens.map(t => {
    const start = inside(at);
    at += t[0].length;
    return {start, end: inside(at)};
  });
}

const shownToken = (text, name) => text === null ? name || '(part of a character)' : text === '' ? '(nothing yet)' : text.replace(/ /g, '·').replace(/\n/g, '↵').replace(/\t/g, '⇥');
const chance = logprob => Math.exp(Math.min(0, logprob));
// The four levels of probability differ in the underline as well as in the color.
const levelOf = p => p >= 0.8 ? 'sure' : p >= 0.4 ? 'likely' : p >= 0.1 ? 'open' : 'rare';

function noteOfToken(token) {
  const lines = token[2].slice(0, kAlternatives).map(([text, p, name]) => `${percent(chance(p)).padStart(7)}  ${shownToken(text, name)}`);
  return [`${shownToken(token[0])}  ${percent(chance(token[1]), 2)}`, ...lines].join('\n');
}

// The tokens of a message form a single tab stop. The arrow keys move between tokens.
function tokenView(conversation, index) {
  const message = conversation.messages[index], places = placesOf(message), first = places.length ? places[0].start : message.content.length;
  const spans = message.tokens.map((token, i) => make('span', {
    class: 'tok ' + levelOf(chance(token[1])), role: 'button', tabindex: i ? -1 : 0, 'aria-haspopup': 'dialog', 'data-token': i,
    'aria-label': `${shownToken(token[0])}, ${percent(chance(token[1]))}`, text: message.content.slice(places[i].start, places[i].end)}));
  const node = make('div', {class: 'text plain', role: 'group', 'aria-label': 'Tokens of the response. Arrow keys move between tokens, Enter shows alternatives.'}, message.content.slice(0, first), ...spans);
  const tokenAt = target => target.closest && target.closest('[data-token]');
  const open = span => showAlternatives(span, conversation, index, Number(span.dataset.token));
  node.addEventListener('click', event => { if (tokenAt(event.target)) open(tokenAt(event.target)); });
  node.addEventListener('keydown', event => moveOrOpen(event, spans, open));
  node.addEventListener('mousemove', event => { const span = tokenAt(event.target); if (span) showTip(event, noteOfToken(message.tokens[span.dataset.token])); else hideTip(); });
  node.addEventListener('mouseleave', hideTip);
  node.addEventListener('focusin', event => { const span = tokenAt(event.target), box = span && span.getBoundingClientRect(); if (box && span.matches(':focus-visible')) showTip({clientX: box.left, clientY: box.bottom - 10}, noteOfToken(message.tokens[span.dataset.token])); });
  node.addEventListener('focusout', hideTip);
  return node;
}

function moveOrOpen(event, spans, open) {
  const at = spans.indexOf(event.target);
  if (at < 0) return;
  if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); open(spans[at]); return; }
  const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: spans.length - 1}[event.key];
  if (to === undefined || !spans[to]) return;
  event.preventDefault();
  spans[at].tabIndex = -1;
  spans[to].tabIndex = 0;
  spans[to].focus();
}

const alternatives = document.getElementById('alternatives');
let openedBy = null;

function closeAlternatives() {
  if (alternatives.hidden) return;
  alternatives.hidden = true;
  if (openedBy && openedBy.isConnected) openedBy.focus();
  openedBy = null;
}

function alternativeRow(token, alternative, choose) {
  const [text, logprob, title] = alternative, p = chance(logprob), taken = text === token[0];
  const bar = make('span', {class: 'share', 'aria-hidden': 'true'}, make('i', null));
  bar.firstChild.style.width = `${Math.round(100 * p)}%`;
  const name = make('span', {class: 'mono', text: shownToken(text, title)}), share = make('span', {class: 'num', text: percent(p)});
  if (taken || !text) return make('div', {class: 'alternative taken'}, name, bar, share);
  return make('button', {type: 'button', class: 'alternative', 'aria-label': `Continue with ${shownToken(text)} instead, ${percent(p)}`, onclick: choose}, name, bar, share);
}

function showAlternatives(span, conversation, index, tokenIndex) {
  hideTip();
  const message = conversation.messages[index], token = message.tokens[tokenIndex], place = placesOf(message)[tokenIndex];
  const close = act => () => { closeAlternatives(); act(); };
  const rows = token[2].map(a => alternativeRow(token, a, close(() => continueWith(conversation, index, tokenIndex, a))));
  if (!token[2].some(a => a[0] === token[0])) rows.unshift(alternativeRow(token, token, null));
  clear(alternatives,
    make('p', {class: 'soft', text: answering ? 'A response is in progress. Stop it to choose a different token.' : 'Choose a token to continue from here:'}), ...rows,
    make('div', {class: 'row end'},
      make('button', {type: 'button', text: 'Inspect here', onclick: close(() => lookInside(conversation.messages.slice(0, index), message.content.slice(0, place.end)))}),
      make('button', {type: 'button', text: 'Close', onclick: closeAlternatives})));
  if (answering) for (const b of alternatives.querySelectorAll('button.alternative')) b.disabled = true;
  openedBy = span;
  alternatives.hidden = false;
  const box = span.getBoundingClientRect(), width = alternatives.offsetWidth, height = alternatives.offsetHeight;
  alternatives.style.left = clamp(box.left, 8, Math.max(8, innerWidth - width - 8)) + 'px';
  alternatives.style.top = (box.bottom + height + 8 > innerHeight ? Math.max(8, box.top - height - 6) : box.bottom + 6) + 'px';
  alternatives.querySelector('button:not([disabled])').focus();
}

document.addEventListener('keydown', event => { if (event.key === 'Escape') closeAlternatives(); });
document.addEventListener('pointerdown', event => { if (!alternatives.contains(event.target) && !alternatives.hidden) { openedBy = null; closeAlternatives(); } });
