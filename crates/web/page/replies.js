// Requests with one answer: the server answers with the request's tag, or with an error that carries it.

import { UNSENT, send } from './connection.js';

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
    const reason = send(message);
    if (reason) reject(new Error(UNSENT[reason]));
    else waiting.set(message.tag, { resolve, reject });
  });
}

/* Takes an answer or an error; false if nobody waits for it */
export function receive(message) {
  const request = waiting.get(message.tag);
  if (!request) return false;
  waiting.delete(message.tag);
  if (message.type === 'error') request.reject(new Error(message.error));
  else request.resolve(message);
  return true;
}

/* The connection is lost: no answer will come */
export function lost() {
  for (const { reject } of waiting.values()) reject(new Error('The connection was lost before the answer came.'));
  waiting.clear();
}
