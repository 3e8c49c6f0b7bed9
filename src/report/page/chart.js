// A line chart over the step. It shows values at the pointer, and zooms by dragging or keys. All charts share
// the visible part of the x axis, its scale, the smoothing and the set of hidden lines.

const shared = {zoom: null, logX: false, smoothing: 0.33, hidden: [], logY: {}, paused: false, scroll: 0};
const charts = [];
const redrawAll = () => { for (const c of charts) c.draw(); keepView(); };
const palette = () => dark() ? ['#7fb2ff', '#f0a35c', '#86c97f', '#c3a1f2', '#ff8fa3', '#6fd3d3', '#d9c65d', '#b0b7c3']
  : ['#1f5fbf', '#b4530a', '#3f7d3a', '#7a4fb0', '#b3203f', '#0f7c80', '#857207', '#5b6472'];
const dashes = ['', '7 4', '2 3'];
const hint = 'Arrow keys move the cursor, + and − zoom, 0 resets the zoom, Shift and an arrow key pan.';

// options: title, unit, series [{name, colour, curve, strength (of smoothing: 0 or 1), marks}], lines [{y, label}], logY
class LineChart {
  constructor(options) {
    this.o = options;
    this.logY = shared.logY[options.title] !== undefined ? shared.logY[options.title] : Boolean(options.logY);
    this.svg = make('svg', {class: 'plot', tabindex: 0, role: 'img', 'aria-label': `${options.title}. ${hint}`});
    this.read = make('p', {class: 'read', text: ' '});
    this.legend = make('div', {class: 'legend'});
    this.log = make('button', {type: 'button', text: 'log y', 'aria-label': `logarithmic y axis of ${options.title}`, 'aria-pressed': this.logY, onclick: () => {
      this.logY = !this.logY;
      shared.logY[options.title] = this.logY;
      this.log.setAttribute('aria-pressed', this.logY);
      this.draw();
      keepView();
    }});
    this.node = make('section', {class: 'card curve'}, make('header', null, make('h3', {text: options.title + (options.unit ? ` (${options.unit})` : '')}), this.log), this.svg, this.read, this.legend);
    this.makeLegend();
    this.listen();
    charts.push(this);
    themed.push(() => this.draw());
  }

  shown() { return this.o.series.filter(s => !shared.hidden.includes(s.name)); }

  // Returns the points of a series to draw: all points, and the smoothed line if there is one.
  lines(s) {
    const c = s.curve;
    if (!s.strength || shared.smoothing <= 0 || c.y.length < 8) return {full: c, smoothed: null};
    if (s.cache && s.cache.by === shared.smoothing) return {full: c, smoothed: s.cache};
    const x = c.mx || c.x, y = c.my || c.y;
    s.cache = {by: shared.smoothing, x, y: smooth(x, y, this.window())};
    return {full: c, smoothed: s.cache};
  }

  // Returns the smoothing window in steps. All runs of the chart have the same window, regardless of their
  // length.
  window() {
    const spans = this.o.series.map(s => s.curve.x[s.curve.x.length - 1] - s.curve.x[0]);
    return Math.max(...spans) * 0.15 * shared.smoothing ** 2;
  }

  xRange() {
    let low = Infinity, high = -Infinity;
    for (const s of this.o.series) {
      for (const x of [s.curve.x.find(v => !shared.logX || v > 0), s.curve.x[s.curve.x.length - 1]]) if (x !== undefined) { low = Math.min(low, x); high = Math.max(high, x); }
    }
    this.all = [low, high];
    if (shared.zoom && shared.zoom[0] < high && shared.zoom[1] > low) [low, high] = shared.zoom;
    if (shared.logX) low = Math.max(low, 1e-9);
    return high > low ? [low, high] : [low - 0.5, low + 0.5];
  }

  yRange(x) {
    const values = [];
    for (const s of this.shown()) {
      const c = s.curve;
      for (let i = 0; i < c.x.length; ++i) {
        if (c.x[i] >= x[0] && c.x[i] <= x[1] && c.y[i] !== null && (!this.logY || c.y[i] > 0)) values.push(c.y[i]);
      }
    }
    if (!values.length) return this.logY ? [0.1, 1] : [0, 1];
    values.sort((a, b) => a - b);
    // The few largest values of a long curve are drawn at the edge.
    const cut = values.length > 500 ? Math.floor(values.length * 0.004) : 0;
    let low = values[0], high = values[values.length - 1 - cut];
    for (const line of this.o.lines || []) if (!shared.zoom) { low = Math.min(low, line.y); high = Math.max(high, line.y); }
    if (this.logY) return high > low ? [low * (low / high) ** 0.04, high * (high / low) ** 0.04] : [low / 2, high * 2];
    const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
    return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
  }

