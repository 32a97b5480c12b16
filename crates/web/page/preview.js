// A small board beside the pointer: the position that a move of a line leads to.

import { make } from './page.js';
import { Chessground } from './vendor/chessground/chessground.min.js';

const SIZE = 216;
let box = null;
let ground = null;
let anchor = null;      // the element that the board belongs to

const at = name => 8 * (8 - Number(name[1])) + name.charCodeAt(0) - 97;

// Castling in either notation: the king on its rook, or two squares on. Returns the squares of king and rook afterwards.
function castle(squares, from, to) {
  const isKing = squares[from]?.toLowerCase() === 'k';
  const isOnRook = squares[to]?.toLowerCase() === 'r' && (squares[to] === 'R') === (squares[from] === 'K');
  if (!isKing || !(isOnRook || Math.abs(from - to) === 2)) return false;
  const row = from - from % 8;
  const isShort = to > from;
  const rook = isOnRook ? to : row + (isShort ? 7 : 0);
  const [king, piece] = [squares[from], squares[rook]];
  squares[from] = squares[rook] = '';
  squares[row + (isShort ? 6 : 2)] = king;
  squares[row + (isShort ? 5 : 3)] = piece;
  return true;
}

// The pieces of a position after moves that are legal in it, as the first field of a FEN.
function piecesAfter(fen, moves) {
  const squares = fen.split(' ')[0].replaceAll('/', '').split('').flatMap(letter => (Number(letter) ? Array(Number(letter)).fill('') : [letter]));
  for (const uci of moves) {
    const [from, to] = [at(uci), at(uci.slice(2))];
    if (castle(squares, from, to)) continue;
    const piece = squares[from];
    const isPawn = piece?.toLowerCase() === 'p';
    if (isPawn && from % 8 !== to % 8 && !squares[to]) squares[from - from % 8 + to % 8] = '';
    squares[from] = '';
    squares[to] = uci[4] ? (piece === 'P' ? uci[4].toUpperCase() : uci[4]) : piece;
  }
  const ranks = Array.from({ length: 8 }, (_, rank) => squares.slice(8 * rank, 8 * rank + 8).map(piece => piece || '1').join(''));
  return ranks.join('/');
}

/* Shows the position after moves, near an element */
export function show(element, fen, moves, side) {
  if (!box) {
    box = make('div', { className: 'preview', 'aria-hidden': 'true' }, make('div'));
    document.body.append(box);
    ground = Chessground(box.firstChild, { viewOnly: true, coordinates: false, animation: { enabled: false }, drawable: { enabled: false } });
  }
  anchor = element;
  const near = element.getBoundingClientRect();
  box.hidden = false;
  const left = Math.max(8, Math.min(near.left, innerWidth - SIZE - 12));
  const below = near.bottom + 8;
  const top = below + SIZE < innerHeight ? below : near.top - SIZE - 8;
  Object.assign(box.style, { left: `${left}px`, top: `${Math.max(8, top)}px` });
  const last = moves.at(-1);
  ground.set({ fen: piecesAfter(fen, moves), orientation: side, lastMove: last ? [last.slice(0, 2), last.slice(2, 4)] : undefined });
  ground.redrawAll();
}

/* Hides the board if its element is no longer there */
export function check() {
  if (anchor && !anchor.isConnected) hide();
}

export function hide() {
  anchor = null;
  if (box) box.hidden = true;
}
