// The moves of a game with variations: the main line in two columns, variations and comments between its rows. All texts of people
// are put in as text, never as HTML.

import { by, make, score } from './page.js';
import { isWhiteToMove, path, tag } from './tree.js';

const SYMBOLS = {
  1: '!', 2: '?', 3: '!!', 4: '??', 5: '!?', 6: '?!', 7: '□', 10: '=', 13: '∞', 14: '⩲', 15: '⩱', 16: '±', 17: '∓', 18: '+−',
  19: '−+', 22: '⨀', 32: '⟳', 36: '→', 40: '↑', 132: '⇆', 138: '⊕', 146: 'N',
};
const CLASSES = { 1: 'good', 2: 'mistake', 3: 'good', 4: 'blunder', 5: 'good', 6: 'inaccuracy' };

let list = null;
let nodes = new Map();

/* Sets the element that shows the moves; `go(node)` is called for a chosen move */
export function attach(element, go) {
  list = element;
  list.onclick = event => {
    const button = event.target.closest('[data-node]');
    if (!button) return;
    // After a click with the mouse the keys are the page's: space runs the engine.
    if (event.detail > 0) button.blur();
    go(nodes.get(Number(button.dataset.node)));
  };
}

const glyphs = nags => nags.map(nag => SYMBOLS[nag] ?? `$${nag}`).join('');

// The score, depth and time that match programs write after a move, at the beginning of its comment: `-0.31/14 0.52s`. Without a time
// the comment ends there, and the score has a sign.
const ENGINE_SCORE = /^([+-]?\d+\.\d+|[+-]M\d+)\/\d+ \d+(?:\.\d+)?s\b,?|^([+-]\d+\.\d+|0\.00|[+-]M\d+)\/\d+$/;

// A comment without what programs write for programs, such as clocks.
const withoutCommands = text => text.replace(/\[%[^\]]*\]/g, '').replace(/\s+/g, ' ').trim();

// The verdict of the analysis stands before what the comment was.
const VERDICT = /^\([^()]* → [^()]*\) [\w ]+\.(?: \S+ was best\.)? ?/;

/* A comment as people see it */
export function shownComment(text) {
  const all = withoutCommands(text);
  const [verdict] = all.match(VERDICT) ?? [''];
  return `${verdict}${all.slice(verdict.length).replace(ENGINE_SCORE, '').trim()}`.trim();
}

/* The score beside a move of the main line, from White's side: that of the analysis, or else that of the player's program, which writes
   it from its own side */
export function scoreText(node) {
  // A mate on the board is not a mate in one.
  if (node.san?.endsWith('#')) return '';
  if (node.mate !== undefined || node.cp !== undefined) return score(node);
  const [, timed, bare] = withoutCommands(node.comment).match(ENGINE_SCORE) ?? [];
  const text = timed ?? bare ?? '';
  if (!text || isWhiteToMove(node.parent) || /^[+-]?0\.0+$/.test(text)) return text;
  return text.startsWith('-') ? text.replace('-', '+') : `-${text.replace('+', '')}`;
}

function moveButton(node, hasScore) {
  nodes.set(node.id, node);
  const button = make('button', { type: 'button', textContent: node.san });
  button.dataset.node = node.id;
  button.dataset.key = node.id;
  if (node.nags.length > 0) button.append(make('span', { className: 'glyph', textContent: glyphs(node.nags) }));
  const text = hasScore ? scoreText(node) : '';
  if (text) button.append(make('small', { textContent: text }));
  const kind = node.nags.map(nag => CLASSES[nag]).find(Boolean);
  if (kind) button.classList.add(kind);
  return button;
}

// `12.` before White's move, `12…` before Black's where `always` is set.
function number(node, always) {
  const [, turn, , , , count] = node.parent.fen.split(' ');
  if (turn === 'w') return `${count}.`;
  return always ? `${count}…` : '';
}

function comment(text) {
  const shown = shownComment(text);
  return shown ? [make('span', { className: 'comment', textContent: shown }), ' '] : [];
}