  draw() {
    const width = Math.max(240, Math.round(this.node.clientWidth ? this.svg.clientWidth || this.node.clientWidth - 34 : 600));
    const height = this.o.tall ? (width < 500 ? 260 : 380) : 200;
    const x = this.xRange(), y = this.yRange(x);
    this.box = {left: 58, right: width - 10, top: 8, bottom: height - 24};
    const b = this.box;
    this.x = axis(x[0], x[1], b.left, b.right, shared.logX);
    this.y = axis(y[0], y[1], b.bottom, b.top, this.logY);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.cursor = make('g', {});
    clear(this.svg, this.grid(x, y), this.reference(y), this.curves(x), this.cursor);
    this.drawLegend();
  }

  // Returns positions for about one label per 85 px. If these are fewer than three, returns closer positions.
  xTicks(x) {
    const room = (this.box.right - this.box.left) / 85;
    const ticks = n => this.x.ticks(n).filter(v => v >= x[0] && v <= x[1]);
    return ticks(room).length < 3 ? ticks(1.6 * room) : ticks(room);
  }

  grid(x, y) {
    const b = this.box, g = make('g', {});
    for (const v of this.y.ticks(this.o.tall ? 6 : 4)) {
      if (v < y[0] || v > y[1]) continue;
      const p = this.y.at(v);
      g.append(make('line', {class: 'grid', x1: b.left, x2: b.right, y1: p, y2: p}), make('text', {x: b.left - 7, y: p + 4, 'text-anchor': 'end', text: short(v)}));
    }
    for (const v of this.xTicks(x)) {
      const p = this.x.at(v);
      g.append(make('text', {x: p, y: b.bottom + 17, 'text-anchor': p > b.right - 22 ? 'end' : p < b.left + 12 ? 'start' : 'middle', text: short(v)}), make('line', {class: 'grid', x1: p, x2: p, y1: b.bottom, y2: b.bottom + 4}));
    }
    return g;
  }

  reference(y) {
    const g = make('g', {}), b = this.box;
    for (const line of this.o.lines || []) {
      if (line.y < y[0] || line.y > y[1]) continue;
      const p = this.y.at(line.y);
      g.append(make('line', {class: 'limit', x1: b.left, x2: b.right, y1: p, y2: p}), make('text', {x: b.right - 3, y: p > b.top + 18 ? p - 5 : p + 14, 'text-anchor': 'end', text: line.label}));
    }
    return g;
  }

  // Lines that leave the visible range end at its edges.
  path(c, xs) {
    const b = this.box, out = [];
    let open = false;
    const add = (x, y) => {
      if (!this.x.fits(x) || !this.y.fits(y)) { open = false; return; }
      out.push((open ? 'L' : 'M') + this.x.at(x).toFixed(1) + ' ' + clamp(this.y.at(y), b.top, b.bottom).toFixed(1));
      open = true;
    };
    const between = (i, x) => { if (c.y[i] !== null && c.y[i + 1] !== null) add(x, c.y[i] + (c.y[i + 1] - c.y[i]) * (x - c.x[i]) / (c.x[i + 1] - c.x[i])); };
    for (let i = 0; i < c.x.length; ++i) {
      if (c.x[i] >= xs[0] && c.x[i] <= xs[1]) add(c.x[i], c.y[i]);
      for (const edge of xs) if (c.x[i] < edge && c.x[i + 1] > edge) between(i, edge);
    }
    return out.join('');
  }

  curves(xs) {
    const g = make('g', {}), colours = palette(), b = this.box;
    for (const s of this.shown()) {
      const {full, smoothed} = this.lines(s), stroke = colours[s.colour % colours.length];
      const dash = dashes[Math.floor(s.colour / colours.length) % dashes.length];
      g.append(make('path', {d: this.path(full, xs), stroke, class: smoothed ? 'pale' : null, 'stroke-dasharray': smoothed ? '' : dash}));
      if (smoothed) g.append(make('path', {d: this.path(smoothed, xs), stroke, 'stroke-dasharray': dash}));
      if (!s.marks || full.x.length > 60) continue;
      full.x.forEach((v, i) => {
        if (v >= xs[0] && v <= xs[1] && this.x.fits(v) && this.y.fits(full.y[i])) g.append(make('circle', {cx: this.x.at(v), cy: clamp(this.y.at(full.y[i]), b.top, b.bottom), r: 3, fill: stroke}));
      });
    }
    return g;
  }

  makeLegend() {
    if (this.o.series.length < 2) return;
    for (const s of this.o.series) {
      this.legend.append(make('button', {type: 'button', title: 'show or hide', onclick: () => {
        shared.hidden = shared.hidden.includes(s.name) ? shared.hidden.filter(n => n !== s.name) : [...shared.hidden, s.name];
        redrawAll();
      }}, make('i', {}), s.name));
    }
  }

