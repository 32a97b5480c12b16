// The analysis of a whole game: its start, progress and end, the graph of winning chances, and the accuracy of both players.

import { command, send } from './connection.js';
import { by, counted, make, notice } from './page.js';
import * as puzzles from './puzzles.js';
import { nextTag } from './replies.js';
import { beginAnalysis, fromMessage, isWhiteToMove, mainLine, merge, tag as tagOf, toMessage } from './tree.js';

const SPACE = 'http://www.w3.org/2000/svg';
// Of the graph, in pixels.
const HEIGHT = 100;
// The judgments that the analyser gives, by their glyphs.
const JUDGMENTS = [[6, 'inaccuracy', 'inaccuracies', '?!'], [2, 'mistake', 'mistakes', '?'], [4, 'blunder', 'blunders', '??']];

let running = null;     // { tag, tree, nodes, scores, done, total, state }
let shown = null;       // { tree, node, line }: what the graph shows
let listener = {};

/* callbacks: { go(node), finished(): the tree has the analysis } */
export function attach(callbacks) { listener = callbacks; }

export function start(tree) {
  const { message } = toMessage(tree);
  const tag = nextTag();
  if (!command({ type: 'review', tag, tree: message, evaluations: Number(by('review-effort').value) })) return;
  beginAnalysis(tree);
  running = { tag, tree, nodes: mainLine(tree), scores: [], done: 0, total: 0, state: 'waiting' };
  by('review-error').hidden = true;
  draw();
}

function cancel() {
  if (!running) return;
  running = null;
  send({ type: 'stop_review' });
  draw();
}

/* The game that is analysed is not shown any more, or the connection is lost */
export function end(reason) {
  if (!running) return;
  cancel();
  if (reason) notice(reason);
}

/* Takes an error of the request; false if it is of another one */
export function fail(message) {
  if (message.tag !== running?.tag) return false;
  running = null;
  by('review-error').textContent = message.error;
  by('review-error').hidden = false;
  draw();
  return true;
}

export function report(message) {
  if (message.tag !== running?.tag) return;
  if (message.state === 'failed') {
    fail(message);
    return;
  }
  const { state, done, total } = message;
  Object.assign(running, { state, done, total });
  if (state !== 'done') {
    running.scores = message.scores;
    draw();
    return;
  }
  const { tree: analysed } = fromMessage(message.tree);
  const { tree } = running;
  // What the visitor has added, deleted and promoted meanwhile stays so.
  merge(tree.root, analysed.root);
  tree.tags = analysed.tags;
  running = null;
  if (done < total) notice(`The analysis ended after ten minutes: ${counted(total - done, 'position')} at the beginning ${total - done === 1 ? 'is' : 'are'} not analysed.`);
  listener.finished();
}

// White's chance to win in percent, as Lichess defines it.
function chance({ cp, mate }) {
  const value = mate !== undefined ? 1000 * Math.sign(mate) : Math.max(-1000, Math.min(1000, cp));
  return 100 / (1 + Math.exp(-0.00368208 * value));
}

// A mate on the board is won, whether it has a score or not.
const scoreOf = node => (node.san.endsWith('#') ? { mate: isWhiteToMove(node) ? -1 : 1 } : node.mate !== undefined ? { mate: node.mate } : node.cp !== undefined ? { cp: node.cp } : null);