// A variation in one paragraph, with the variations inside it in parentheses.
function line(first) {
  const parts = [];
  let always = true;
  for (let node = first; node; node = node.children[0]) {
    if (node.before) parts.push(...comment(node.before));
    const count = number(node, always);
    if (count) parts.push(make('span', { className: 'number', textContent: count }));
    const said = comment(node.comment);
    // Alternatives to this move; those to the first one are variations of their own.
    const others = node === first ? [] : node.parent.children.slice(1);
    parts.push(moveButton(node), ' ', ...said);
    for (const other of others) parts.push(make('span', { className: 'nested' }, '(', ...line(other), ')'), ' ');
    always = said.length > 0 || others.length > 0;
  }
  return parts;
}

function rows(tree) {
  const parts = [];
  const aside = (...children) => parts.push(make('div', { className: 'aside' }, ...children));
  if (shownComment(tree.root.comment)) aside(...comment(tree.root.comment));
  let always = true;
  for (let node = tree.root.children[0]; node; node = node.children[0]) {
    const isWhite = isWhiteToMove(node.parent);
    if (isWhite || always) {
      parts.push(make('span', { className: 'number', textContent: number(node, true).replace('…', '.') }));
      if (!isWhite) parts.push(make('span', { className: 'gap', textContent: '…' }));
    }
    parts.push(moveButton(node, true));
    const others = node.parent.children.slice(1);
    const said = [...comment(node.before), ...comment(node.comment)];
    always = said.length > 0 || others.length > 0;
    if (!always) continue;
    if (isWhite) parts.push(make('span', { className: 'gap', textContent: node.children.length > 0 ? '…' : '' }));
    if (said.length > 0) aside(...said);
    for (const other of others) aside(...line(other));
  }
  return parts;
}

/* Draws the moves; keyboard focus stays on its move */
export function draw(tree, current) {
  const key = list.contains(document.activeElement) && document.activeElement.matches(':focus-visible') ? document.activeElement.dataset.key : '';
  nodes = new Map();
  list.replaceChildren(...rows(tree));
  by('no-moves').hidden = tree.root.children.length > 0;
  if (key) list.querySelector(`[data-key="${key}"]`)?.focus({ preventScroll: true });
  mark(current);
}

/* Marks the move of the shown position */
export function mark(current) {
  list.querySelector('[aria-current]')?.removeAttribute('aria-current');
  const button = list.querySelector(`[data-node="${current.id}"]`);
  if (!button) {
    list.scrollTop = 0;
    return;
  }
  button.setAttribute('aria-current', 'step');
  // Scrolls the list and not the page.
  const [inner, outer] = [button.getBoundingClientRect(), list.getBoundingClientRect()];
  if (inner.top < outer.top + 20 || inner.bottom > outer.bottom - 20) list.scrollTop += inner.top - outer.top - list.clientHeight / 2;
}

/* Shows the players, the event and the opening; `side`: the one below */
export function drawNames(tree, node, side) {
  const named = path(node).reverse().concat(tree.root).find(({ opening }) => opening);
  by('opening').textContent = named?.opening ?? '';
  by('opening').hidden = !named;
  const [white, black] = [tag(tree, 'White'), tag(tree, 'Black')];
  const title = by('analysis-title');
  title.hidden = !white && !black;
  const about = ['Event', 'Date'].map(name => tag(tree, name)).filter(Boolean).join(', ');
  const result = tag(tree, 'Result').replace('1/2-1/2', '½–½').replace('-', '–');
  title.replaceChildren(`${white || '?'} – ${black || '?'} `, make('b', { textContent: result }), ' ', make('small', { textContent: about }));
  for (const [id, color] of [['bottom', side === 'white' ? 'White' : 'Black'], ['top', side === 'white' ? 'Black' : 'White']]) {
    const rating = tag(tree, `${color}Elo`);
    by(id).querySelector('.who').replaceChildren(tag(tree, color), ...(rating ? [make('small', { textContent: rating })] : []));
    by(id).querySelector('.clock').hidden = true;
  }
}
