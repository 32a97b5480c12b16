// Analysis of any position by any system. Each change of the position or the settings is a new request; answers carry its tag.

import * as board from './board.js';
import { send } from './connection.js';
import { by, moveList, make, notice, opponentName, redraw, score, setOptions, short } from './page.js';
import * as inside from './inside.js';

const START = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1';
// The least time between two requests, in milliseconds.
const REQUEST_INTERVAL = 80;

let line = { start: START, chess960: false, moves: [] };
let ply = 0;
let sans = [];
let tag = 0;
let analysing = false;
let visible = false;
let answer = null;
let sentAt = 0;         // when the last request was sent
let sendTimer = 0;
let position = null;
let lastValid = null;   // the line that led to it
let typing = false;     // the visitor is typing a FEN

export function hello(message) {
  setOptions(by('analysis-system'), message.systems.map(({ name }) =>
    make('option', { value: name, textContent: opponentName(name) })));
}

export function load(game) {
  typing = false;
  line = { start: game.start, chess960: game.chess960, moves: game.moves };
  ply = game.ply;
  sans = [];
  board.orient(game.side ?? board.orientation());
}

export function enter() {
  visible = true;
  request();
}

export function leave() {
  if (!visible) return;
  visible = false;
  analysing = false;
  clearTimeout(sendTimer);
  send({ type: 'stop' });
  by('evaluation').hidden = true;
}

// Makes the last answer an old one and sends a new request.
function request() {
  tag += 1;
  answer = null;
  // The old lines stay, dimmed, until new ones come.
  by('thoughts').classList.add('stale');
  by('chances').classList.add('stale');
  board.arrows([]);
  board.heat(null);
  drawState();
  // A key that is held down does not send a request for every step.
  clearTimeout(sendTimer);
  sendTimer = setTimeout(sendRequest, Math.max(0, sentAt + REQUEST_INTERVAL - performance.now()));
}

function sendRequest() {
  sentAt = performance.now();
  send({
    type: analysing ? 'analyse' : 'show_position',
    tag,
    start: line.start,
    chess960: line.chess960,
    moves: line.moves.slice(0, ply),
    system: by('analysis-system').value,
    lines: Number(by('lines').value),
    batch: Number(by('batch').value),
  });
  inside.reset();
}

export function showPosition(message) {
  if (message.tag !== tag || !visible) return;
  position = message;
  if (message.correction) {
    notice(message.correction);
    line.start = message.fens[0];
  }
  sans.splice(0, message.sans.length, ...message.sans);
  lastValid = { line: { ...line, moves: [...line.moves] }, ply, sans: [...sans] };
  board.show({
    fen: message.fen,
    turn: message.turn,
    check: message.check,
    lastMove: line.moves[ply - 1],
    destinations: message.destinations,
    movable: 'both',
  });
  moveList(by('analysis-moves'), sans, line.start, ply, go);
  // A late answer does not replace what the visitor is typing.
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
    waiting: 'Waiting for a free search slot…',
    done: answer?.chances ? '' : 'Finished.',
    failed: answer?.error,
  };
  by('think').textContent = analysing ? 'Stop' : 'Start';
  by('think').setAttribute('aria-pressed', analysing);
  by('analysis-state').textContent = !analysing ? 'Move the pieces, or press Start to run the engine.'
    : position?.over ? 'The game is over in this position.' : states[answer?.state] ?? '';
  const system = by('analysis-system').value;
  by('inside').hidden = !(analysing && system === 'batch-first');
  by('thoughts').hidden = by('chances-wdl').hidden = !analysing || system === 'convchess';
  by('evaluation').hidden = !visible || !analysing || system === 'convchess';
  by('chances').hidden = !analysing || system !== 'convchess';
}

function drawLines() {
  const lines = answer.lines;
  if (lines.length === 0) return;
  const list = by('thoughts');
  lines.forEach((found, index) => {
    // An unchanged line keeps its elements: otherwise the next answer would replace a move during a click on it.
    const key = JSON.stringify([position.fen, boundedScore(found), found.depth, found.seldepth, found.pv]);
    const item = list.children[index] ?? list.appendChild(make('li'));
    if (item.dataset.key === key) return;
    item.dataset.key = key;
    redraw(item, make('b', { textContent: boundedScore(found) }), make('span', {}, ...sanLine(found)),
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

const boundedScore = found => ({ lower: '≥', upper: '≤' }[found.bound] ?? '') + score(found.score);

function sanLine(found) {
  const fields = position.fen.split(' ');
  let number = Number(fields[5]);
  let isBlack = fields[1] === 'b';
  const parts = [];
  found.pv.forEach(([, san], index) => {
    const count = isBlack ? (index === 0 ? `${number}… ` : '') : `${number}. `;
    const moves = found.pv.slice(0, index + 1).map(([uci]) => uci);
    parts.push(count, make('button', { textContent: san, type: 'button', onclick: () => answer && follow(moves) }), ' ');
    if (isBlack) number += 1;
    isBlack = !isBlack;
  });
  return parts;
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
  request();
}

export function move(uci) {
  if (line.moves[ply] === uci) return go(ply + 1);
  follow([uci]);
}

function go(to) {
  typing = false;
  ply = Math.max(0, Math.min(to, line.moves.length));
  request();
}

export function step(where) {
  go({ first: 0, back: ply - 1, forward: ply + 1, last: line.moves.length }[where]);
}

// Sends the request again after a lost connection.
export function refresh() {
  if (visible) request();
}

// Goes back to the last valid position, without analysis. The error of an older request is ignored.
export function showError(message) {
  if (message.tag !== tag || !visible) return;
  notice(message.error);
  if (!lastValid) return;
  ({ line, ply, sans } = structuredClone(lastValid));
  tag += 1;
  analysing = false;
  // The search of an older request may still run.
  send({ type: 'stop' });
  drawState();
  board.show({ ...position, lastMove: line.moves[ply - 1], movable: 'both' });
}

export function toggle() {
  analysing = !analysing;
  request();
}

by('think').onclick = toggle;
for (const id of ['analysis-system', 'lines', 'batch']) {
  by(id).onchange = () => {
    by('thoughts').replaceChildren();
    request();
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
  request();
};
by('setup-start').onclick = () => {
  typing = false;
  line = { start: START, chess960: false, moves: [] };
  ply = 0;
  sans = [];
  request();
};
