// The inside of the search: the queue by priority, the size of batches, and the bounds of the score.

import { by, short } from './page.js';

// The most samples of the bounds that are shown.
const MAX_SAMPLES = 240;
// Scores beyond this are mates and do not set the scale, in centipawns.
const MAX_SCORE = 20000;

let samples = [];
let previous = null;
let speed = 0;

export function reset() {
  samples = [];
  previous = null;
  speed = 0;
}

/* Takes a view of the search; it is drawn where it is unfolded */
export function show(view) {
  if (previous && view.milliseconds > previous.milliseconds) {
    const now = 1000 * (view.evaluations - previous.evaluations) / (view.milliseconds - previous.milliseconds);
    speed = speed ? 0.8 * speed + 0.2 * now : now;
  }
  previous = view;
  const queued = view.bins.flat().reduce((sum, count) => sum + count, 0);
  by('f-depth').textContent = view.depth;
  by('f-evaluations').textContent = short(view.evaluations);
  by('f-speed').textContent = short(speed);
  by('f-batch').textContent = `${(view.evaluations / view.batches).toFixed(1)} of ${view.width}`;
  by('f-queue').textContent = short(queued);
  by('f-open').textContent = short(view.open);
  if (view.multipv === 1) {
    const { lower, upper, bound, depth } = view;
    const last = samples.at(-1);
    if (!last || last.lower !== lower || last.upper !== upper || last.bound !== bound || last.depth !== depth) {
      samples.push({ lower, upper, bound, depth });
      if (samples.length > MAX_SAMPLES) samples.shift();
    }
  }
  draw();
}

function draw() {
  if (!previous || !by('inside').open) return;
  drawBins(previous);
  drawBounds();
}

by('inside').ontoggle = draw;

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

// One bar for each priority; the part near the root is darkest. The scale is logarithmic: the counts differ by orders of magnitude.
function drawBins({ bins }) {
  const { context, width, height } = canvas('bins');
  const sums = bins.map(plies => plies.reduce((sum, count) => sum + count, 0));
  const top = Math.log1p(Math.max(...sums, 100));
  const step = (width - 12) / bins.length;
  const accent = color('--accent');
  bins.forEach((plies, priority) => {
    let y = height - 6;
    const barHeight = (height - 24) * Math.log1p(sums[priority]) / top;
    for (let group = 0; group < 4; group += 1) {
      const count = plies.slice(4 * group, 4 * group + 4).reduce((sum, number) => sum + number, 0);
      const part = sums[priority] ? barHeight * count / sums[priority] : 0;
      context.globalAlpha = 1 - 0.22 * group;
      context.fillStyle = accent;
      context.fillRect(6 + priority * step + 1.5, y - part, step - 3, part);
      y -= part;
    }
    context.globalAlpha = 1;
    if (sums[priority]) {
      context.fillStyle = color('--soft');
      context.textAlign = 'center';
      context.fillText(sums[priority] > 999 ? `${Math.round(sums[priority] / 1000)}k` : sums[priority], 6 + (priority + 0.5) * step, y - 4);
    }
  });
}

const finiteScores = list =>
  list.flatMap(({ lower, upper, bound }) => [lower, upper, bound]).filter(value => Math.abs(value) < MAX_SCORE);

// The interval of the first line's score over time, with the bound of each zero-window pass.
function drawBounds() {
  const { context, width, height } = canvas('bounds');
  if (samples.length === 0) return;
  const known = finiteScores(samples);
  if (known.length === 0) return;
  // The latest values set the scale; values beyond it are cut off.
  const recent = finiteScores(samples.slice(-60));
  const scale = recent.length ? recent : known;
  const middle = (Math.min(...scale) + Math.max(...scale)) / 2;
  const half = Math.max(20, (Math.max(...scale) - Math.min(...scale)) / 2) * 1.15;
  const y = value => height / 2 - (Math.max(-1.2, Math.min(1.2, (value - middle) / half))) * (height / 2 - 6);
  const step = (width - 44) / Math.max(samples.length, 24);
  const x = index => 38 + index * step;
  context.fillStyle = color('--soft');
  context.textAlign = 'right';
  for (const value of [middle + half * 0.85, middle, middle - half * 0.85]) {
    context.fillText((value / 100).toFixed(2), 34, y(value) + 3);
  }
  context.fillStyle = color('--accent');
  samples.forEach(({ lower, upper, bound, depth }, index) => {
    context.globalAlpha = 0.32;
    context.fillRect(x(index), y(upper), Math.max(step, 1), Math.max(y(lower) - y(upper), 1.5));
    context.globalAlpha = 1;
    context.fillRect(x(index), y(bound) - 1, Math.max(step, 1), 2);
    if (index > 0 && samples[index - 1].depth !== depth) {
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