  drawLegend() {
    const colours = palette();
    [...this.legend.children].forEach((button, i) => {
      const s = this.o.series[i];
      button.setAttribute('aria-pressed', !shared.hidden.includes(s.name));
      button.firstChild.style.background = colours[s.colour % colours.length];
    });
  }

  // Shows the values of all visible series at the step nearest to `step`.
  point(step, spoken) {
    this.at = step;
    const parts = [], b = this.box;
    let where = null;
    clear(this.cursor);
    for (const s of this.shown()) {
      const {full, smoothed} = this.lines(s), i = nearest(full.x, step);
      if (i < 0 || full.x[i] === undefined) continue;
      if (where === null) where = full.x[i];
      const far = s.marks && full.x[i] !== where ? ` (at ${short(full.x[i])})` : '';
      parts.push(`${this.o.series.length > 1 ? s.name + ' ' : ''}${short(full.y[i] === null ? NaN : full.y[i])}${far}` + (smoothed ? `, smoothed ${short(smoothed.y[nearest(smoothed.x, step)])}` : ''));
    }
    if (where === null) return;
    const p = clamp(this.x.at(where), b.left, b.right);
    this.cursor.append(make('line', {class: 'cursor', x1: p, x2: p, y1: b.top, y2: b.bottom}));
    const reach = parts.some(p => p.includes(', smoothed')) ? ` (smoothed over ${short(Math.round(this.window()))} steps)` : '';
    this.read.textContent = `step ${thousands(where)}: ${parts.join(' · ')}${reach}`;
    if (spoken) say(this.read.textContent);
  }

  zoomBy(factor) {
    const [low, high] = this.xRange(), f = shared.logX ? Math.log : v => v, g = shared.logX ? Math.exp : v => v;
    const middle = f(clamp(this.at === undefined ? g((f(low) + f(high)) / 2) : this.at, low, high));
    this.zoomTo(g(middle + (f(low) - middle) * factor), g(middle + (f(high) - middle) * factor));
  }

  zoomTo(low, high) {
    this.xRange();
    low = Math.max(low, this.all[0]);
    high = Math.min(high, this.all[1]);
    shared.zoom = high > low && (low > this.all[0] || high < this.all[1]) ? [low, high] : null;
    redrawAll();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = this.xRange(), way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (way && event.shiftKey) {
      const d = way * Math.min((high - low) / 5, way > 0 ? this.all[1] - high : low - this.all[0]);
      if (shared.zoom) this.zoomTo(low + d, high + d);
    } else if (way) {
      const xs = (this.shown()[0] || this.o.series[0]).curve.x;
      const hop = Math.max(1, Math.round(xs.length / 200)), now = this.at === undefined ? (way > 0 ? -hop : xs.length) : nearest(xs, this.at);
      this.point(xs[clamp(now + way * hop, 0, xs.length - 1)], true);
    } else if (event.key === '+' || event.key === '=') this.zoomBy(0.5);
    else if (event.key === '-') this.zoomBy(2);
    else if (event.key === '0' || event.key === 'Escape') this.zoomTo(-Infinity, Infinity);
    else return;
    event.preventDefault();
  }

  listen() {
    const at = event => {
      const r = this.svg.getBoundingClientRect();
      const scale = r.width ? this.svg.viewBox.baseVal.width / r.width : 1;
      return clamp((event.clientX - r.left) * scale, this.box.left, this.box.right);
    };
    let from = null;
    this.svg.addEventListener('pointerdown', event => { if (event.button === 0) from = at(event); });
    this.svg.addEventListener('pointermove', event => {
      const p = at(event);
      touched();
      this.point(this.x.value(p));
      if (from !== null && Math.abs(p - from) > 4) this.cursor.append(make('rect', {class: 'drag', x: Math.min(from, p), y: this.box.top, width: Math.abs(p - from), height: this.box.bottom - this.box.top}));
    });
    this.svg.addEventListener('pointerleave', () => clear(this.cursor));
    const end = event => {
      if (from === null) return;
      const a = from, p = at(event);
      from = null;
      if (event.type === 'pointerup' && Math.abs(p - a) > 8) this.zoomTo(this.x.value(Math.min(a, p)), this.x.value(Math.max(a, p)));
    };
    this.svg.addEventListener('pointerup', end);
    addEventListener('pointerup', end);
    this.svg.addEventListener('pointercancel', end);
    this.svg.addEventListener('dblclick', () => this.zoomTo(-Infinity, Infinity));
    this.svg.addEventListener('keydown', event => this.key(event));
  }
}
