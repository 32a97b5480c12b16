// Elements and texts that several views use: notices, confirmations, lists of moves, formatted numbers.

export const by = id => document.getElementById(id);

let toastTimer = 0;
export function notice(text) {
  by('toast').textContent = text;
  by('toast').hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { by('toast').hidden = true; }, 5000);
}

/* Shows the board and the top of the panel beside or below it */
export function scrollToBoard(panel) {
  panel.scrollTop = 0;
  scrollTo(0, 0);
}

/* Tells screen readers a text */
export function say(text) {
  if (by('spoken').textContent !== text) by('spoken').textContent = text;
}

/* Shows an error below a field, until the field is changed; an empty text takes it away */
export function fieldError(field, text) {
  let note = by(`${field.id}-error`);
  if (!note) {
    note = make('p', { id: `${field.id}-error`, className: 'error', role: 'alert' });
    field.after(note);
    field.addEventListener('input', () => fieldError(field, ''));
  }
  note.textContent = text;
  note.hidden = !text;
  if (text) {
    field.setAttribute('aria-invalid', 'true');
    field.setAttribute('aria-describedby', note.id);
  } else {
    field.removeAttribute('aria-invalid');
    field.removeAttribute('aria-describedby');
  }
}

/* Asks the visitor; true for yes */
export function confirmed(question) {
  const dialog = by('confirm');
  dialog.querySelector('p').textContent = question;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise(resolve => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

/* Sets the options of a select, which can be used from then on, and keeps the chosen one; false if the options are the same as before */
export function setOptions(select, options) {
  const { value } = select;
  select.disabled = false;
  const names = list => [...list].map(option => option.value).join(' ');
  if (select.options.length > 0 && names(select.options) === names(options)) return false;
  select.replaceChildren(...options);
  if (options.some(option => option.value === value)) select.value = value;
  return true;
}

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes('-') || name === 'role') element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/* Replaces the children of an element. Keyboard focus stays on the element with the same data-key, or else at the same index */
export function redraw(list, ...children) {
  const targets = () => [...list.querySelectorAll('a, button:not(:disabled)')];
  const focused = document.activeElement;
  // Focus that came from the mouse is not kept: the keys are shortcuts of the page then.
  const index = focused?.matches(':focus-visible') ? targets().indexOf(focused) : -1;
  list.replaceChildren(...children);
  if (index < 0) return;
  const all = targets();
  const same = focused.dataset.key && all.find(target => target.dataset.key === focused.dataset.key);
  (same || all[Math.min(index, all.length - 1)])?.focus({ preventScroll: true });
}

/* Numbered moves; `first`: FEN of the start position; `ply`: of the shown position; `go(ply)`: called for a chosen move */
export function moveList(list, sans, first, ply, go) {
  const fields = first.split(' ');
  const black = fields[1] === 'b' ? 1 : 0;
  const number = Number(fields[5] ?? 1);
  const rows = [];
  let row = null;
  sans.forEach((san, index) => {
    const halfMove = index + black;
    if (!row || halfMove % 2 === 0) {
      row = make('li', {}, make('span', { className: 'number', textContent: `${number + Math.floor(halfMove / 2)}.` }));
      if (halfMove % 2 === 1) row.append(make('button', { textContent: '…', disabled: true, type: 'button' }));
      rows.push(row);
    }
    const button = make('button', { textContent: san, type: 'button', onclick: () => go(index + 1) });
    if (index + 1 === ply) button.setAttribute('aria-current', 'step');
    row.append(button);
  });
  for (const row of rows) if (row.childElementCount === 2) row.append(make('span'));
  redraw(list, ...rows);
  const current = list.querySelector('[aria-current]');
  // Scrolls the list and not the page.
  if (current) list.scrollTop = current.offsetTop - list.offsetTop - list.clientHeight / 2;
  else list.scrollTop = 0;
}

export function score({ cp, mate }) {
  if (mate !== undefined) return `#${mate}`;
  return (cp > 0 ? '+' : cp < 0 ? '−' : '') + (Math.abs(cp) / 100).toFixed(2);
}

export function short(number) {
  if (number >= 1e7) return `${(number / 1e6).toFixed(0)} M`;
  if (number >= 1e6) return `${(number / 1e6).toFixed(2)} M`;
  if (number >= 1e5) return `${(number / 1e3).toFixed(0)} k`;
  if (number >= 1e4) return `${(number / 1e3).toFixed(1)} k`;
  return Math.round(number).toLocaleString('en');
}

const NAMES = { 'batch-first': 'Batch First', 'batch-first-large': 'Batch First (large)', 'batch-first-fast': 'Batch First (fast)', cockfish: 'Cockfish', convchess: 'ConvChess' };

/* The name of an opponent for people: of a system, or of a Maia as in `maia-1500` */
export const opponentName = name => NAMES[name] ?? name.replace('maia-', 'Maia ');
/* Does this opponent choose moves without a search? */
export const hasNoSearch = name => name === 'convchess' || name.startsWith('maia');

/* A strength in words */
export function level({ kind, value }) {
  switch (kind) {
    case 'nodes': return `${counted(value, 'position')} a move`;
    case 'time': return `${counted(value / 1000, 'second')} a move`;
    case 'depth': return `depth ${value}`;
    default: return 'by its clock';
  }
}

/* A number with its noun, as in `1 move` and `2 moves` */
export const counted = (number, noun) => `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;

const PIECES = { k: 'king', q: 'queen', r: 'rook', b: 'bishop', n: 'knight', p: 'pawn' };

// The pieces of a FEN with their squares, from a8 to h1.
function pieces(fen) {
  const found = [];
  fen.split(' ')[0].split('/').forEach((row, index) => {
    let file = 0;
    for (const letter of row) {
      if (/\d/.test(letter)) file += Number(letter);
      else {
        const color = letter === letter.toLowerCase() ? 'black' : 'white';
        found.push({ square: 'abcdefgh'[file] + (8 - index), role: PIECES[letter.toLowerCase()], color });
        file += 1;
      }
    }
  });
  return found;
}

/* What stands on a square, as in `white knight` */
export function pieceAt(fen, square) {
  const piece = pieces(fen).find(piece => piece.square === square);
  return piece ? `${piece.color} ${piece.role}` : 'empty';
}

/* Every piece of a position in words */
export function describePieces(fen) {
  const side = color => Object.values(PIECES).flatMap(role => {
    const squares = pieces(fen).filter(piece => piece.color === color && piece.role === role).map(({ square }) => square);
    return squares.length ? [`${role}${squares.length > 1 ? 's' : ''} ${squares.join(' ')}`] : [];
  }).join(', ') || 'none';
  return `White: ${side('white')}. Black: ${side('black')}.`;
}

const mover = fen => (fen.split(' ')[1] === 'b' ? 'Black' : 'White');

/* A position in words: the side to move and every piece */
export const describePosition = fen => `${mover(fen)} to move. ${describePieces(fen)}`;

/* A position that was stepped to, in words; `san`: the move that led to it, if any */
export function describeStep(san, fen) {
  return `${san ? `After ${san}` : 'First position'}. ${mover(fen)} to move.`;
}
