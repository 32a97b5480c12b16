// Moves without a mouse: arrow keys move a cursor over the board, enter or space picks a piece up and puts it down.

import { pieceAt, say } from './page.js';

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/* `ground`: chessground in `element`; `shownFen()`: the position on the board */
export function addCursor(element, ground, shownFen) {
  const mark = document.createElement('div');
  mark.className = 'cursor';
  let [file, rank] = [4, 1];
  const name = () => 'abcdefgh'[file] + (rank + 1);

  function draw() {
    const isWhiteBelow = ground.state.orientation === 'white';
    mark.style.left = `${12.5 * (isWhiteBelow ? file : 7 - file)}%`;
    mark.style.top = `${12.5 * (isWhiteBelow ? 7 - rank : rank)}%`;
    // chessground empties its element when it draws itself anew.
    if (!mark.isConnected) element.append(mark);
  }

  element.addEventListener('focus', () => { if (element.matches(':focus-visible')) draw(); });
  element.addEventListener('blur', () => mark.remove());
  element.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isChoice = event.key === 'Enter' || event.key === ' ';
    if (event.key === 'Escape') ground.cancelMove();
    if (!isChoice && !(event.key in STEPS)) return;
    event.preventDefault();
    // These keys are shortcuts of the page elsewhere.
    event.stopPropagation();
    if (isChoice) {
      const before = ground.state.selected;
      ground.selectSquare(name());
      if (!before && ground.state.selected) say(`${name()} ${pieceAt(shownFen(), name())} chosen`);
    } else {
      const turn = ground.state.orientation === 'white' ? 1 : -1;
      const [right, up] = STEPS[event.key];
      file = Math.max(0, Math.min(7, file + turn * right));
      rank = Math.max(0, Math.min(7, rank + turn * up));
      say(`${name()} ${pieceAt(shownFen(), name())}`);
    }
    draw();
  });
}
