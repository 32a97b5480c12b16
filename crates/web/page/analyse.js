// Analysis: any position, any system, live. A new move or a step asks a new question; answers carry its number.

import * as board from './board.js';
import { send } from './connection.js';
import { NAMES, by, choices, moveList, make, notice, redraw, score, short } from './page.js';
import * as inside from './inside.js';

const START = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1';
// Milliseconds between two questions.
const PAUSE = 80;

let line = { start: START, chess960: false, moves: [] };
let ply = 0;
let sans = [];
let tag = 0;
let thinking = false;
let visible = false;
let answer = null;
let asked = 0;          // when a question was last sent
let later = 0;
let position = null;
let good = null;        // the line that led to it
let typing = false;     // somebody sets up a position

export function hello(message) {
  choices(by('analysis-system'), message.systems.map(({ name }) =>
    make('option', { value: name, textContent: NAMES[name] ?? name })));
}

export function load(subject) {
  typing = false;
  line = { start: subject.start, chess960: subject.chess960, moves: subject.moves };
  ply = subject.ply;
  sans = [];
  board.turn(subject.side ?? board.orientation());
}

export function enter() {
  visible = true;
  ask();
}

export function leave() {
  if (!visible) return;
  visible = false;
  thinking = false;
  clearTimeout(later);
  send({ type: 'stop' });
  by('evaluation').hidden = true;
}

// At once the last answer is an old one, and nothing more is heard of its question.
function ask() {
  tag += 1;
  answer = null;
  // The old lines stay, pale, until there are new ones.
  by('thoughts').classList.add('stale');
  by('chances').classList.add('stale');
  board.arrows([]);
  board.heat(null);
  drawState();
  // Not for every step of a key that is held down.
  clearTimeout(later);
  later = setTimeout(sendQuestion, Math.max(0, asked + PAUSE - performance.now()));
}

function sendQuestion() {
  asked = performance.now();
  send({
    type: thinking ? 'analyse' : 'show_position',
    tag,
    start: line.start,
    chess960: line.chess960,
    moves: line.moves.slice(0, ply),
    system: by('analysis-system').value,
    lines: Number(by('lines').value),
    batch: Number(by('batch').value),
  });
  inside.begin();
}

export function showPosition(message) {
  if (message.tag !== tag || !visible) return;
  position = message;
  sans.splice(0, message.sans.length, ...message.sans);
  good = { line: { ...line, moves: [...line.moves] }, ply, sans: [...sans] };
  board.show({
    fen: message.fen,
    turn: message.turn,
    check: message.check,
    lastMove: line.moves[ply - 1],
    destinations: message.destinations,
    movable: 'both',
  });
  moveList(by('analysis-moves'), sans, line.start, ply, go);
  // What is being typed is not to be replaced by an answer that comes late.
  if (!typing) {
    by('setup-fen').value = message.fen;
    by('setup-960').checked = line.chess960;
  }
  for (const who of document.querySelectorAll('.player .who')) who.replaceChildren();
  for (const clock of document.querySelectorAll('.player .clock')) clock.hidden = true;
}

export function show(message) {
  if (message.tag !== tag || !visible) return;
  if (message.state === 'waiting' && answer) message = { ...message, lines: answer.lines };
  answer = message;
  if (message.view) inside.show(message.view);
  drawState();
  drawLines();
  drawChances();
}

function drawState() {
  const states = {
    waiting: 'Waiting for a free place to think…',
    done: answer?.chances ? '' : 'Finished.',
    failed: answer?.error,
  };
  by('think').textContent = thinking ? 'Stop' : 'Start';
  by('think').setAttribute('aria-pressed', thinking);
  by('analysis-state').textContent = !thinking ? 'Move the pieces; Start lets the engine think.'
    : position?.over ? 'The game is over here.' : states[answer?.state] ?? '';
  const system = by('analysis-system').value;
  by('inside').hidden = !(thinking && system === 'batch-first');
  by('thoughts').hidden = by('chances-wdl').hidden = !thinking || system === 'convchess';
  by('evaluation').hidden = !visible || !thinking || system === 'convchess';
  by('chances').hidden = !thinking || system !== 'convchess';
}

