// Elements and texts that several views use: notices, confirmations, lists of moves, formatted numbers.

export const by = id => document.getElementById(id);

let toastTimer = 0;
export function notice(text) {
  by('toast').textContent = text;
  by('toast').hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { by('toast').hidden = true; }, 5000);
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

/* Sets the options of a select and keeps the chosen one; false if the options are the same as before */
export function setOptions(select, options) {
  const { value } = select;
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

const NAMES = { 'batch-first': 'Batch First', cockfish: 'Cockfish', convchess: 'ConvChess' };

/* The name of an opponent for people: of a system, or of a Maia as in `maia-1500` */
export const opponentName = name => NAMES[name] ?? name.replace('maia-', 'Maia ');
/* Does this opponent choose moves without a search? */
export const hasNoSearch = name => name === 'convchess' || name.startsWith('maia');

export function level({ kind, value }) {
  switch (kind) {
    case 'nodes': return `${value.toLocaleString('en')} evaluation${value === 1 ? '' : 's'}`;
    case 'time': return `${value / 1000} s`;
    case 'depth': return `depth ${value}`;
    default: return 'its clock';
  }
}
