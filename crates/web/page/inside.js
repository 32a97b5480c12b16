// The inside of the search: what the pool holds, how full the batches are, and how the bounds close in on the value.

import { by, short } from './page.js';

// Moments of the bounds that are shown.
const MOST = 240;
const REACH = 20000;

let moments = [];
let before = null;
let speed = 0;

export function begin() {
  moments = [];
  before = null;
  speed = 0;
}

export function show(view) {
  if (before && view.milliseconds > before.milliseconds) {
    const now = 1000 * (view.evaluations - before.evaluations) / (view.milliseconds - before.milliseconds);
    speed = speed ? 0.8 * speed + 0.2 * now : now;
  }
  before = view;
  const pool = view.bins.flat().reduce((sum, count) => sum + count, 0);
  by('f-depth').textContent = view.depth;
  by('f-evaluations').textContent = short(view.evaluations);
  by('f-speed').textContent = short(speed);
  by('f-fill').textContent = `${Math.round(100 * view.evaluations / (view.batches * view.width))} % of ${view.width}`;
  by('f-pool').textContent = short(pool);
  by('f-open').textContent = short(view.open);
  drawBins(view);
  if (view.multipv === 1) {
    const { lower, upper, bound, depth } = view;
    const last = moments.at(-1);
    if (!last || last.lower !== lower || last.upper !== upper || last.bound !== bound || last.depth !== depth) {
      moments.push({ lower, upper, bound, depth });
      if (moments.length > MOST) moments.shift();
    }
  }
  drawBounds();
}

const color = name => getComputedStyle(document.documentElement).getPropertyValue(name);

function canvas(id) {
  const element = by(id);
  const ratio = devicePixelRatio || 1;
  const { width, height } = element.getBoundingClientRect();
  if (element.width !== Math.round(width * ratio) || element.height !== Math.round(height * ratio)) {
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
  }
  const context = element.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = '10px ui-monospace, "DejaVu Sans Mono", monospace';
  return { context, width, height };
}

// One bar a level of speculation, the root's neighbourhood darkest. The scale is logarithmic: bins differ by thousands.
function drawBins({ bins }) {
  const { context, width, height } = canvas('bins');
  const sums = bins.map(plies => plies.reduce((sum, count) => sum + count, 0));
  const top = Math.log1p(Math.max(...sums, 100));
  const step = (width - 12) / bins.length;
  const accent = color('--accent');
  bins.forEach((plies, level) => {
    let y = height - 6;
    const tall = (height - 24) * Math.log1p(sums[level]) / top;
    for (let group = 0; group < 4; group += 1) {
      const count = plies.slice(4 * group, 4 * group + 4).reduce((sum, number) => sum + number, 0);
      const part = sums[level] ? tall * count / sums[level] : 0;
      context.globalAlpha = 1 - 0.22 * group;
      context.fillStyle = accent;
      context.fillRect(6 + level * step + 1.5, y - part, step - 3, part);
      y -= part;
    }
    context.globalAlpha = 1;
    if (sums[level]) {
      context.fillStyle = color('--soft');
      context.textAlign = 'center';
      context.fillText(sums[level] > 999 ? `${Math.round(sums[level] / 1000)}k` : sums[level], 6 + (level + 0.5) * step, y - 4);
    }
  });
}

// The interval of the first line as it was asked about, with the questions in between.
function drawBounds() {
  const { context, width, height } = canvas('bounds');
  if (moments.length === 0) return;
  const known = moments.flatMap(({ lower, upper, bound }) => [lower, upper, bound]).filter(value => Math.abs(value) < REACH);
  if (known.length === 0) return;
  // The latest values decide the scale; what lies beyond is cut off.
  const recent = moments.slice(-60).flatMap(({ lower, upper, bound }) => [lower, upper, bound]).filter(value => Math.abs(value) < REACH);
  const scale = recent.length ? recent : known;
  const middle = (Math.min(...scale) + Math.max(...scale)) / 2;
  const half = Math.max(20, (Math.max(...scale) - Math.min(...scale)) / 2) * 1.15;
  const y = value => height / 2 - (Math.max(-1.2, Math.min(1.2, (value - middle) / half))) * (height / 2 - 6);
  const step = (width - 44) / Math.max(moments.length, 24);
  const x = index => 38 + index * step;
  context.fillStyle = color('--soft');
  context.textAlign = 'right';
  for (const value of [middle + half * 0.85, middle, middle - half * 0.85]) {
    context.fillText((value / 100).toFixed(2), 34, y(value) + 3);
  }
  context.fillStyle = color('--accent');
  moments.forEach(({ lower, upper, bound, depth }, index) => {
    context.globalAlpha = 0.32;
    context.fillRect(x(index), y(upper), Math.max(step, 1), Math.max(y(lower) - y(upper), 1.5));
    context.globalAlpha = 1;
    context.fillRect(x(index), y(bound) - 1, Math.max(step, 1), 2);
    if (index > 0 && moments[index - 1].depth !== depth) {
      context.globalAlpha = 0.5;
      context.fillStyle = color('--soft');
      context.fillRect(x(index), 4, 1, height - 8);
      context.textAlign = 'left';
      context.fillText(depth, x(index) + 3, 12);
      context.fillStyle = color('--accent');
    }
  });
  context.globalAlpha = 1;
}