/* Shows the graph of a game, with a mark at a node */
export function show(tree, node) {
  if (shown?.tree !== tree) by('review-error').hidden = true;
  shown = { tree, node, line: mainLine(tree) };
  draw();
}

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function drawGraph() {
  const { line, node } = shown;
  const scores = line.map((at, ply) => (running?.nodes[ply] === at && running.scores[ply]) || scoreOf(at));
  const known = scores.filter(Boolean).length;
  const isShown = known >= 2 && line.length >= 3;
  // SVG elements have the attribute only.
  by('graph').toggleAttribute('hidden', !isShown);
  if (!isShown) return;
  const { width } = by('graph').getBoundingClientRect();
  by('graph').setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
  const x = ply => width * ply / (line.length - 1);
  const y = score => HEIGHT * (1 - chance(score) / 100);
  // Runs of known scores; each is an area from the bottom up to White's chance.
  const areas = [];
  scores.forEach((score, ply) => {
    if (!score) return;
    if (!scores[ply - 1]) areas.push([]);
    areas.at(-1).push(`${x(ply).toFixed(1)},${y(score).toFixed(1)}`);
  });
  const shape = points => {
    const [first, last] = [points[0], points.at(-1)].map(point => point.split(',')[0]);
    return svg('polygon', { class: 'white', points: `${first},${HEIGHT} ${points.join(' ')} ${last},${HEIGHT}` });
  };
  // What is not judged yet is neither side's.
  const first = Math.max(0, scores.findIndex(Boolean));
  const unknown = svg('rect', { class: 'unknown', x: 0, y: 0, width: x(first), height: HEIGHT });
  const judged = line.map((at, ply) => {
    const judgment = JUDGMENTS.find(([nag]) => at.nags.includes(nag));
    return judgment && scores[ply] ? svg('circle', { class: judgment[1], cx: x(ply), cy: y(scores[ply]), r: 3.5 }) : '';
  });
  const at = line.indexOf(node);
  const mark = at >= 0 ? [svg('line', { class: 'here', x1: x(at), x2: x(at), y1: 0, y2: HEIGHT })] : [];
  by('graph').replaceChildren(unknown, ...areas.map(shape), svg('line', { class: 'even', x1: 0, x2: width, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
    ...mark, ...judged);
}

// Accuracy and judgments of one player.
function player(color) {
  const { tree, line } = shown;
  const value = name => (tree.tags.find(([key]) => key === `${color}${name}`) ?? [])[1];
  const accuracy = Number(value('Accuracy'));
  const own = line.slice(1).filter(node => isWhiteToMove(node.parent) === (color === 'White'));
  const counts = JUDGMENTS.map(([nag, one, many]) => {
    const found = own.filter(node => node.nags.includes(nag));
    const button = make('button', { type: 'button', className: one, disabled: found.length === 0, textContent: `${found.length} ${found.length === 1 ? one : many}` });
    button.dataset.key = `${color} ${one}`;
    // The next one behind the shown position, or the first.
    button.onclick = () => listener.go(found.find(node => line.indexOf(node) > line.indexOf(shown.node)) ?? found[0]);
    return button;
  });
  const found = puzzles.find(tree, color.toLowerCase());
  if (found.length > 0) {
    const text = `Solve ${found.length} ${found.length === 1 ? 'puzzle' : 'puzzles'}`;
    counts.push(make('button', { type: 'button', className: 'puzzles', textContent: text, title: 'Positions in which one move was much better', onclick: () => puzzles.start(found) }));
  }
  const figure = value('Accuracy') === undefined || Number.isNaN(accuracy) ? '' : `${accuracy.toFixed(0)} %`;
  return make('div', { className: 'player-summary' },
    make('div', {}, make('b', { textContent: figure, title: 'Accuracy, by Lichess\'s formula' }), make('small', { textContent: figure && 'accuracy' })),
    make('div', {}, tagOf(tree, color) || color,
      make('small', { textContent: value('AverageLoss') ? ` average centipawn loss ${Number(value('AverageLoss'))}` : '' }),
      make('div', {}, ...counts)));
}

function draw() {
  if (!shown) return;
  const hasMoves = shown.line.length > 1;
  by('review-start').hidden = running !== null;
  by('review-start').disabled = !hasMoves;
  by('review-cancel').hidden = by('review-progress').hidden = running === null;
  if (running) {
    by('review-bar').max = running.total || 1;
    by('review-bar').value = running.done;
    by('review-count').textContent = running.state === 'waiting' && running.done === 0 ? 'waiting for the engine'
      : `${running.done} of ${running.total} positions`;
  }
  drawGraph();
  const isAnalysed = !running && shown.tree.tags.some(([name]) => /^(White|Black)Accuracy$/.test(name));
  by('summary').hidden = !isAnalysed;
  if (isAnalysed) by('summary').replaceChildren(player('White'), player('Black'));
}

function jump(event) {
  const box = by('graph').getBoundingClientRect();
  const ply = Math.round((event.clientX - box.left) / box.width * (shown.line.length - 1));
  listener.go(shown.line[Math.max(0, Math.min(ply, shown.line.length - 1))]);
}

by('graph').onclick = jump;
addEventListener('resize', () => shown && !by('view-analyse').hidden && drawGraph());
by('review-cancel').onclick = cancel;
