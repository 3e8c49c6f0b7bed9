// Axes: maps values to pixels, chooses round tick positions, formats numbers and smooths curves.

// Formats a number with three to five significant digits and without trailing zeros.
function short(v) {
  if (!Number.isFinite(v)) return '–';
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return v.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
  if (size >= 10000 || Number.isInteger(v)) return thousands(Math.round(v));
  return String(Number(v.toPrecision(5)));
}

function linearTicks(low, high, target) {
  const rough = (high - low) / Math.max(target, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999) || rough;
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9 && out.length < 50; ++i) out.push(Number((i * step).toPrecision(12)));
  return out;
}

function logTicks(low, high, target) {
  const decades = Math.log10(high / low), out = [];
  if (decades < 0.7) return linearTicks(low, high, target);
  const factors = decades > target ? [1] : decades > target / 3 ? [1, 3] : [1, 2, 5];
  const every = Math.max(1, Math.ceil(decades / target));
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += 1) {
    if (e % every) continue;
    for (const f of factors) if (f * 10 ** e >= low * 0.999 && f * 10 ** e <= high * 1.001) out.push(Number((f * 10 ** e).toPrecision(6)));
  }
  return out;
}

// Returns a scale that maps [low, high] to pixels and back.
function axis(low, high, from, to, log) {
  const f = log ? Math.log : x => x, g = log ? Math.exp : x => x;
  const a = f(low), b = f(high);
  return {
    at: v => from + (f(v) - a) / (b - a) * (to - from),
    value: p => g(a + (p - from) / (to - from) * (b - a)),
    ticks: n => log ? logTicks(low, high, n) : linearTicks(low, high, n),
    fits: v => v !== null && Number.isFinite(v) && (!log || v > 0),
  };
}

// Returns a moving average, the same as in src/report/chart.h. Values at distance d have the weight exp(-d /
// window). The average looks ahead no further than back, so that the line begins at the first values. x must
// be ascending. The window is in units of x.
function smooth(x, y, window) {
  if (!(window > 0)) return y;
  const n = y.length, sums = new Float64Array(n + 1), weights = new Float64Array(n + 1);
  const decay = (from, to) => Math.exp(Math.min(0, x[from] - x[to]) / window);
  for (let i = n - 1; i >= 0; --i) {
    const keep = i + 1 < n ? decay(i, i + 1) : 0;
    sums[i] = keep * sums[i + 1] + (y[i] === null ? 0 : y[i]);
    weights[i] = keep * weights[i + 1] + (y[i] === null ? 0 : 1);
  }
  let sum = 0, weight = 0, beyond = 0;
  return y.map((v, i) => {
    const keep = i > 0 ? decay(i - 1, i) : 0;
    sum *= keep;
    weight *= keep;
    while (beyond < n && (beyond <= i || x[beyond] - x[i] <= x[i] - x[0])) ++beyond;
    const rest = beyond < n ? decay(i, beyond) : 0;
    const out = v === null ? null : (sum + sums[i] - rest * sums[beyond]) / (weight + weights[i] - rest * weights[beyond]);
    sum += v === null ? 0 : v;
    weight += v === null ? 0 : 1;
    return out;
  });
}

// Returns the index of the point nearest to x. xs must be ascending.
function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = low + high >> 1;
    if (xs[middle] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}
