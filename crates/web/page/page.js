// Small things that several parts of the page need: notices, questions, lists of moves, numbers in words.

export const by = id => document.getElementById(id);

let toasted = 0;
export function notice(text) {
  by('toast').textContent = text;
  by('toast').hidden = false;
  clearTimeout(toasted);
  toasted = setTimeout(() => { by('toast').hidden = true; }, 5000);
}

export function sure(question) {
  const dialog = by('sure');
  dialog.querySelector('p').textContent = question;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise(resolve => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

/* Gives a select its options, keeping what is chosen; false if it has them already */
export function choices(select, options) {
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

/* Draws a list anew. Who has come to something in it by keyboard stays there: where the key is the same, or else the place */
export function redraw(list, ...children) {
  const targets = () => [...list.querySelectorAll('a, button:not(:disabled)')];
  const held = document.activeElement;
  // After a click with the mouse the keys are the page's.
  const place = held?.matches(':focus-visible') ? targets().indexOf(held) : -1;
  list.replaceChildren(...children);
  if (place < 0) return;
  const all = targets();
  const same = held.dataset.key && all.find(target => target.dataset.key === held.dataset.key);
  (same || all[Math.min(place, all.length - 1)])?.focus({ preventScroll: true });
}

/* Numbered moves; `first`: FEN of the start; `ply`: the one that is shown; `go(ply)`: called for a chosen one */
export function moveList(list, sans, first, ply, go) {
  const fields = first.split(' ');
  const black = fields[1] === 'b' ? 1 : 0;
  const number = Number(fields[5] ?? 1);
  const rows = [];
  let row = null;
  sans.forEach((san, index) => {
    const place = index + black;
    if (!row || place % 2 === 0) {
      row = make('li', {}, make('span', { className: 'number', textContent: `${number + Math.floor(place / 2)}.` }));
      if (place % 2 === 1) row.append(make('button', { textContent: '…', disabled: true, type: 'button' }));
      rows.push(row);
    }
    const button = make('button', { textContent: san, type: 'button', onclick: () => go(index + 1) });
    if (index + 1 === ply) button.setAttribute('aria-current', 'step');
    row.append(button);
  });
  for (const row of rows) if (row.childElementCount === 2) row.append(make('span'));
  redraw(list, ...rows);
  const current = list.querySelector('[aria-current]');
  // Only the list moves, not the page.
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

export const NAMES = { 'batch-first': 'Batch First', cockfish: 'Cockfish', convchess: 'ConvChess' };

export function level({ kind, value }) {
  switch (kind) {
    case 'nodes': return `${value.toLocaleString('en')} evaluation${value === 1 ? '' : 's'}`;
    case 'time': return `${value / 1000} s`;
    case 'depth': return `depth ${value}`;
    default: return 'its clock';
  }
}
