// The header of the page: facts about the model, the tokens of the prompt, and the switch between light and
// dark.

function facts(list) {
  return make('dl', {class: 'facts'}, ...list.map(([name, value]) =>
    make('div', null, make('dt', {text: name}), make('dd', {text: value}))));
}

function drawOverview() {
  document.title = 'gpt trace · ' + meta.model;
  const heads = C.n_kv_head === H ? `${H} × ${D}` : `${H} × ${D}, ${C.n_kv_head} KV heads`;
  clear(document.getElementById('overview'),
    make('h1', {text: 'Forward pass of ' + meta.model}),
    make('p', {class: 'about', text:
      `One forward pass over ${T} token${T === 1 ? '' : 's'}, with all intermediate results. Select a token above (click, or use the arrow keys); all views show this token.`}),
    facts([['parameters', thousands(meta.parameters)], ['blocks', L], ['width', C.n_embd], ['heads', heads],
      ['MLP', thousands(C.d_ff)], ['vocabulary', thousands(C.vocab_size)], ['context', thousands(C.n_ctx)],
      ['computed in', meta.computed]]));
}

function drawStrip() {
  const strip = document.getElementById('strip');
  meta.tokens.forEach((entry, t) => strip.append(make('div', {
    class: 'token', role: 'option', id: 'token-' + t, text: shown(token(t)),
    title: `token ${t}, id ${entry.id}${entry.hex ? ', bytes ' + entry.hex : ''}`,
    onclick: () => select({token: t})})));
  arrows(strip, (rows, cols) => select({token: clamp(state.token + rows + cols, 0, T - 1)}));
  strip.addEventListener('keydown', event => {
    if (event.key !== 'Home' && event.key !== 'End') return;
    event.preventDefault();
    select({token: event.key === 'Home' ? 0 : T - 1});
  });
  let before = null;
  watch(changed => {
    if (!changed.includes('token')) return;
    if (before) before.setAttribute('aria-selected', 'false');
    before = strip.children[state.token];
    before.setAttribute('aria-selected', 'true');
    strip.setAttribute('aria-activedescendant', before.id);
    strip.scrollLeft = before.offsetLeft - strip.clientWidth / 2;
    say(`token ${state.token}: ${token(state.token)}`);
  });
}

function followNav() {
  if (!('IntersectionObserver' in window)) return;
  const links = [...document.querySelectorAll('#nav a')];
  const observer = new IntersectionObserver(entries => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links) link.setAttribute('aria-current', link.hash === '#' + entry.target.id ? 'true' : 'false');
    }
  }, {rootMargin: '-25% 0px -65% 0px'});
  for (const section of document.querySelectorAll('main section[id]')) observer.observe(section);
}
