// Analysis of any position by any system, on a board with a tree of variations. Each change of the position or the settings is a new
// request; answers carry its tag.

import * as address from './address.js';
import * as board from './board.js';
import { send } from './connection.js';
import * as editor from './editor.js';
import * as file from './game-file.js';
import * as inside from './inside.js';
import * as lines from './lines.js';
import { by, fieldError, make, notice, opponentName, setOptions, short } from './page.js';
import * as preview from './preview.js';
import * as puzzles from './puzzles.js';
import * as remarks from './remarks.js';
import { ask, nextTag } from './replies.js';
import * as review from './review.js';
import * as trees from './tree.js';
import * as view from './tree-view.js';

// The least time between two requests, in milliseconds.
const REQUEST_INTERVAL = 80;
// The address is written this long after the last change, in milliseconds: browsers limit how often it may change.
const ADDRESS_DELAY = 400;
// The wheel turns this far for one move, in pixels.
const WHEEL_STEP = 60;

let tree = trees.empty();
let node = tree.root;   // the shown position
let candidate = null;   // a position or moves that the server is to check: { tree, node, moves, field, isNew }
let tag = 0;
let analysing = false;
let threat = false;     // the lines are those of the other side, as if this one passed
let visible = false;
let answer = null;
let sentAt = 0;         // when the last request was sent
let sendTimer = 0;
let typing = false;     // the visitor is typing a FEN
let written = '';       // the address of what is shown
let addressTimer = 0;
let addressIsNew = false;

export function hello(message) {
  setOptions(by('analysis-system'), message.systems.map(({ name }) =>
    make('option', { value: name, textContent: opponentName(name) })));
}

// --- Games and positions

/* Shows a game that was played: { start, chess960, moves, ply, side, tags } */
export async function load(game) {
  board.orient(game.side ?? board.orientation());
  const nodes = [{}, ...game.moves.map((uci, index) => ({ parent: index, uci }))];
  await openTree({ start: game.start, chess960: game.chess960, tags: game.tags ?? [], nodes }, game.ply);
}

// Lets the server check a game and shows it.
async function openTree(message, at) {
  try {
    const completed = await ask('complete', { tree: message });
    const { tree: opened, all } = trees.fromMessage(completed.tree);
    replace(opened, all[at] ?? opened.root, []);
  } catch (error) {
    notice(error.message);
  }
}

// Shows another game; the browser's Back returns to the one before.
function replace(next, at, notes) {
  review.end('The analysis of the earlier game was cancelled.');
  puzzles.end();
  editor.close();
  tree = next;
  node = at;
  candidate = null;
  typing = false;
  addressIsNew = true;
  showNotes(notes);
  drawTree();
  request();
}

function showNotes(notes) {
  by('notes').hidden = notes.length === 0;
  by('note-list').replaceChildren(...notes.map(text => make('li', { textContent: text })));
}

/* Shows what the address holds */
export async function open(hash) {
  if (hash === written || hash === '#analyse') {
    saveAddress();
    return;
  }
  written = hash;
  try {
    const found = await address.read(hash);
    if (found) await openTree(found.tree, found.at);
  } catch {
    notice('The address holds no game that can be read.');
  }
  addressIsNew = false;
}

function saveAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(async () => {
    const shown = node;
    const { hash, state } = await address.write(tree, node, addressIsNew);
    if (!visible || shown !== node || !location.hash.startsWith('#analyse')) return;
    // The state of a kept game changes, and its address does not.
    if (hash !== location.hash || state) history[addressIsNew ? 'pushState' : 'replaceState'](state, '', hash);
    addressIsNew = false;
    written = hash;
  }, ADDRESS_DELAY);
}

export function enter() {
  visible = true;
  drawTree();
  request();
}

export function leave() {
  if (!visible) return;
  puzzles.end();
  editor.close();
  visible = false;
  analysing = false;
  clearTimeout(sendTimer);
  clearTimeout(addressTimer);
  send({ type: 'stop' });
  preview.hide();
  by('evaluation').hidden = true;
}

