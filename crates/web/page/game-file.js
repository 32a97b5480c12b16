// Games from files and the clipboard, and back: PGN that is pasted, chosen or dropped, a list where there are several games, and
// copies of the game and the position.

import { by, counted, fieldError, make, notice } from './page.js';
import { ask } from './replies.js';
import { tag, toMessage } from './tree.js';

// The server's limit of a PGN, in bytes (docs/8-page.md).
const MAX_PGN = 1024 * 1024;
const FEN = /^\s*([pnbrqk1-8]+\/){7}[pnbrqk1-8]+\s+[wb]\b[^\n]*\s*$/i;

let listener = {};

/* callbacks: { game(answer), position(fen), current(): { tree, node } } */
export function attach(callbacks) { listener = callbacks; }

const showError = text => fieldError(by('load-text'), text);

/* Opens the form */
export function open(text = '') {
  by('load-text').value = text;
  by('load-games').replaceChildren();
  by('load-list').hidden = true;
  showError('');
  if (!by('load').open) by('load').showModal();
}

/* Reads a text: the only game is opened, several are listed, an error stands below the text */
async function read(text, game) {
  if (FEN.test(text)) {
    by('load').close();
    return listener.position(text.trim());
  }
  const size = new Blob([text]).size;
  if (size > MAX_PGN) {
    return showError(`The text has ${Math.ceil(size / 1024).toLocaleString('en')} KiB, and the page reads ${MAX_PGN / 1024} KiB at once. \
“batch-first analyze FILE” analyses files of any size.`);
  }
  showError('');
  by('load').classList.add('busy');
  try {
    const answer = await ask('read_pgn', { text, ...(game === undefined ? {} : { game }) });
    if (answer.games) return list(text, answer.games);
    by('load').close();
    return listener.game(answer);
  } catch (error) {
    return showError(error.message);
  } finally {
    by('load').classList.remove('busy');
  }
}

function list(text, games) {
  const entry = ({ white, black, result, date, event, plies, error, is_cut }, index) => {
    if (error) return make('li', {}, make('span', { className: 'field-error', textContent: error }));
    const about = [event, date].filter(value => !/^[?.]*$/.test(value)).join(', ');
    return make('li', {}, make('button', { type: 'button', onclick: () => read(text, index) },
      make('span', { textContent: `${white} – ${black}` }), make('b', { textContent: result }),
      make('small', { textContent: `${about ? `${about}; ` : ''}${counted(Math.ceil(plies / 2), 'move')}${is_cut ? ', then text that is not understood' : ''}` })));
  };
  by('load-games').replaceChildren(...games.map(entry));
  by('load-list').hidden = false;
  by('load-count').textContent = `${games.length === 2000 ? 'The first 2,000' : games.length} games: choose one`;
  by('load-games').querySelector('button')?.focus();
}

// The text of a file in UTF-8, or else in Windows' Western character set, as old programs write it.
async function textOf(file) {
  if (file.size > MAX_PGN) throw new Error(`${file.name} has ${Math.ceil(file.size / 1024).toLocaleString('en')} KiB, and the page reads \
${MAX_PGN / 1024} KiB at once. “batch-first analyze FILE” analyses files of any size.`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (bytes.includes(0)) throw new Error(`${file.name} is not a text file.`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder('windows-1252').decode(bytes);
  }
}

async function readFile(file) {
  open();
  try {
    const text = await textOf(file);
    by('load-text').value = text;
    await read(text);
  } catch (error) {
    showError(error.message);
  }
}

// Reads a pasted text without the form, which opens only where something has to be said or chosen.
async function readPasted(text) {
  open(text);
  await read(text);
}

by('load-open').onclick = () => open();
by('load-form').onsubmit = event => {
  event.preventDefault();
  if (by('load-text').value.trim()) read(by('load-text').value);
  else showError('Paste a PGN here, or choose a file.');
};
by('load-close').onclick = () => by('load').close();
by('load-file').onchange = () => {
  const [file] = by('load-file').files;
  by('load-file').value = '';
  if (file) readFile(file);
};

const isShown = () => document.body.dataset.view === 'analyse' && !document.querySelector('dialog[open]:not(#load)');
addEventListener('dragover', event => {
  if (isShown() && event.dataTransfer?.types.includes('Files')) event.preventDefault();
});
addEventListener('drop', event => {
  const [file] = event.dataTransfer?.files ?? [];
  if (!isShown() || !file) return;
  event.preventDefault();
  readFile(file);
});
addEventListener('paste', event => {
  if (!isShown() || event.target.closest?.('input, textarea') || by('load').open) return;
  const text = event.clipboardData?.getData('text') ?? '';
  if (text.trim()) readPasted(text);
});

// Pages that are not on this machine and not encrypted have no clipboard of their own; there a selected text is copied.
async function copy(text, what) {
  let isCopied = false;
  try {
    await navigator.clipboard.writeText(text);
    isCopied = true;
  } catch {
    const area = make('textarea', { value: text, className: 'unseen' });
    document.body.append(area);
    area.select();
    isCopied = document.execCommand('copy');
    area.remove();
  }
  notice(isCopied ? `${what} copied.` : `The browser does not let the page copy. ${what}: ${text}`);
}

async function pgn() {
  const { tree } = listener.current();
  return (await ask('write_pgn', { tree: toMessage(tree).message })).pgn;
}

async function download() {
  const { tree } = listener.current();
  const names = [tag(tree, 'White'), tag(tree, 'Black')].filter(Boolean).join('-') || 'analysis';
  const link = make('a', { download: `${names.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60)}.pgn` });
  link.href = URL.createObjectURL(new Blob([await pgn()], { type: 'application/x-chess-pgn' }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

by('copy-pgn').onclick = () => pgn().then(text => copy(text, 'The PGN is')).catch(error => notice(error.message));
by('save-pgn').onclick = () => download().catch(error => notice(error.message));
by('copy-fen').onclick = () => copy(listener.current().node.fen, 'The FEN is');
