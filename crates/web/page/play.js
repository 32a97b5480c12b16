// The open game as the server sends it.

import * as board from './board.js';
import { command, send } from './connection.js';
import { by, confirmed, describeStep, fieldError, hasNoSearch, make, moveList, opponentName, say } from './page.js';
import * as newGame from './new-game.js';
import { resultText } from './result.js';

let game = null;        // the latest state from the server
let ply = 0;            // of the shown position
let receivedAt = 0;     // when the state came
let typed = null;       // the typed move that the server has not answered yet
let visible = true;
let requested = null;   // id of the requested game, or 'new'
let newest = 0;         // the highest id so far; a new game has a higher one

export const current = () => game;
export const hello = newGame.hello;
export const title = () => (game ? `Game ${game.id}` : 'New game');

newGame.onStart(() => { requested = 'new'; });

export function open(id) {
  requested = id;
  send({ type: 'open', game: id });
}

export function showForm() {
  game = requested = typed = null;
  fieldError(by('typed-move'), '');
  send({ type: 'close' });
  by('new-game').hidden = false;
  by('game').hidden = true;
  board.orient('white');
  board.show({ fen: 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR', turn: 'white' });
  drawPlayers();
}

// --- The game

export function state(message) {
  const isNew = game?.id !== message.id;
  // States of the game that was open before may still arrive.
  if (isNew && message.id !== requested && !(requested === 'new' && message.id > newest)) return;
  newest = Math.max(newest, message.id);
  // A premove is about the last position: it does not wait while earlier ones are looked at.
  const wasLast = isNew || ply === game.moves.length || board.hasPremove();
  if (isNew || message.moves.length > game.moves.length) answerTyped();
  if (!isNew && message.moves.length !== game.moves.length) fieldError(by('typed-move'), '');
  game = message;
  receivedAt = performance.now();
  if (isNew) {
    board.cancelPremove();
    forgetTyped();
    if (location.hash !== `#game/${game.id}`) location.hash = `#game/${game.id}`;
    if (visible) board.orient(game.side);
  }
  if (wasLast || ply > game.moves.length) ply = game.moves.length;
  by('new-game').hidden = true;
  by('game').hidden = false;
  if (visible) draw();
  announce();
}

// Tells screen readers the engine's move, the result, a hint and the answer to a draw offer.
function announce() {
  const last = game.moves.at(-1);
  const own = game.turn === game.side;
  const parts = [];
  if (last && own) parts.push(`${opponentName(game.system)} plays ${last.san}.`);
  if (game.advice) parts.push(adviceText());
  else if (game.result || game.notice || own) parts.push(`${verdict()}.`);
  say(parts.join(' '));
}

export function enter() {
  visible = true;
  if (game) {
    board.orient(game.side);
    draw();
  }
}

export function leave() { visible = false; }

function draw() {
  const last = game.moves.length;
  const isLive = ply === last && !game.result;
  board.arrows([]);
  board.heat(null);
  board.show({
    fen: game.fens[ply],
    turn: game.fens[ply].split(' ')[1] === 'w' ? 'white' : 'black',
    check: ply === last ? game.check : /[+#]/.test(game.moves[ply - 1]?.san ?? ''),
    lastMove: game.moves[ply - 1]?.uci,
    destinations: isLive && game.turn === game.side ? game.destinations : {},
    movable: isLive ? game.side : undefined,
  });
  moveList(by('moves'), game.moves.map(({ san }) => san), game.fens[0], ply, go);
  drawPlayers();
  by('verdict').classList.toggle('over', Boolean(game.result));
  by('verdict').textContent = verdict();
  by('game-title').textContent = `Game against ${opponentName(game.system)}`;
  const isOver = Boolean(game.result);
  const isAdvised = game.advice?.state === 'hint_asked' || game.advice?.state === 'draw_offered';
  by('resign').disabled = isOver;
  by('take-back').disabled = !game.takeback;
  by('hint').disabled = by('offer-draw').disabled = isOver || game.turn !== game.side || isAdvised;
  by('typed-move').disabled = isOver;
  if (isOver) forgetTyped();
  by('advice').textContent = adviceText();
  if (ply === last && game.advice?.state === 'hint') board.arrows([game.advice.uci]);
  by('to-pgn').href = `/games/${game.id}.pgn`;
}

function verdict() {
  if (game.notice) return game.notice;
  if (game.result) return resultText(game.result, game.side, opponentName(game.system));
  if (game.thinking === 'waiting') return 'Waiting for the engine';
  if (game.turn !== game.side) return `${opponentName(game.system)} is thinking…`;
  if (ply < game.moves.length) return 'Your move (in the latest position)';
  return game.check ? 'Check · Your move' : 'Your move';
}

function adviceText() {
  switch (game.advice?.state) {
    case 'hint_asked': return 'Looking for a good move…';
    case 'draw_offered': return 'You offered a draw…';
    case 'hint': return `Hint: ${game.advice.san}`;
    case 'draw_declined': return `${opponentName(game.system)} declines the draw.`;
    case 'failed': return game.advice.error;
    default: return '';
  }
}

function drawPlayers() {
  const ownBelow = board.orientation() === (game?.side ?? 'white');
  for (const id of ['top', 'bottom']) {
    const isEngine = (id === 'top') === ownBelow;
    const side = game && (isEngine ? (game.side === 'white' ? 'black' : 'white') : game.side);
    const who = by(id).querySelector('.who');
    who.replaceChildren();
    if (game) {
      who.append(isEngine ? opponentName(game.system) : 'You');
      if (isEngine) who.append(make('small', { textContent: strength() }));
      if (isEngine && game.thinking === 'yes') who.append(make('small', { className: 'dots', textContent: '● thinking' }));
    }
    const clock = by(id).querySelector('.clock');
    clock.hidden = !game?.clock;
    if (game?.clock) {
      const runs = game.clock.running === side;
      const left = remaining(side);
      clock.textContent = time(left);
      clock.classList.toggle('runs', runs);
      clock.classList.toggle('low', runs && left < 10000);
    }
  }
}

function strength() {
  if (hasNoSearch(game.system)) return 'human-like';
  // Ratings were measured with the program's own networks, without threads.
  const rating = game.threads === null && game.engine === newGame.network(game.system) && newGame.rating(game.system, game.level);
  return [rating, game.level_text].filter(Boolean).join(' · ');
}

const remaining = side =>
  Math.max(0, game.clock[side] - (game.clock.running === side ? performance.now() - receivedAt : 0));

// Stops the shown clock: the server stops its own when it notices that the connection is lost.
export function connectionLost() {
  const side = game?.clock?.running;
  if (!side) return;
  game.clock[side] = remaining(side);
  game.clock.running = null;
  if (visible) drawPlayers();
}

setInterval(() => { if (visible && game?.clock?.running) drawPlayers(); }, 100);

function time(milliseconds) {
  if (milliseconds < 10000) return `0:0${(milliseconds / 1000).toFixed(1)}`;
  const seconds = Math.ceil(milliseconds / 1000);
  const pad = number => String(number).padStart(2, '0');
  const hours = Math.floor(seconds / 3600);
  return `${hours ? `${hours}:${pad(Math.floor(seconds / 60) % 60)}` : Math.floor(seconds / 60)}:${pad(seconds % 60)}`;
}

export function go(to) {
  if (!game) return;
  ply = Math.max(0, Math.min(to, game.moves.length));
  draw();
  const isEnd = game.result && ply === game.moves.length;
  say(isEnd ? `${verdict()}.` : describeStep(game.moves[ply - 1]?.san, game.fens[ply]));
}

export function step(where) {
  if (!game) return;
  go({ first: 0, back: ply - 1, forward: ply + 1, last: game.moves.length }[where]);
}

export function move(uci) {
  if (game) command({ type: 'move', game: game.id, ply: game.moves.length, uci });
}

export function refresh() { if (game && visible) draw(); }

export function flipped() { drawPlayers(); }

export async function takeBack() {
  if (!game || by('take-back').disabled) return;
  const { id, result } = game;
  if (result && !await confirmed('Take back a move of a finished game? Its result will be deleted.')) return;
  board.cancelPremove();
  command({ type: 'take_back', game: id });
}

export function hint() {
  if (game && !by('hint').disabled) command({ type: 'hint', game: game.id });
}

by('take-back').onclick = takeBack;
by('hint').onclick = hint;
by('offer-draw').onclick = () => command({ type: 'offer_draw', game: game.id });
by('resign').onclick = async () => {
  if (await confirmed('Resign this game?')) command({ type: 'resign', game: game.id });
};
by('typed').onsubmit = event => {
  event.preventDefault();
  const text = by('typed-move').value.trim();
  if (!text || !game) return;
  fieldError(by('typed-move'), '');
  if (game.turn !== game.side) fieldError(by('typed-move'), 'It is not your turn.');
  else if (command({ type: 'move', game: game.id, ply: game.moves.length, uci: text })) typed = text;
};

// What was typed in another game, or before the end, is not for this one.
function forgetTyped() {
  by('typed-move').value = '';
  fieldError(by('typed-move'), '');
  typed = null;
}

// The server has played the typed move: the field is free for the next one.
function answerTyped() {
  if (typed !== null && by('typed-move').value.trim() === typed) by('typed-move').value = '';
  typed = null;
}

/* Shows an error of the server at the field that it is about; false where there is none */
export function showError(message) {
  if (message.field !== undefined) return newGame.showError(message);
  if (typed === null) return false;
  typed = null;
  fieldError(by('typed-move'), message.error);
  return true;
}

/* The game and the ply that is shown, for the analysis */
export function shownGame() {
  return game && { start: game.fens[0], chess960: game.chess960, moves: game.moves.map(({ uci }) => uci), ply, side: game.side };
}