// --- Requests

// Makes the last answer an old one and sends a new request.
function request() {
  tag = nextTag();
  answer = null;
  // The old lines stay, dimmed, until new ones come.
  by('thoughts').classList.add('stale');
  by('chances').classList.add('stale');
  preview.hide();
  board.arrows([]);
  board.heat(null);
  if (visible && !candidate) showNode();
  drawState();
  // A key that is held down does not send a request for every step.
  clearTimeout(sendTimer);
  sendTimer = setTimeout(sendRequest, Math.max(0, sentAt + REQUEST_INTERVAL - performance.now()));
}

function sendRequest() {
  sentAt = performance.now();
  const at = candidate ?? { tree, node, moves: [] };
  const moves = [...trees.path(at.node).map(({ uci }) => uci), ...at.moves];
  const asked = {
    tag,
    start: at.tree.start,
    chess960: at.tree.chess960,
    moves,
    system: by('analysis-system').value,
    lines: Number(by('lines').value),
    batch: Number(by('batch').value),
  };
  if (threat && analysing && !candidate) Object.assign(asked, { start: passed(node.fen), moves: [] });
  send({ type: analysing ? 'analyse' : 'show_position', ...asked });
  inside.reset();
}

// The position with the other side to move.
function passed(fen) {
  const fields = fen.split(' ');
  return [fields[0], fields[1] === 'w' ? 'b' : 'w', fields[2], '-', '0', fields[5]].join(' ');
}

/* Takes the server's answer about the position: what is legal, and the moves that it was asked to check */
export function showPosition(message) {
  if (message.tag !== tag || !visible) return;
  if (threat && analysing && !candidate) return;
  const isNew = Boolean(candidate?.isNew);
  const isGrown = accept(message, candidate ?? { tree, node, moves: [] });
  candidate = null;
  if (message.correction) notice(message.correction);
  Object.assign(node, { destinations: message.destinations, over: message.over ?? '', isLast: message.is_last, isCheck: message.check });
  if (isNew) {
    showNotes([]);
    addressIsNew = true;
  }
  if (isNew || isGrown) drawTree();
  showNode();
  drawState();
  // A late answer does not replace what the visitor is typing.
  if (!typing) {
    by('setup-fen').value = node.fen;
    by('setup-960').checked = tree.chess960;
  }
}

// Shows the position that the server has checked; true if moves were added.
function accept(message, { tree: checked, isNew }) {
  let isGrown = false;
  if (isNew) {
    review.end('The analysis of the earlier game was cancelled.');
    tree = checked;
  }
  let at = tree.root;
  if (at.children.length === 0) tree.start = message.fens[0];
  Object.assign(at, { fen: message.fens[0], opening: message.openings[0] });
  message.moves.forEach(([uci, san], index) => {
    let next = trees.child(at, uci);
    if (!next) {
      next = trees.add(at, { uci, san });
      isGrown = true;
    }
    Object.assign(next, { san, fen: message.fens[index + 1], opening: message.openings[index + 1] });
    at.recent = next;
    at = next;
  });
  node = at;
  return isGrown;
}

export function show(message) {
  if (message.tag !== tag || !visible) return;
  if (message.state === 'waiting' && answer) message = { ...message, lines: answer.lines };
  answer = message;
  if (message.view) inside.show(message.view);
  drawState();
  if (answer.lines.length > 0 && !node.isLast) showLines();
  if (answer.chances) lines.drawChances(answer.chances, node.fen);
}

function showLines() {
  lines.draw(answer.lines, threat ? passed(node.fen) : node.fen, threat);
  const [best] = answer.lines;
  if (!node.over && !threat) {
    by('analysis-state').textContent = `Depth ${best.depth}, ${short(best.nodes)} evaluations, ${short(1000 * best.nodes / Math.max(best.milliseconds, 1))} a second`;
  }
}

/* Sends the request again after a lost connection */
export function refresh() {
  if (visible) request();
}

