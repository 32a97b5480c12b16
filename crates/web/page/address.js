// The address of an analysis holds the whole game, so that a reload, a bookmark or a link brings it back:
//   #analyse/fen/POSITION        a position, blanks as `_`; `/960` behind it for Chess960 castling
//   #analyse/game/CODE           a game: JSON, deflated, in base64url
//   #analyse/game/kept/NUMBER    a game that is too long for an address: in the state of the browser's history

import { START, toMessage } from './tree.js';

// Browsers refuse longer addresses, or are slow with them; a longer game is kept beside the address, for this tab only.
const MAX_CODE = 60_000;
// The address is written this long after the last change, in milliseconds: browsers limit how often it may change.
const DELAY = 400;

let written = '';       // the address of what is shown
let timer = 0;
let isNew = false;      // the next address is a new entry of the browser's history

const toBase64 = bytes => {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
};
const fromBase64 = text => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), letter => letter.charCodeAt(0));

const piped = async (bytes, through) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(through)).arrayBuffer());

// Each entry of the history has a number of its own: Back from one kept game to another is a change of the address.
let lastKept = 0;
function keptAddress() {
  const here = Number(location.hash.match(/^#analyse\/game\/kept\/(\d+)$/)?.[1] ?? 0);
  lastKept = Math.max(lastKept, here);
  if (isNew || !here) lastKept += 1;
  return `#analyse/game/kept/${isNew || !here ? lastKept : here}`;
}

// The address of a game at a node: { hash, state } for the browser's history.
async function write(tree, node) {
  const isBare = tree.root.children.length === 0 && !tree.root.comment && tree.tags.length === 0;
  if (isBare && tree.start === START && !tree.chess960) return { hash: '#analyse', state: null };
  if (isBare) return { hash: `#analyse/fen/${tree.start.replaceAll(' ', '_')}${tree.chess960 ? '/960' : ''}`, state: null };
  const { message, index } = toMessage(tree);
  const json = JSON.stringify({ tree: message, at: index.get(node) ?? 0 });
  const code = toBase64(await piped(new TextEncoder().encode(json), new CompressionStream('deflate-raw')));
  if (code.length > MAX_CODE) return { hash: keptAddress(), state: { json } };
  return { hash: `#analyse/game/${code}`, state: null };
}

/* Makes the next game that is shown a new entry of the browser's history, or not */
export function newEntry() { isNew = true; }
export function sameEntry() { isNew = false; }

/* Is this the address of what is shown? */
export const isWritten = hash => hash === written;

/* Writes the address a little later; `shown()`: the { tree, node } to write, or null if the analysis is not shown any more */
export function save(shown) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const now = shown();
    if (!now) return;
    const { hash, state } = await write(now.tree, now.node);
    if (shown()?.node !== now.node || !location.hash.startsWith('#analyse')) return;
    // The state of a kept game changes, and its address does not.
    if (hash !== location.hash || state) history[isNew ? 'pushState' : 'replaceState'](state, '', hash);
    isNew = false;
    written = hash;
  }, DELAY);
}

/* Writes nothing that was to be written */
export function leave() { clearTimeout(timer); }

/* Takes an address as that of what is shown: { tree, at } with the message of a tree, or null for none. Throws where it cannot be
   read */
export async function visit(hash) {
  written = hash;
  const [, kind, ...rest] = hash.slice(1).split('/');
  if (kind === 'fen') {
    const chess960 = rest.at(-1) === '960';
    const start = decodeURIComponent(rest.slice(0, chess960 ? -1 : undefined).join('/')).replaceAll('_', ' ');
    return { tree: { start, chess960, tags: [], nodes: [{}] }, at: 0 };
  }
  if (kind !== 'game') return null;
  if (rest[0] === 'kept') return JSON.parse(history.state?.json ?? '');
  const bytes = await piped(fromBase64(rest[0]), new DecompressionStream('deflate-raw'));
  return JSON.parse(new TextDecoder().decode(bytes));
}
