// The address of an analysis holds the whole game, so that a reload, a bookmark or a link brings it back:
//   #analyse/fen/POSITION        a position, blanks as `_`; `/960` behind it for Chess960 castling
//   #analyse/game/CODE           a game: JSON, deflated, in base64url
//   #analyse/game/kept/NUMBER    a game that is too long for an address: in the state of the browser's history

import { START, toMessage } from './tree.js';

// Browsers refuse longer addresses, or are slow with them; a longer game is kept beside the address, for this tab only.
const MAX_CODE = 60_000;

const toBase64 = bytes => {
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
};
const fromBase64 = text => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), letter => letter.charCodeAt(0));

const piped = async (bytes, through) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(through)).arrayBuffer());

// Each entry of the history has a number of its own: Back from one kept game to another is a change of the address.
let lastKept = 0;
function keptAddress(isNew) {
  const here = Number(location.hash.match(/^#analyse\/game\/kept\/(\d+)$/)?.[1] ?? 0);
  lastKept = Math.max(lastKept, here);
  if (isNew || !here) lastKept += 1;
  return `#analyse/game/kept/${isNew || !here ? lastKept : here}`;
}

/* The address of a game at a node: { hash, state } for the browser's history; `isNew`: for a new entry of it */
export async function write(tree, node, isNew) {
  const isBare = tree.root.children.length === 0 && !tree.root.comment && tree.tags.length === 0;
  if (isBare && tree.start === START && !tree.chess960) return { hash: '#analyse', state: null };
  if (isBare) return { hash: `#analyse/fen/${tree.start.replaceAll(' ', '_')}${tree.chess960 ? '/960' : ''}`, state: null };
  const { message, index } = toMessage(tree);
  const json = JSON.stringify({ tree: message, at: index.get(node) ?? 0 });
  const code = toBase64(await piped(new TextEncoder().encode(json), new CompressionStream('deflate-raw')));
  if (code.length > MAX_CODE) return { hash: keptAddress(isNew), state: { json } };
  return { hash: `#analyse/game/${code}`, state: null };
}

/* What an address holds: { tree, at } with the message of a tree, or null for none. Throws where it cannot be read */
export async function read(hash) {
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
