// Analysis of any position by any system, on a board with a tree of variations: which game and which position is shown, and what
// the visitor does with them. The server checks every move.

import * as address from './address.js';
import * as board from './board.js';
import * as editor from './editor.js';
import * as engine from './engine.js';
import * as file from './game-file.js';
import * as lines from './lines.js';
import { by, describeStep, fieldError, make, notice, opponentName, say, setOptions } from './page.js';
import * as puzzles from './puzzles.js';
import * as remarks from './remarks.js';
import { ask } from './replies.js';
import * as review from './review.js';
import * as trees from './tree.js';
import * as view from './tree-view.js';

// The wheel turns this far for one move, in pixels.
const WHEEL_STEP = 60;

let tree = trees.empty();
let node = tree.root;   // the shown position
let candidate = null;   // a position or moves that the server is to check: { tree, node, moves, field, isNew }
let visible = false;
let typing = false;     // the visitor is typing a FEN

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
  address.newEntry();
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
  if (address.isWritten(hash) || hash === '#analyse') {
    saveAddress();
    return;
  }
  try {
    const found = await address.visit(hash);
    if (found) await openTree(found.tree, found.at);
  } catch {
    notice('The address holds no game that can be read.');
  }
  address.sameEntry();
}

function saveAddress() {
  address.save(() => (visible ? { tree, node } : null));
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
  address.leave();
  engine.leave();
}

// --- Requests

function request() {
  engine.request();
  if (visible && !candidate) showNode();
}

/* Takes the server's answer about the position: what is legal, and the moves that it was asked to check */
export function showPosition(message) {
  if (!engine.isCurrent(message) || !visible) return;
  if (engine.isThreat() && engine.isRunning() && !candidate) return;
  const isNew = Boolean(candidate?.isNew);
  const isGrown = accept(message, candidate ?? { tree, node, moves: [] });
  candidate = null;
  if (message.correction) notice(message.correction);
  const isEnd = Boolean(message.over) && !node.over;
  Object.assign(node, { destinations: message.destinations, over: message.over ?? '', isLast: message.is_last, isCheck: message.check });
  if (isNew) {
    showNotes([]);
    address.newEntry();
    editor.close();
  }
  if (isNew || isGrown) drawTree();
  if (isNew || isGrown || isEnd) tell();
  showNode();
  engine.drawState();
  // A late answer does not replace what the visitor is typing.
  if (!typing) {
    by('setup-fen').value = node.fen;
    by('setup-960').checked = tree.chess960;
    fieldError(by('setup-fen'), '');
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

/* Sends the request again after a lost connection */
export function refresh() {
  if (visible) request();
}

/* Goes back to the last valid position. The error of an older request is ignored */
export function showError(message) {
  if (!engine.isCurrent(message) || !visible) return;
  const text = message.error;
  const { field } = candidate ?? {};
  if (field) {
    fieldError(by(field), text);
    // What was typed stays, to be mended.
    typing = field === 'setup-fen';
    // The field may be folded away.
    by(field).closest('details')?.setAttribute('open', '');
  } else {
    notice(engine.isThreat() ? `There is no threat to show: ${text}` : text);
  }
  // Without a candidate the settings are at fault: the same request would fail again.
  if (candidate || engine.isThreat()) {
    candidate = null;
    engine.setThreat(false);
    request();
  } else {
    engine.leave();
    engine.drawState();
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

// --- Moves

// Goes along moves from the shown position; new ones become a variation.
function follow(moves, field) {
  typing = false;
  fieldError(by('analysis-move'), '');
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
  engine.setThreat(false);
  return follow([uci]);
}

function go(to) {
  typing = false;
  candidate = null;
  if (node !== to) engine.setThreat(false);
  node = to;
  if (node.parent) node.parent.recent = node;
  fieldError(by('analysis-move'), '');
  tell();
  request();
}

// Screen readers hear the move that led here, and how the game ended.
function tell() { say(node.over ? `${node.san ? `After ${node.san}. ` : ''}${node.over}` : describeStep(node.san, node.fen)); }

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
  if (engine.isRunning()) engine.stop();
  else engine.start();
  engine.setThreat(false);
  request();
}

/* Shows what the other side would play if this one passed */
export function toggleThreat() {
  if (isBusy()) return;
  if (node.isLast || node.isCheck) {
    notice(node.isLast ? 'The game is over: there is no threat.' : 'There is no threat to show: the king is in check.');
    return;
  }
  engine.setThreat(!engine.isThreat());
  if (engine.isThreat()) engine.start();
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
lines.attach(moves => engine.hasAnswer() && follow(moves));
engine.attach({ shown: () => ({ tree, node, candidate, visible }), changed: request });
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
let sideBefore = 'white';  // the side from which the board was seen before the puzzles
puzzles.attach({
  begun() { sideBefore = board.orientation(); },
  show({ node: at }) {
    engine.stop();
    board.orient(trees.isWhiteToMove(at) ? 'white' : 'black');
    go(at);
  },
  solved({ solution }) { go(solution); },
  ended({ mistake }) {
    board.orient(sideBefore);
    go(mistake);
  },
});
editor.attach({
  ended() {
    candidate = null;
    request();
  },
  done: fen => setUp(fen, tree.chess960, 'editor-done'),
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

// `field`: where the error is shown if the server refuses the position.
function setUp(fen, chess960, field = 'setup-fen') {
  puzzles.end();
  typing = false;
  fieldError(by(field), '');
  if (field === 'setup-fen') {
    editor.close();
    by('setup-fen').value = fen;
  }
  const next = trees.empty(fen, chess960);
  candidate = { tree: next, node: next.root, moves: [], field, isNew: true };
  request();
}

by('think').onclick = toggle;
by('review-start').onclick = () => {
  if (engine.isRunning()) toggle();
  review.start(tree);
};
by('setup').oninput = () => { typing = true; };
by('setup').onsubmit = event => {
  event.preventDefault();
  setUp(by('setup-fen').value.trim(), by('setup-960').checked);
};
by('setup-edit').onclick = () => {
  if (engine.isRunning()) toggle();
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
