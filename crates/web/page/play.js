// Games: the form for a new game, the open game as the server sends it, and the list of games.

import * as board from './board.js';
import { command, send } from './connection.js';
import { by, confirmed, hasNoSearch, level, make, moveList, notice, opponentName, redraw, setOptions } from './page.js';

let game = null;        // the latest state from the server
let ply = 0;            // of the shown position
let receivedAt = 0;     // when the state came
let ratedLevels = [];
let visible = true;
let requested = null;   // id of the requested game, or 'new'
let newest = 0;         // the highest id so far; a new game has a higher one

export const current = () => game;

// --- The form for a new game

const HINTS = {
  'batch-first': 'Best-first search in batches over a trained network: the strongest of the three.',
  cockfish: 'Plain alpha-beta over a small residual network.',
  convchess: 'No search at all: seven networks guess what a human would play.',
  maia: 'Plays as people of a rating do, mistakes included: a Maia network chooses each move without a search.',
};
const KINDS = {
  strength: 'rating', nodes: 'evaluations a move', time: 'seconds a move', depth: 'depth in plies', clock: 'what its clock allows',
};
const AMOUNTS = { nodes: [1000, 'evaluations a move'], time: [1, 'seconds a move'], depth: [4, 'plies'] };

export function hello(message) {
  const known = JSON.stringify(ratedLevels);
  ratedLevels = message.levels;
  const systems = message.systems.map(({ name, network }) =>
    make('option', { value: name, textContent: opponentName(name), title: network }));
  if (message.maia_ratings.length > 0) systems.push(make('option', { value: 'maia', textContent: 'Human-like (Maia)' }));
  setOptions(by('maia-rating'), message.maia_ratings.map(rating => make('option', { value: rating, textContent: rating })));
  const isNew = setOptions(by('system'), systems);
  if (isNew) systemChosen();
  else if (JSON.stringify(ratedLevels) !== known) levelsChanged();
}

const ofSystem = () => ratedLevels.filter(({ system }) => system === by('system').value);

function systemChosen() {
  const system = by('system').value;
  by('system-hint').textContent = HINTS[system] ?? '';
  by('maia-field').hidden = system !== 'maia';
  by('level-field').hidden = hasNoSearch(system);
  by('level-kind').replaceChildren();
  offerLevels();
  if (system === 'cockfish') by('level-kind').value = 'depth';
  by('strength').value = Math.min(1, ofSystem().length - 1);
  kindChosen();
}

function offerLevels() {
  const kinds = Object.keys(KINDS).filter(kind => kind !== 'strength' || ofSystem().length > 0);
  setOptions(by('level-kind'), kinds.map(kind => make('option', { value: kind, textContent: KINDS[kind] })));
  by('strength').max = Math.max(ofSystem().length - 1, 0);
}

// The server may return with other levels after a restart; all other choices stay.
function levelsChanged() {
  const kind = by('level-kind').value;
  offerLevels();
  if (by('level-kind').value === kind) strengthChosen();
  else kindChosen();
}

function kindChosen() {
  const kind = by('level-kind').value;
  by('strength-row').hidden = kind !== 'strength';
  by('amount-row').hidden = by('amount').disabled = !(kind in AMOUNTS);
  if (kind in AMOUNTS) {
    by('amount').value = AMOUNTS[kind][0];
    by('amount').step = kind === 'time' ? 0.1 : 1;
    by('amount').min = kind === 'time' ? 0.1 : 1;
    by('amount-unit').textContent = AMOUNTS[kind][1];
  }
  if (kind === 'clock' && !by('clock').value) by('clock').value = '300,3';
  strengthChosen();
}

function strengthChosen() {
  const chosen = ofSystem()[by('strength').value];
  if (!chosen) return;
  by('strength-text').replaceChildren(
    make('b', { textContent: chosen.elo }), `± ${chosen.interval}`,
    make('small', { textContent: `${level(chosen.level)} a move; measured in ${chosen.games} games on the arena's ladder` }));
}

function fromChosen() {
  const from = by('from').value;
  // A hidden field must not fail the form's validation.
  by('chess960-number').hidden = by('chess960-number').disabled = from !== '960';
  by('fen').hidden = by('fen-960').hidden = from !== 'fen';
  by('pgn').hidden = from !== 'pgn';
}

function chosenLevel() {
  const kind = by('level-kind').value;
  const amount = Number(by('amount').value);
  if (hasNoSearch(by('system').value)) return { kind: 'nodes', value: 1 };
  if (kind === 'strength') return ofSystem()[by('strength').value].level;
  if (kind === 'clock') return { kind };
  return { kind, value: Math.round(kind === 'time' ? 1000 * amount : amount) };
}

