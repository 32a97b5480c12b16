// Puzzles from the mistakes of an analysed game: positions in which one move was much better than all others. The analysis marks that
// move with the glyph of an only move.

import { by, scrollToBoard } from './page.js';
import { isWhiteToMove, mainLine } from './tree.js';

const ONLY_MOVE = 7;
const BAD = [2, 4];

let puzzles = [];       // { node: the position, solution, mistake }
let index = 0;
let isSolved = false;
let listener = {};

/* callbacks: { begun(), show(puzzle), solved(puzzle), ended(puzzle) } */
export function attach(callbacks) { listener = callbacks; }

export const isActive = () => puzzles.length > 0;

/* The puzzles of a game for the side that erred: `white` or `black` */
export function find(tree, side) {
  return mainLine(tree).slice(0, -1).flatMap(node => {
    const [mistake, ...others] = node.children;
    const solution = others.find(({ nags }) => nags.includes(ONLY_MOVE));
    const isOwn = isWhiteToMove(node) === (side === 'white');
    return isOwn && solution && mistake.nags.some(nag => BAD.includes(nag)) ? [{ node, solution, mistake }] : [];
  });
}

export function start(found) {
  puzzles = found;
  listener.begun();
  show(0);
}

export function end() {
  if (!isActive()) return;
  const puzzle = puzzles[index];
  puzzles = [];
  document.body.classList.remove('solving');
  by('puzzle').hidden = true;
  listener.ended(puzzle);
}

function show(number) {
  index = number;
  isSolved = false;
  const { node, mistake } = puzzles[index];
  const side = isWhiteToMove(node) ? 'White' : 'Black';
  document.body.classList.add('solving');
  by('puzzle').hidden = false;
  scrollToBoard(by('view-analyse'));
  by('puzzle-title').textContent = `Puzzle ${index + 1} of ${puzzles.length}`;
  const count = node.fen.split(' ')[5];
  by('puzzle-task').textContent = `${side} played ${count}${side === 'White' ? '.' : '…'} ${mistake.san}, and one move was much better. Find it.`;
  say('');
  buttons();
  listener.show(puzzles[index]);
}

function buttons() {
  by('puzzle-solution').hidden = isSolved;
  by('puzzle-next').hidden = !isSolved || index + 1 >= puzzles.length;
}

function say(text, kind = '') {
  by('puzzle-answer').textContent = text;
  by('puzzle-answer').className = kind;
}

// Castling may be the king on its rook or two squares on; both go to the same side.
function isSolution(uci, { uci: right, san }) {
  const isOnSameSide = (uci[2] > uci[0]) === (right[2] > right[0]) && Math.abs(uci.charCodeAt(2) - uci.charCodeAt(0)) > 1;
  return uci === right || (san.startsWith('O-O') && uci.slice(0, 2) === right.slice(0, 2) && uci[3] === right[3] && isOnSameSide);
}

/* Takes a move that was tried on the board */
export function tried(uci) {
  const puzzle = puzzles[index];
  if (isSolved) return;
  if (isSolution(uci, puzzle.solution)) return solve(`${puzzle.solution.san} is right.`, 'right');
  const isMistake = uci === puzzle.mistake.uci;
  say(isMistake ? 'That was played in the game. There is something much better.' : 'There is something better. Try again.', 'wrong');
  listener.show(puzzle);
}

function solve(text, kind) {
  isSolved = true;
  say(text, kind);
  buttons();
  listener.solved(puzzles[index]);
}

by('puzzle-solution').onclick = () => solve(`The move was ${puzzles[index].solution.san}.`);
by('puzzle-next').onclick = () => show(index + 1);
by('puzzle-end').onclick = end;
