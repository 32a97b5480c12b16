// The board: chessground with promotion, arrows and heat maps. The server decides which moves are legal.

import { addCursor } from './cursor.js';
import { by, describePieces, describePosition, pieceAt, say } from './page.js';
import { moveSound } from './preferences.js';
import { Chessground } from './vendor/chessground/chessground.min.js';

const element = document.getElementById('board');
const dialog = document.getElementById('promotion');
const ROLES = [['queen', 'q'], ['rook', 'r'], ['bishop', 'b'], ['knight', 'n']];

let listener = () => {};
let shown = null;
let isEditing = false;

const ground = Chessground(element, {
  animation: { duration: matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 180 },
  movable: { free: false, color: undefined, showDests: true, events: { after: moved } },
  premovable: { enabled: true, showDests: true, castle: true },
  drawable: { enabled: true, brushes: {
    best: { key: 'best', color: '#123f7a', opacity: 1, lineWidth: 12 },
    other: { key: 'other', color: '#123f7a', opacity: 0.5, lineWidth: 8 },
    threat: { key: 'threat', color: '#882020', opacity: 0.9, lineWidth: 12 },
    otherThreat: { key: 'otherThreat', color: '#882020', opacity: 0.45, lineWidth: 8 },
    green: { key: 'g', color: '#15781B', opacity: 1, lineWidth: 10 },
    red: { key: 'r', color: '#882020', opacity: 1, lineWidth: 10 },
    blue: { key: 'b', color: '#003088', opacity: 1, lineWidth: 10 },
    yellow: { key: 'y', color: '#e68f00', opacity: 1, lineWidth: 10 },
  } },
});
addCursor(element, ground, () => (isEditing ? placement() : shown?.fen ?? ''));
// A hidden board has no size; arrows are drawn again when it is shown.
new ResizeObserver(() => { if (element.clientWidth > 0) ground.redrawAll(); }).observe(element);

async function moved(from, to, how) {
  if (isEditing) return;
  const piece = ground.state.pieces.get(to);
  const promotes = piece?.role === 'pawn' && (to[1] === '1' || to[1] === '8');
  let letter = '';
  if (promotes) {
    letter = how.premove ? 'q' : await choosePromotion(piece.color);
    if (!letter) {
      if (shown) show(shown);
      return;
    }
  }
  listener(from + to + letter);
}

// Asks which piece a pawn becomes; empty if the dialog was cancelled.
function choosePromotion(color) {
  return new Promise(resolve => {
    const row = document.createElement('div');
    for (const [role, letter] of ROLES) {
      const button = document.createElement('button');
      button.value = letter;
      button.setAttribute('aria-label', role);
      button.innerHTML = `<span class="cg-wrap"><piece class="${role} ${color}"></piece></span>`;
      button.onclick = () => dialog.close(letter);
      row.append(button);
    }
    dialog.replaceChildren(row);
    dialog.returnValue = '';
    dialog.addEventListener('close', () => resolve(dialog.returnValue), { once: true });
    dialog.showModal();
  });
}

// From-square and to-square of a move.
function squares(uci) {
  return uci ? [uci.slice(0, 2), uci.slice(2, 4)] : undefined;
}

// The sound of a move that leads from one shown position to the next.
function sound(before, after) {
  const count = ({ fen }) => fen.split(' ')[0].replace(/[^a-z]/gi, '').length;
  const isMove = before && after.lastMove && before.fen !== after.fen && before.turn !== after.turn;
  if (isMove && count(before) - count(after) < 2) moveSound(count(after) < count(before));
}

/* position: { fen, turn, check, lastMove, destinations, movable: 'white' | 'black' | 'both' | undefined } */
export function show(position) {
  if (isEditing) {
    shown = position;
    return;
  }
  sound(shown, position);
  shown = position;
  // Screen readers find the pieces as the description of the board.
  by('position').textContent = describePosition(position.fen);
  ground.set({
    fen: position.fen,
    turnColor: position.turn,
    check: position.check ? position.turn : false,
    lastMove: squares(position.lastMove),
    movable: { color: position.movable, dests: new Map(Object.entries(position.destinations ?? {})) },
    premovable: { enabled: position.movable !== 'both' },
  });
  if (position.movable && position.movable === position.turn) ground.playPremove();
}

/* Lets the visitor place pieces as he likes. `tool()`: the piece that a click places, with an empty role to take one away, or null to
   move pieces; `changed()`: the pieces are others */
export function edit(placement, tool, changed) {
  isEditing = true;
  const hasChanged = () => {
    by('position').textContent = describePieces(ground.getFen());
    changed();
  };
  ground.set({
    fen: placement,
    check: false,
    lastMove: undefined,
    // A king that is moved two squares takes no rook with it.
    autoCastle: false,
    movable: { free: true, color: 'both', dests: undefined },
    premovable: { enabled: false },
    draggable: { deleteOnDropOff: true },
    events: {
      change: hasChanged,
      select(key) {
        const piece = tool();
        if (!piece) return;
        ground.setPieces(new Map([[key, piece.role ? { ...piece } : undefined]]));
        ground.cancelMove();
        ground.selectSquare(null);
        say(`${key} ${pieceAt(ground.getFen(), key)}`);
        hasChanged();
      },
    },
  });
  ground.setAutoShapes([]);
  hasChanged();
}

/* Ends the placing of pieces */
export function endEdit() {
  isEditing = false;
  ground.set({ autoCastle: true, movable: { free: false }, draggable: { deleteOnDropOff: false }, events: { change: undefined, select: undefined } });
  if (shown) show(shown);
}

/* The pieces on the board, as the first field of a FEN */
export const placement = () => ground.getFen();

/* Sets the function that is called with the UCI move of the visitor */
export function onMove(callback) { listener = callback; }

/* Shows the board from a side */
export function orient(side) {
  if (ground.state.orientation !== side) ground.set({ orientation: side });
  document.getElementById('evaluation').classList.toggle('turned', side === 'black');
}

export function orientation() { return ground.state.orientation; }

export function hasPremove() { return Boolean(ground.state.premovable.current); }

export function cancelPremove() { ground.cancelPremove(); }

/* moves: in UCI notation, the best first; red where they are threats */
export function arrows(moves, areThreats = false) {
  const [first, others] = areThreats ? ['threat', 'otherThreat'] : ['best', 'other'];
  ground.setAutoShapes(moves.filter(Boolean).map((uci, rank) => ({
    orig: uci.slice(0, 2), dest: uci.slice(2, 4), brush: rank === 0 ? first : others,
  })));
}

/* chances: 64 numbers from a1 to h8, or null */
export function heat(chances) {
  const custom = new Map();
  const most = Math.max(...(chances ?? [0]), 0.02);
  (chances ?? []).forEach((chance, index) => {
    const level = Math.round(9 * Math.sqrt(chance / most));
    if (level > 0) custom.set('abcdefgh'[index % 8] + (1 + Math.floor(index / 8)), `heat-${level}`);
  });
  ground.set({ highlight: { custom } });
}
