// What the engine found, on the page: its lines, the evaluation beside the board, and the move probabilities of ConvChess.

import * as board from './board.js';
import { by, make, redraw, score } from './page.js';
import * as preview from './preview.js';

let follow = () => {};

/* Sets the function that is called with the moves of a line up to the chosen one */
export function attach(callback) { follow = callback; }

// The bar beside the board; `null`: the evaluation is not known.
export function drawEvaluation(known) {
  const { cp, mate, result } = known ?? {};
  by('evaluation').classList.toggle('unknown', !known);
  const share = result !== undefined ? 100 * result : mate !== undefined ? (mate > 0 ? 100 : 0) : 50 + 100 / Math.PI * Math.atan((cp ?? 0) / 290);
  const results = { 0: '0–1', 0.5: '½', 1: '1–0' };
  const bar = by('evaluation');
  bar.firstElementChild.style.height = `${share}%`;
  bar.classList.toggle('black-ahead', share < 50);
  bar.lastElementChild.textContent = !known ? '' : result !== undefined ? results[result] : mate !== undefined ? `#${Math.abs(mate)}` : Math.abs(cp / 100).toFixed(1);
  bar.setAttribute('aria-label', !known ? 'Evaluation: not known' : result !== undefined ? `The game is over: ${results[result]}` : `Evaluation ${score({ cp, mate })} for White`);
}

/* Draws lines, the best first. `fen`: the position that they begin in; `areThreats`: they are those of the other side */
export function draw(lines, fen, areThreats) {
  const list = by('thoughts');
  lines.forEach((found, index) => {
    // An unchanged line keeps its elements: otherwise the next answer would replace a move during a click on it.
    const key = JSON.stringify([fen, boundedScore(found), found.depth, found.seldepth, found.pv]);
    const item = list.children[index] ?? list.appendChild(make('li'));
    if (item.dataset.key === key) return;
    item.dataset.key = key;
    redraw(item, make('b', { textContent: boundedScore(found) }), make('span', {}, ...sanLine(found, fen, areThreats)),
      make('small', { textContent: `${found.depth}/${found.seldepth}`, title: 'depth / deepest line, in plies' }));
  });
  while (list.children.length > lines.length) list.lastElementChild.remove();
  list.classList.remove('stale');
  preview.check();
  const best = lines[0];
  board.arrows(lines.map(found => found.pv[0]?.[0]), areThreats);
  drawEvaluation(best.score);
  const [white, draw, black] = best.wdl;
  const parts = by('chances-wdl').children;
  [white, draw, black].forEach((chance, index) => {
    parts[index].style.flexGrow = chance;
    parts[index].textContent = chance >= 90 ? `${Math.round(chance / 10)} %` : '';
  });
  by('chances-wdl').setAttribute('aria-label',
    `White wins ${white / 10} %, draw ${draw / 10} %, Black wins ${black / 10} %`);
}

const boundedScore = found => ({ lower: '≥', upper: '≤' }[found.bound] ?? '') + score(found.score);

function sanLine(found, fen, areThreats) {
  const fields = fen.split(' ');
  let number = Number(fields[5]);
  let isBlack = fields[1] === 'b';
  const parts = [];
  found.pv.forEach(([, san], index) => {
    const count = isBlack ? (index === 0 ? `${number}… ` : '') : `${number}. `;
    const moves = found.pv.slice(0, index + 1).map(([uci]) => uci);
    parts.push(count, lineMove(san, fen, moves, areThreats), ' ');
    if (isBlack) number += 1;
    isBlack = !isBlack;
  });
  return parts;
}

// A move of a line: shown on a small board under the mouse, played by a click. Moves of a threat cannot be played.
function lineMove(san, fen, moves, isThreat) {
  const button = make('button', { textContent: san, type: 'button', onclick: () => !isThreat && follow(moves) });
  button.onpointerenter = event => event.pointerType === 'mouse' && preview.show(button, fen, moves, board.orientation());
  button.onpointerleave = preview.hide;
  return button;
}

/* Draws the probabilities of moves, and of the squares that they leave or enter */
export function drawChances(chances, fen) {
  by('chances').classList.remove('stale');
  redraw(by('chance-list'), ...chances.moves.map(([uci, san, chance]) =>
    make('li', {}, lineMove(san, fen, [uci]),
      make('meter', { max: chances.moves[0][2], value: chance, 'aria-label': san }),
      make('small', { textContent: `${(100 * chance).toFixed(1)} %` }))));
  board.arrows(chances.moves.slice(0, 1).map(([uci]) => uci));
  board.heat(chances[document.querySelector('[name=heat]:checked').value]);
}
