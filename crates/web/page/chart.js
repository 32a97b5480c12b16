// Line charts as SVG, in the page's colours.

import { make, short } from './page.js';

const SPACE = 'http://www.w3.org/2000/svg';
const COLORS = ['#2f8f83', '#c8743a', '#5a7fc0', '#a3599b', '#8c8334', '#b5525c', '#4d8d4d'];

function draw(tag, attributes, text) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const colorOf = (line, index) => (line.soft ? '#9aa5a8' : COLORS[index % COLORS.length]);

// The name and last value of a curve, for screen readers.
const description = ({ name, points }) => `${name} ${points.length ? points.at(-1)[1].toPrecision(3) : ''}`;

/* lines: [{ name, soft, points: [[x, y], …] }]; a soft line is thin, grey and behind the others */
export function chart(lines) {
  const [width, height, left, bottom] = [420, 220, 44, 22];
  const svg = draw('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': lines.map(description).join(', ') });
  const xs = lines.flatMap(({ points }) => points.map(([x]) => x));
  // The first 3 % of a training curve do not set the scale: their values are far from the rest.
  const ys = lines.flatMap(({ soft, points }) => (soft ? points.slice(Math.ceil(points.length * 0.03)) : points).map(([, y]) => y));
  const [x0, x1] = [Math.min(...xs, 0), Math.max(...xs)];
  let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  const room = (y1 - y0 || Math.abs(y1) || 1) * 0.06;
  [y0, y1] = [y0 - room, y1 + room];
  const x = value => left + (value - x0) / (x1 - x0 || 1) * (width - left - 10);
  const y = value => height - bottom - Math.max(0, Math.min(1.02, (value - y0) / (y1 - y0))) * (height - bottom - 8);
  for (let tick = 0; tick <= 4; tick += 1) {
    const value = y0 + (y1 - y0) * tick / 4;
    svg.append(draw('line', { x1: left, x2: width - 10, y1: y(value), y2: y(value), stroke: '#8884', 'stroke-width': 0.6 }));
    svg.append(draw('text', { x: left - 5, y: y(value) + 3, 'text-anchor': 'end' }, Math.abs(value) >= 100 ? short(value) : value.toPrecision(3)));
    const sample = x0 + (x1 - x0) * tick / 4;
    svg.append(draw('text', { x: x(sample), y: height - 7, 'text-anchor': tick === 4 ? 'end' : 'middle' }, short(sample)));
  }
  lines.map((line, index) => ({ line, color: colorOf(line, index) })).sort((one, other) => Boolean(other.line.soft) - Boolean(one.line.soft))
    .forEach(({ line, color }) => {
      const points = line.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(' ');
      svg.append(draw('polyline', { points, fill: 'none', stroke: color, 'stroke-width': line.soft ? 1 : 1.8, 'stroke-linejoin': 'round' }));
      if (!line.soft && line.points.length < 60) {
        for (const [a, b] of line.points) svg.append(draw('circle', { cx: x(a), cy: y(b), r: 2, fill: color }));
      }
    });
  return svg;
}

export function legend(lines) {
  return make('div', { className: 'key' }, ...lines.map((line, index) => {
    const mark = make('i', { textContent: '●' });
    mark.style.color = colorOf(line, index);
    return make('span', {}, mark, ` ${line.name}`);
  }));
}