function drawLines() {
  const lines = answer.lines;
  if (lines.length === 0) return;
  const list = by('thoughts');
  lines.forEach((found, index) => {
    // A line that is still the same stays: a click on one of its moves takes longer than the next answer.
    const key = JSON.stringify([position.fen, bounded(found), found.depth, found.seldepth, found.pv]);
    const item = list.children[index] ?? list.appendChild(make('li'));
    if (item.dataset.key === key) return;
    item.dataset.key = key;
    redraw(item, make('b', { textContent: bounded(found) }), make('span', {}, ...sanLine(found)),
      make('small', { textContent: `${found.depth}/${found.seldepth}` }));
  });
  while (list.children.length > lines.length) list.lastElementChild.remove();
  by('thoughts').classList.remove('stale');
  const best = lines[0];
  board.arrows(lines.map(found => found.pv[0]?.[0]));
  const { cp, mate } = best.score;
  const [white, draw, black] = best.wdl;
  const share = mate !== undefined ? (mate > 0 ? 100 : 0) : 50 + 100 / Math.PI * Math.atan(cp / 290);
  by('evaluation').firstElementChild.style.height = `${share}%`;
  by('evaluation').classList.toggle('black-ahead', share < 50);
  by('evaluation').lastElementChild.textContent = mate !== undefined ? `#${Math.abs(mate)}` : Math.abs(cp / 100).toFixed(1);
  by('evaluation').setAttribute('aria-label', `Evaluation ${score(best.score)} for White`);
  const parts = by('chances-wdl').children;
  [white, draw, black].forEach((chance, index) => {
    parts[index].style.flexGrow = chance;
    parts[index].textContent = chance >= 90 ? `${Math.round(chance / 10)} %` : '';
  });
  by('chances-wdl').setAttribute('aria-label',
    `White wins ${white / 10} %, draw ${draw / 10} %, Black wins ${black / 10} %`);
  if (!answer.view && by('inside').hidden) {
    by('analysis-state').textContent = `${short(best.nodes)} evaluations, ${short(1000 * best.nodes / Math.max(best.milliseconds, 1))} a second`;
  }
}

const bounded = found => ({ lower: '≥', upper: '≤' }[found.bound] ?? '') + score(found.score);

function sanLine(found) {
  const fields = position.fen.split(' ');
  let number = Number(fields[5]);
  let isBlack = fields[1] === 'b';
  const words = [];
  found.pv.forEach(([, san], index) => {
    const count = isBlack ? (index === 0 ? `${number}… ` : '') : `${number}. `;
    const moves = found.pv.slice(0, index + 1).map(([uci]) => uci);
    words.push(count, make('button', { textContent: san, type: 'button', onclick: () => answer && follow(moves) }), ' ');
    if (isBlack) number += 1;
    isBlack = !isBlack;
  });
  return words;
}

function drawChances() {
  const chances = answer.chances;
  if (!chances) return;
  by('chances').classList.remove('stale');
  redraw(by('chance-list'), ...chances.moves.map(([uci, san, chance]) =>
    make('li', {}, make('button', { textContent: san, type: 'button', onclick: () => answer && follow([uci]) }),
      make('meter', { max: chances.moves[0][2], value: chance, 'aria-label': san }),
      make('small', { textContent: `${(100 * chance).toFixed(1)} %` }))));
  board.arrows(chances.moves.slice(0, 1).map(([uci]) => uci));
  board.heat(chances[document.querySelector('[name=heat]:checked').value]);
}

function follow(moves) {
  typing = false;
  line.moves = [...line.moves.slice(0, ply), ...moves];
  sans.length = ply;
  ply = line.moves.length;
  ask();
}

export function move(uci) {
  if (line.moves[ply] === uci) return go(ply + 1);
  follow([uci]);
}

function go(to) {
  typing = false;
  ply = Math.max(0, Math.min(to, line.moves.length));
  ask();
}

export function step(where) {
  go({ first: 0, back: ply - 1, forward: ply + 1, last: line.moves.length }[where]);
}

// After a lost connection.
export function refresh() {
  if (visible) ask();
}

// After an error: the last position that was good, without an engine. That of an older question is nobody's concern.
export function refused(message) {
  if (message.tag !== tag || !visible) return;
  notice(message.error);
  if (!good) return;
  ({ line, ply, sans } = structuredClone(good));
  tag += 1;
  thinking = false;
  // What was asked before may still be searched.
  send({ type: 'stop' });
  drawState();
  board.show({ ...position, lastMove: line.moves[ply - 1], movable: 'both' });
}

export function toggle() {
  thinking = !thinking;
  ask();
}

by('think').onclick = toggle;
for (const id of ['analysis-system', 'lines', 'batch']) {
  by(id).onchange = () => {
    by('thoughts').replaceChildren();
    ask();
  };
}
for (const radio of document.querySelectorAll('[name=heat]')) radio.onchange = () => answer && drawChances();
by('setup').oninput = () => { typing = true; };
by('setup').onsubmit = event => {
  event.preventDefault();
  typing = false;
  line = { start: by('setup-fen').value.trim(), chess960: by('setup-960').checked, moves: [] };
  ply = 0;
  sans = [];
  ask();
};
by('setup-start').onclick = () => {
  typing = false;
  line = { start: START, chess960: false, moves: [] };
  ply = 0;
  sans = [];
  ask();
};