/* Goes back to the last valid position. The error of an older request is ignored */
export function showError(message) {
  if (message.tag !== tag || !visible) return;
  const text = message.error;
  const { field } = candidate ?? {};
  if (field) {
    fieldError(by(field), text);
    // What was typed stays, to be mended.
    typing = field === 'setup-fen';
    // The field may be folded away.
    by(field).closest('details')?.setAttribute('open', '');
  } else {
    notice(threat ? `There is no threat to show: ${text}` : text);
  }
  // Without a candidate the settings are at fault: the same request would fail again.
  if (candidate || threat) {
    candidate = null;
    threat = false;
    request();
  } else {
    analysing = false;
    send({ type: 'stop' });
    drawState();
  }
}

// --- What is shown

function showNode() {
  board.show({
    fen: node.fen,
    turn: trees.isWhiteToMove(node) ? 'white' : 'black',
    check: node.isCheck ?? /[+#]$/.test(node.san),
    lastMove: node.uci || undefined,
    destinations: node.destinations,
    movable: 'both',
  });
  view.mark(node);
  review.show(tree, node);
  remarks.show(node);
  view.drawNames(tree, node, board.orientation());
  saveAddress();
}

function drawTree() {
  view.draw(tree, node);
  view.drawNames(tree, node, board.orientation());
  review.show(tree, node);
}

function drawState() {
  const states = {
    waiting: 'Waiting for a free search slot…',
    done: answer?.chances ? '' : 'Finished.',
    failed: answer?.error,
  };
  by('think').textContent = analysing ? 'Stop' : 'Start';
  by('think').setAttribute('aria-pressed', analysing);
  const idle = node.over || (analysing ? states[answer?.state] : 'Move the pieces, or press Start to run the engine.');
  by('analysis-state').textContent = (threat && analysing ? 'The threat: what the other side would play now. ' : '') + (idle ?? '');
  const system = by('analysis-system').value;
  const hasLines = analysing && !node.isLast;
  // No line and no evaluation of an earlier position stays when the game is over in this one.
  if (node.isLast) by('thoughts').replaceChildren();
  by('inside').hidden = !(analysing && system === 'batch-first');
  by('thoughts').hidden = by('chances-wdl').hidden = !hasLines || system === 'convchess';
  by('chances').hidden = !hasLines || system !== 'convchess';
  const ended = node.isLast ? { result: resultHere() } : null;
  const known = ended ?? (node.mate !== undefined || node.cp !== undefined ? node : null);
  by('evaluation').hidden = !visible;
  if (!(answer?.lines?.length > 0) && !(hasLines && by('thoughts').children.length > 0 && !known)) lines.drawEvaluation(known);
}

// White's points where the rules end the game.
function resultHere() {
  if (!node.isCheck) return 0.5;
  return trees.isWhiteToMove(node) ? 0 : 1;
}

// --- Moves

// Goes along moves from the shown position; new ones become a variation.
function follow(moves, field) {
  typing = false;
  let at = node;
  let known = 0;
  while (known < moves.length && trees.child(at, moves[known])) {
    at = trees.child(at, moves[known]);
    known += 1;
  }
  if (known === moves.length) return go(at);
  candidate = { tree, node: at, moves: moves.slice(known), field };
  request();
}

/* A move that the visitor made on the board */
export function move(uci) {
  if (puzzles.isActive()) return puzzles.tried(uci);
  // Castling may come as the king on its rook, or two squares on: the server knows the one form of it.
  threat = false;
  return follow([uci]);
}

function go(to) {
  typing = false;
  candidate = null;
  if (node !== to) threat = false;
  node = to;
  if (node.parent) node.parent.recent = node;
  request();
}

// The board is not that of the analysis: a puzzle is solved, or a position edited.
const isBusy = () => puzzles.isActive() || editor.isActive();

export function step(where) {
  if (isBusy()) return undefined;
  if (where === 'first') return go(tree.root);
  if (where === 'back') return node.parent && go(node.parent);
  if (where === 'forward') {
    const next = node.recent ?? node.children[0];
    return next && go(next);
  }
  let at = node;
  while (at.children.length > 0) at = at.children[0];
  return go(at);
}

export function toggle() {
  if (isBusy()) return;
  analysing = !analysing;
  threat = false;
  request();
}

/* Shows what the other side would play if this one passed */
export function toggleThreat() {
  if (node.isLast || isBusy()) return;
  threat = !threat;
  if (threat) analysing = true;
  by('thoughts').replaceChildren();
  request();
}

/* The board was turned */
export function flipped() { view.drawNames(tree, node, board.orientation()); }

async function typed(event) {
  event.preventDefault();
  const text = by('analysis-move').value.trim();
  if (!text) return;
  const at = node;
  try {
    const { uci } = await ask('read_move', { start: tree.start, chess960: tree.chess960, moves: trees.path(node).map(other => other.uci), text });
    // The visitor went to another position meanwhile: the move is not for that one.
    if (node !== at) return;
    by('analysis-move').value = '';
    fieldError(by('analysis-move'), '');
    follow([uci], 'analysis-move');
  } catch (error) {
    if (node === at) fieldError(by('analysis-move'), error.message);
  }
}

// --- Controls

// The lines of an older position cannot be played.
lines.attach(moves => answer && follow(moves));
view.attach(by('analysis-moves'), go);
remarks.attach({
  go,
  current: () => node,
  changed() {
    drawTree();
    remarks.show(node);
    saveAddress();
  },
});
review.attach({
  go,
  finished() {
    // The shown move may be of an older line of the analysis: its position is found again by its moves.
    let at = tree.root;
    for (const { uci } of trees.path(node)) at = trees.child(at, uci) ?? at;
    node = at;
    drawTree();
    request();
  },
});
puzzles.attach({
  show({ node: at }) {
    analysing = false;
    board.orient(trees.isWhiteToMove(at) ? 'white' : 'black');
    go(at);
  },
  solved({ solution }) { go(solution); },
  ended({ mistake }) { go(mistake); },
});
editor.attach({
  ended: () => request(),
  done: fen => setUp(fen, tree.chess960),
});
file.attach({
  current: () => ({ tree, node }),
  position: fen => setUp(fen, tree.chess960),
  game({ tree: message, notes }) {
    const { tree: opened } = trees.fromMessage(message);
    replace(opened, opened.root, notes);
    // The keys are the page's, and not the button's that opened the form.
    document.activeElement.blur();
  },
});

function setUp(fen, chess960) {
  puzzles.end();
  editor.close();
  typing = false;
  fieldError(by('setup-fen'), '');
  by('setup-fen').value = fen;
  const next = trees.empty(fen, chess960);
  candidate = { tree: next, node: next.root, moves: [], field: 'setup-fen', isNew: true };
  request();
}

by('think').onclick = toggle;
by('review-start').onclick = () => {
  if (analysing) toggle();
  review.start(tree);
};
for (const id of ['analysis-system', 'lines', 'batch']) {
  by(id).onchange = () => {
    by('thoughts').replaceChildren();
    request();
  };
}
for (const radio of document.querySelectorAll('[name=heat]')) radio.onchange = () => answer?.chances && lines.drawChances(answer.chances, node.fen);
by('setup').oninput = () => { typing = true; };
by('setup').onsubmit = event => {
  event.preventDefault();
  setUp(by('setup-fen').value.trim(), by('setup-960').checked);
};
by('setup-edit').onclick = () => {
  if (analysing) toggle();
  editor.open(node.fen);
};
by('setup-start').onclick = () => setUp(trees.START, false);
by('typed-analysis').onsubmit = typed;
by('note-close').onclick = () => showNotes([]);

let wheel = 0;
by('board').addEventListener('wheel', event => {
  if (!visible || event.ctrlKey) return;
  event.preventDefault();
  wheel += event.deltaY * (event.deltaMode === 0 ? 1 : 30);
  if (Math.abs(wheel) < WHEEL_STEP) return;
  step(wheel > 0 ? 'forward' : 'back');
  wheel = 0;
}, { passive: false });
