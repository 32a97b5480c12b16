// Requests with one answer: the server answers with the request's tag, or with an error that carries it.

import { send } from './connection.js';

// The server's limit of a message, in bytes; it closes the connection when one is longer.
const MAX_MESSAGE = 2 * 1024 * 1024;

const waiting = new Map();
let lastTag = 0;

/* A number that no other request has */
export function nextTag() {
  lastTag += 1;
  return lastTag;
}

/* Asks the server about a game with variations; resolves with the answer, rejects with a sentence for the visitor */
export function ask(what, fields) {
  const message = { type: 'tree', what, tag: nextTag(), ...fields };
  return new Promise((resolve, reject) => {
    if (new Blob([JSON.stringify(message)]).size > MAX_MESSAGE) {
      reject(new Error('The game is too large for one message (2 MiB).'));
    } else if (send(message)) {
      waiting.set(message.tag, { resolve, reject });
    } else {
      reject(new Error('There is no connection; nothing was sent.'));
    }
  });
}

/* Takes an answer or an error; false if nobody waits for it */
export function receive(message) {
  const request = waiting.get(message.tag);
  if (!request) return false;
  waiting.delete(message.tag);
  if (message.type === 'error') request.reject(new Error(sentence(message.error)));
  else request.resolve(message);
  return true;
}

/* The connection is lost: no answer will come */
export function lost() {
  for (const { reject } of waiting.values()) reject(new Error('The connection was lost before the answer came.'));
  waiting.clear();
}

/* The server's text as a sentence, without the marks that the command line puts around names */
export function sentence(text) {
  const plain = text.replaceAll('`', '');
  return plain.charAt(0).toUpperCase() + plain.slice(1) + (/[.!?…]$/.test(plain) ? '' : '.');
}