by('system').onchange = systemChosen;
by('level-kind').onchange = kindChosen;
by('strength').oninput = strengthChosen;
by('from').onchange = fromChosen;
by('new-game').onsubmit = event => {
  event.preventDefault();
  const from = by('from').value;
  const clock = by('clock').value;
  const number = by('chess960-number').value;
  const sent = command({
    type: 'new_game',
    system: by('system').value === 'maia' ? `maia-${by('maia-rating').value}` : by('system').value,
    side: by('new-game').elements.side.value,
    level: chosenLevel(),
    clock: clock ? clock.split(',').map(seconds => 1000 * Number(seconds)) : null,
    fen: from === 'fen' ? by('fen').value : '',
    pgn: from === 'pgn' ? by('pgn').value : '',
    chess960: from === '960' || (from === 'fen' && by('fen-is-960').checked),
    chess960_number: from === '960' && number !== '' ? Number(number) : null,
  });
  if (sent) requested = 'new';
};

export function open(id) {
  requested = id;
  send({ type: 'open', game: id });
}

export function showForm() {
  game = requested = null;
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
  const wasLast = isNew || ply === game.moves.length;
  game = message;
  receivedAt = performance.now();
  if (isNew) {
    board.cancelPremove();
    if (location.hash !== `#game/${game.id}`) location.hash = `#game/${game.id}`;
    if (visible) board.orient(game.side);
  }
  if (wasLast || ply > game.moves.length) ply = game.moves.length;
  by('new-game').hidden = true;
  by('game').hidden = false;
  if (visible) draw();
  announceMove();
}

// Tells screen readers the engine's move.
function announceMove() {
  const last = game.moves.at(-1);
  const text = last && game.turn === game.side ? `${opponentName(game.system)} plays ${last.san}` : '';
  if (by('spoken').textContent !== text) by('spoken').textContent = text;
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
  by('resign').disabled = Boolean(game.result);
  by('take-back').disabled = game.moves.length === 0;
  by('to-pgn').href = `/games/${game.id}.pgn`;
}

function verdict() {
  if (game.notice) return game.notice;
  if (game.result) {
    const [result, ending] = game.result;
    const winner = result === '1-0' ? 'white' : result === '0-1' ? 'black' : null;
    const outcome = winner === null ? 'Draw' : winner === game.side ? 'You win' : 'You lose';
    return `${outcome} ${result.replace('1/2-1/2', '½–½').replace('-', '–')}: ${ending}`;
  }
  if (game.thinking === 'waiting') return 'Waiting for a free search slot…';
  if (game.turn !== game.side) return `${opponentName(game.system)} is thinking…`;
  return game.check ? 'Check! Your move' : 'Your move';
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
      if (isEngine) who.append(make('small', { textContent: hasNoSearch(game.system) ? 'no search' : game.level_text }));
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

by('take-back').onclick = takeBack;
by('resign').onclick = async () => {
  if (await confirmed('Resign this game?')) command({ type: 'resign', game: game.id });
};
by('typed').onsubmit = event => {
  event.preventDefault();
  const text = by('typed-move').value.trim();
  by('typed-move').value = '';
  if (!text) return;
  if (game?.turn !== game?.side || game?.result) notice('It is not your turn.');
  else move(text);
};

/* The game and the ply that is shown, for the analysis */
export function shownGame() {
  return game && { start: game.fens[0], chess960: game.chess960, moves: game.moves.map(({ uci }) => uci), ply, side: game.side };
}

// --- The list

export function list(message) {
  redraw(by('game-list'), ...message.games.map(row));
  if (message.games.length === 0) {
    by('game-list').append(make('li', {}, make('span', { className: 'hint', textContent: 'None yet.' })));
  }
}

function row({ id, begun, system, level: how, engine_white, plies, result, ending }) {
  const side = engine_white ? 'Black' : 'White';
  const open = make('a', { className: 'open', href: `#game/${id}` },
    make('span', { textContent: new Date(begun).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' }) }),
    make('span', { textContent: `${side} against ${opponentName(system)} ` },
      make('small', { textContent: hasNoSearch(system) ? '' : level(how) })),
    make('span', {}, result ? `${result.replace('1/2-1/2', '½–½')} ` : 'in progress ',
      make('small', { textContent: ending ?? `${Math.ceil(plies / 2)} moves` })));
  const pgn = make('a', { className: 'button', href: `/games/${id}.pgn`, textContent: 'PGN' });
  pgn.setAttribute('download', `batch-first-${id}.pgn`);
  const remove = make('button', { textContent: 'Delete', onclick: async () => {
    if (await confirmed('Delete this game for good?')) command({ type: 'delete', game: id });
  } });
  return make('li', {}, open, pgn, remove);
}
