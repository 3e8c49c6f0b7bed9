// The self-test of the page. If the page is opened as page.html#selftest, it operates all of its views and
// writes the result to <pre id="selftest">: "PASS n checks", or FAIL and the reasons. The self-test is not
// part of normal use.

const problems = [];
addEventListener('error', event => problems.push('error: ' + event.message));
addEventListener('unhandledrejection', event => problems.push('rejected: ' + event.reason));
addEventListener('securitypolicyviolation', event => problems.push('policy: ' + event.violatedDirective));

function selfTest() {
  let checks = 0;
  const check = (ok, what) => { ++checks; if (!ok) problems.push(what); };
  const near = (a, b, tolerance, what) => check(Math.abs(a - b) <= tolerance, `${what}: ${a}, expected ${b}`);
  try {
    drawAll();
    testHeads(check, near);
    testClicks(check);
    testPredictions(near);
    testOrigins(near);
    for (const text of document.querySelectorAll('#architecture svg text')) {
      const box = text.getBBox(), room = text.ownerSVGElement.viewBox.baseVal.width;
      check(box.x + box.width <= room, `the diagram truncates ${text.textContent}: ${box.x + box.width} > ${room}`);
    }
    for (const name of ['dark', 'light']) { setTheme(name); drawAll(); }
    check(document.documentElement.scrollWidth <= innerWidth + 1, `the page is wider than the window: ${document.documentElement.scrollWidth} > ${innerWidth}`);
    check(!document.querySelector('main').textContent.match(/NaN|undefined/), 'a view shows NaN or undefined');
  } catch (error) {
    problems.push(String(error.stack || error));
  }
  const text = problems.length ? 'FAIL\n' + problems.slice(0, 20).join('\n') : `PASS ${checks} checks`;
  document.body.append(make('pre', {id: 'selftest', text}));
}

// Checks that the attention weights computed by the page agree with the statistics computed by the program.
function testHeads(check, near) {
  const tolerance = meta.half ? 2e-2 : 1e-4;
  for (let l = 0; l < L; ++l) {
    for (let h = 0; h < H; ++h) {
      const w = headWeights(l, h);
      let entropy = 0, self = 0;
      for (let i = 0; i < T; ++i) {
        let sum = 0;
        for (let j = 0; j < T; ++j) {
          const p = w[i * T + j];
          sum += p;
          if (p > 0) entropy -= p * Math.log2(p) / T;
          if (masked(i, j)) check(p === 0, `a masked weight at ${l} ${h} ${i} ${j}`);
        }
        near(sum, 1, 1e-4, `row ${i} of block ${l}, head ${h}`);
        self += w[i * T + i] / T;
      }
      // scoreRow computes a single row and must return the same weights as headWeights.
      for (const i of [0, T >> 1, T - 1]) {
        const row = scoreRow(l, h, i).weights;
        for (let j = 0; j < T; ++j) near(row[j], w[i * T + j], 1e-5, `score ${i}, ${j} of block ${l}, head ${h}`);
      }
      near(entropy, meta.heads[l][h].entropy, tolerance, `entropy of block ${l}, head ${h}`);
      near(self, meta.heads[l][h].self, tolerance, `weight on the token itself in block ${l}, head ${h}`);
    }
  }
}

// For every matrix with a known origin, checks that the terms of a value sum to the value. The tolerance
// allows for weights in half precision.
function testOrigins(near) {
  for (const entry of meta.tensors) {
    const origin = originOf(entry.name);
    if (!origin) continue;
    const t = tensor(entry.name), rows = t.data.length / t.cols;
    for (const [r, c] of [[0, 0], [rows - 1, t.cols - 1], [rows >> 1, t.cols >> 1]]) {
      const {terms, bias} = termsOf(origin, r, c), size = terms.reduce((s, x) => s + Math.abs(x), Math.abs(bias));
      near(terms.reduce((s, x) => s + x, bias), t.data[r * t.cols + c], 1e-5 + 1e-3 * size, `${entry.name}[${r}, ${c}]`);
    }
  }
}

function testClicks(check) {
  for (const link of document.querySelectorAll('#nav a')) check(document.querySelector(link.hash) !== null, 'no view ' + link.hash);
  const press = (node, key) => node.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
  const strip = document.getElementById('strip');
  for (const key of ['Home', 'ArrowRight', 'End', 'ArrowLeft']) press(strip, key);
  for (let t = 0; t < Math.min(T, 8); ++t) { strip.children[t].click(); check(state.token === t, 'token ' + t + ' was not selected'); }
  for (const node of document.querySelectorAll('canvas[tabindex]')) for (const key of ['ArrowDown', 'ArrowRight', 'ArrowUp', 'ArrowLeft']) press(node, key);
  const heads = [...document.querySelectorAll('.heads button')];
  check(heads.length === L * H, 'heads: ' + heads.length);
  for (const button of heads.slice(0, 24)) { button.click(); check(button.getAttribute('aria-pressed') === 'true', 'a head was not selected'); }
  press(document.querySelector('.heads'), 'ArrowRight');
  for (const list of document.querySelectorAll('select')) {
    for (const option of [...list.options].slice(0, 60)) {
      list.value = option.value;
      list.dispatchEvent(new Event('change'));
      drawAll();
    }
  }
  for (const button of [...document.querySelectorAll('main button:not(.heads button)')].slice(0, 80)) { button.click(); drawAll(); }
  for (const rect of [...document.querySelectorAll('#parameters svg g')].slice(0, 20)) { rect.dispatchEvent(new MouseEvent('mousemove', {clientX: 5, clientY: 5})); rect.dispatchEvent(new MouseEvent('click')); drawAll(); }
  for (const node of document.querySelectorAll('canvas, .lens td')) node.dispatchEvent(new MouseEvent('mousemove', {clientX: 50, clientY: 50, bubbles: true}));
  check([...document.querySelectorAll('main section')].every(s => s.id === 'overview' || s.querySelector('.about').textContent.length > 40), 'a view has no description');
  check([...document.querySelectorAll('button, select, input, canvas[tabindex], [role=listbox]')].every(n => n.textContent.trim() || n.getAttribute('aria-label')), 'a control has no label');
}

function testPredictions(near) {
  const slider = document.querySelector('input[type=range]');
  for (let t = 0; t < T; ++t) {
    for (let step = 0; step < meta.temperatures.length; step += 5) {
      const {top, rest} = probabilities(t, step);
      near(top.reduce((s, c) => s + c.p, rest), 1, 1e-9, `probabilities at token ${t}`);
    }
    const now = probabilities(t, meta.temperatures.indexOf(1));
    near(now.top[0].p, meta.predictions[t].first, 1e-5, `most likely token at ${t}`);
  }
  for (const value of [0, slider.max, meta.temperatures.indexOf(1)]) { slider.value = value; slider.dispatchEvent(new Event('input')); }
}
