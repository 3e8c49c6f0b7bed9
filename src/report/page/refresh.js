// While the run is in progress, the page reloads itself. It keeps the zoom, the scales and the scroll
// position.

const place = 'gpt-report ' + location.pathname;
const kEverySeconds = 10, kStoppedSeconds = 1800;
let touchedAt = -1e9;
const touched = () => { touchedAt = performance.now(); };

function keepView() {
  shared.scroll = scrollY;
  try { sessionStorage.setItem(place, JSON.stringify(shared)); } catch (e) { /* pages opened from a file may have no storage */ }
}
function takeView() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(place) || '{}');
    for (const key of Object.keys(shared)) if (typeof kept[key] === typeof shared[key]) shared[key] = kept[key];
  } catch (e) { /* no storage */ }
}

function startRefresh() {
  if (!data.running) return;
  const note = make('span', {role: 'status'}), bar = document.getElementById('bar');
  const pause = make('button', {type: 'button', 'aria-pressed': shared.paused, text: 'pause', onclick: () => {
    shared.paused = !shared.paused;
    pause.setAttribute('aria-pressed', shared.paused);
    tell();
    keepView();
  }});
  const stopped = () => Date.now() / 1000 - data.written > kStoppedSeconds;
  const tell = () => { note.textContent = stopped() ? `not updated since ${new Date(data.written * 1000).toLocaleString()}` : shared.paused ? 'running; refresh paused' : `running; refreshes every ${kEverySeconds} s`; };
  bar.prepend(note, pause);
  tell();
  if (shared.scroll) scrollTo(0, shared.scroll);
  setInterval(() => {
    tell();
    if (shared.paused || document.hidden || stopped() || performance.now() - touchedAt < 4000) return;
    keepView();
    location.reload();
  }, kEverySeconds * 1000);
}
