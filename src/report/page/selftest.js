// Opened as report.html#selftest, the page tests all of its charts and writes the result to <pre
// id="selftest">: "PASS n checks", or FAIL and the reasons. The code does not run for normal visitors.

const problems = [];
addEventListener('error', event => problems.push('error: ' + event.message));
addEventListener('unhandledrejection', event => problems.push('rejected: ' + event.reason));
addEventListener('securitypolicyviolation', event => problems.push('policy: ' + event.violatedDirective));

function selfTest() {
  let checks = 0;
  const check = (ok, what) => { ++checks; if (!ok) problems.push(what); };
  try {
    check(charts.length > 0, 'no chart');
    testAxes(check);
    for (const chart of charts) testChart(chart, check);
    for (const button of document.querySelectorAll('#curves button')) for (let twice = 0; twice < 2; ++twice) button.click();
    const slider = document.querySelector('#curves input');
    for (const value of [0, 100, 33]) { slider.value = value; slider.dispatchEvent(new Event('input')); }
    for (const name of ['dark', 'light']) setTheme(name);
    check(document.documentElement.scrollWidth <= innerWidth + 1, `the page is wider than the window: ${document.documentElement.scrollWidth} > ${innerWidth}`);
    check(!document.querySelector('#curves').innerHTML.match(/NaN|undefined|Infinity/), 'a chart shows NaN, undefined or Infinity');
    check([...document.querySelectorAll('button, input, svg[tabindex]')].every(n => n.textContent.trim() || n.getAttribute('aria-label')), 'a control has no name');
    check(document.querySelectorAll('script').length === 2 && !document.querySelector('img, iframe, object, link'), 'unexpected element');
  } catch (error) {
    problems.push(String(error.stack || error));
  }
  const text = problems.length ? 'FAIL\n' + problems.slice(0, 20).join('\n') : `PASS ${checks} checks`;
  document.body.append(make('pre', {id: 'selftest', text}));
}

function testAxes(check) {
  check(linearTicks(0, 10, 5).join() === '0,2,4,6,8,10', 'linear ticks: ' + linearTicks(0, 10, 5));
  check(logTicks(1, 1000, 4).includes(10), 'log ticks: ' + logTicks(1, 1000, 4));
  check(smooth([0, 1, 2, 3], [1, 1, null, 1], 3).join() === '1,1,,1', 'smoothing changes a constant');
  check(nearest([0, 10, 20], 14) === 1 && nearest([0, 10, 20], 16) === 2, 'nearest');
}

// Checks that a toggle button reports its state and shows it.
function testSwitch(button, on, name, check) {
  const look = () => getComputedStyle(button).backgroundColor, pressed = () => button.getAttribute('aria-pressed');
  for (let twice = 0; twice < 2; ++twice) {
    check(pressed() === String(on()), `${name}: ${on()}, but its button says ${pressed()}`);
    const before = look();
    button.click();
    check(look() !== before, `${name}: its button looks the same when it is ${on()}`);
  }
}

function testChart(chart, check) {
  const name = chart.o.title, press = (key, shiftKey) => chart.svg.dispatchEvent(new KeyboardEvent('keydown', {key, shiftKey, bubbles: true}));
  press('ArrowRight');
  press('ArrowRight');
  check(/^step [\d,]+: .*\d/.test(chart.read.textContent), `${name}: read-out "${chart.read.textContent}"`);
  check(shared.zoom || chart.all[1] - chart.all[0] < 20 || chart.xTicks(chart.all).length > 2, `${name}: ${chart.xTicks(chart.all).length} x axis labels`);
  const before = chart.svg.innerHTML;
  testSwitch(chart.log, () => chart.logY, `${name}: log y`, check);
  const box = chart.svg.getBoundingClientRect();
  const pointer = (type, share) => chart.svg.dispatchEvent(new PointerEvent(type, {clientX: box.left + box.width * share, clientY: box.top + 20, button: 0, bubbles: true}));
  const wide = chart.all[1] > chart.all[0];
  pointer('pointerdown', 0.4); pointer('pointermove', 0.6); pointer('pointerup', 0.6);
  check(!wide || (shared.zoom && shared.zoom[1] > shared.zoom[0]), `${name}: dragging does not zoom`);
  press('ArrowRight', true);
  press('+'); press('-');
  chart.svg.dispatchEvent(new MouseEvent('dblclick', {bubbles: true}));
  check(shared.zoom === null, `${name}: a double click does not reset`);
  press('+');
  check(!wide || shared.zoom !== null, `${name}: + does not zoom`);
  press('0');
  check(shared.zoom === null, `${name}: 0 does not reset`);
  clear(chart.cursor);
  check(chart.svg.innerHTML.length > 100 && before.length > 100, `${name}: nothing drawn`);
}
