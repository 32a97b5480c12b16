// The board editor: pieces are placed, moved and taken away freely; the server judges the position when it is done.

import * as board from './board.js';
import { by, fieldError, make, scrollToBoard } from './page.js';

const ROLES = ['king', 'queen', 'rook', 'bishop', 'knight', 'pawn'];
const CASTLING = ['K', 'Q', 'k', 'q'];

let listener = {};
let tool = null;        // the piece that a click places; { role: '' } takes away, null moves
let isOpen = false;

/* callbacks: { done(fen), ended() } */
export function attach(callbacks) { listener = callbacks; }

export const isActive = () => isOpen;

/* Opens the editor with a position */
export function open(fen) {
  isOpen = true;
  document.body.classList.add('editing-board');
  by('editor').hidden = false;
  scrollToBoard(by('view-analyse'));
  choose(null);
  const [, turn, castling] = fen.split(' ');
  by('editor-turn').value = turn;
  for (const letter of CASTLING) by(`castle-${letter}`).checked = castling.includes(letter);
  board.edit(fen.split(' ')[0], () => tool, forgetError);
}

/* Closes the editor; the board shows what it showed before, or what the listener shows next */
export function close() {
  if (!isOpen) return;
  isOpen = false;
  document.body.classList.remove('editing-board');
  by('editor').hidden = true;
  board.endEdit();
  listener.ended();
}

// The error of the position before is not that of the next one.
const forgetError = () => fieldError(by('editor-done'), '');

function choose(next) {
  tool = next;
  for (const button of by('palette').children) button.setAttribute('aria-pressed', String(button.dataset.tool === (tool ? `${tool.color} ${tool.role}` : 'move')));
}

function toolButton(name, next, ...content) {
  const button = make('button', { type: 'button', title: name, 'aria-label': name, onclick: () => choose(next) }, ...content);
  button.dataset.tool = next ? `${next.color} ${next.role}` : 'move';
  return button;
}

const pieceButton = (color, role) => toolButton(`place a ${color} ${role}`, { color, role },
  make('span', { className: 'cg-wrap' }, make('piece', { className: `${role} ${color}` })));
by('palette').append(
  toolButton('move pieces', null, '✥'), ...ROLES.map(role => pieceButton('white', role)),
  toolButton('remove pieces', { color: '', role: '' }, '✕'), ...ROLES.map(role => pieceButton('black', role)));

by('editor-empty').onclick = () => {
  board.edit('8/8/8/8/8/8/8/8', () => tool, forgetError);
  for (const letter of CASTLING) by(`castle-${letter}`).checked = false;
};
by('editor-start').onclick = () => {
  board.edit('rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR', () => tool, forgetError);
  by('editor-turn').value = 'w';
  for (const letter of CASTLING) by(`castle-${letter}`).checked = true;
};
// The side to move and the castling rights.
by('editor').addEventListener('input', forgetError);
by('editor-close').onclick = close;
by('editor-done').onclick = () => {
  const castling = CASTLING.filter(letter => by(`castle-${letter}`).checked).join('') || '-';
  // The editor stays open until the server has accepted the position.
  listener.done(`${board.placement()} ${by('editor-turn').value} ${castling} - 0 1`);
};
