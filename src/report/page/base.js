'use strict';
// Code for all pages: elements, number formats, the tooltip, light and dark themes.

// All elements are created by this function, which inserts text only as text and never as markup.
function make(tag, attributes, ...children) {
  const svg = ['svg', 'g', 'rect', 'path', 'line', 'text', 'circle', 'polyline', 'title'].includes(tag);
  const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined) continue;
    // These attributes need the strings "true" and "false".
    if (name.startsWith('aria-')) node.setAttribute(name, String(value));
    else if (value === false) continue;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'text') node.textContent = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter(c => c !== null && c !== undefined));
  return node;
}
const clear = (node, ...children) => { node.replaceChildren(...children); return node; };

// Number formats. The number of decimals is fixed, so that columns align.
const fix = (x, digits = 3) => Number.isFinite(x) ? x.toFixed(digits) : x < 0 ? '−∞' : String(x);
const percent = (p, digits = 1) => (100 * p).toFixed(digits) + ' %';
const thousands = n => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ',');

// Colours of the current theme.
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = () => document.documentElement.dataset.theme === 'dark';
const themed = [];  // functions that redraw canvases
const printed = [];  // functions that prepare the page for printing

// The tooltip, which follows the pointer.
const tip = document.getElementById('tip');
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const y = event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18;
  tip.style.left = Math.max(4, x) + 'px';
  tip.style.top = Math.max(4, y) + 'px';
}
const hideTip = () => { tip.hidden = true; };
const say = text => { document.getElementById('live').textContent = text; };

const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

function setTheme(name, keep) {
  document.documentElement.dataset.theme = name;
  document.getElementById('theme').textContent = name === 'dark' ? '☀ light' : '☾ dark';
  if (keep) { try { localStorage.setItem('gpt-theme', name); } catch (e) { /* pages opened from a file may have no storage */ } }
  for (const redraw of themed) redraw();
}

function startTheme() {
  const media = matchMedia('(prefers-color-scheme: dark)');
  let kept = null;
  try { kept = localStorage.getItem('gpt-theme'); } catch (e) { /* no storage */ }
  setTheme(kept || (media.matches ? 'dark' : 'light'));
  media.addEventListener('change', () => setTheme(media.matches ? 'dark' : 'light'));
  document.getElementById('theme').addEventListener('click', () => setTheme(dark() ? 'light' : 'dark', true));
  let screen = null;  // the theme on screen; printed pages use the light theme
  addEventListener('beforeprint', () => {
    screen = document.documentElement.dataset.theme;
    setTheme('light');
    for (const finish of printed) finish();
  });
  addEventListener('afterprint', () => { if (screen) setTheme(screen); });
}
