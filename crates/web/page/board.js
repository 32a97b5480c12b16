// The board: chessground, with promotion, arrows and heat maps. It shows what the server says and never judges a move.

import { Chessground } from './vendor/chessground/chessground.min.js';

const element = document.getElementById('board');
const dialog = document.getElementById('promotion');
const ROLES = [['queen', 'q'], ['rook', 'r'], ['bishop', 'b'], ['knight', 'n']];

let onMove = () => {};
let shown = null;

const ground = Chessground(element, {
  animation: { duration: matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 180 },
  movable: { free: false, color: undefined, showDests: true, events: { after: moved } },
  premovable: { enabled: true, showDests: true, castle: true },
  drawable: { enabled: true, brushes: {
    best: { key: 'best', color: '#123f7a', opacity: 1, lineWidth: 12 },
    other: { key: 'other', color: '#123f7a', opacity: 0.5, lineWidth: 8 },
    green: { key: 'g', color: '#15781B', opacity: 1, lineWidth: 10 },
    red: { key: 'r', color: '#882020', opacity: 1, lineWidth: 10 },
    blue: { key: 'b', color: '#003088', opacity: 1, lineWidth: 10 },
    yellow: { key: 'y', color: '#e68f00', opacity: 1, lineWidth: 10 },
  } },
});
// A hidden board has no size to draw arrows in.
new ResizeObserver(() => { if (element.clientWidth > 0) ground.redrawAll(); }).observe(element);

async function moved(from, to, how) {
  const piece = ground.state.pieces.get(to);
  const promotes = piece?.role === 'pawn' && (to[1] === '1' || to[1] === '8');
  let letter = '';
  if (promotes) {
    letter = how.premove ? 'q' : await choose(piece.color);
    if (!letter) {
      if (shown) show(shown);
      return;
    }
  }
  onMove(from + to + letter);
}

// Which piece a pawn becomes; nothing if the dialog was left.
function choose(color) {
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

// Squares of the last move, as the board marks them.
function squares(uci) {
  return uci ? [uci.slice(0, 2), uci.slice(2, 4)] : undefined;
}

/* position: { fen, turn, check, lastMove, destinations, movable: 'white' | 'black' | 'both' | undefined } */
export function show(position) {
  shown = position;
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

export function whenMoved(listener) { onMove = listener; }

export function turn(side) {
  if (ground.state.orientation !== side) ground.set({ orientation: side });
  document.getElementById('evaluation').classList.toggle('turned', side === 'black');
}

export function orientation() { return ground.state.orientation; }

export function cancelPremove() { ground.cancelPremove(); }

/* lines: UCI moves, the best first */
export function arrows(lines) {
  ground.setAutoShapes(lines.filter(Boolean).map((uci, rank) => ({
    orig: uci.slice(0, 2), dest: uci.slice(2, 4), brush: rank === 0 ? 'best' : 'other',
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
