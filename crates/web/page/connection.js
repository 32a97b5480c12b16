// The web socket. It reconnects by itself and tells its listeners when the connection is lost.

// The server's limit of a message, in bytes; it closes the connection when one is longer.
const MAX_MESSAGE = 2 * 1024 * 1024;

/* Why a message was not sent */
export const UNSENT = { offline: 'You are offline. Try again when the connection is back.', large: 'The game is too large for one message (2 MiB).' };

const listeners = new Map();
let socket = null;
let accepted = false;   // the server has sent its hello
let delay = 300;

export function on(type, listener) {
  if (!listeners.has(type)) listeners.set(type, []);
  listeners.get(type).push(listener);
}

function emit(type, message) {
  for (const listener of listeners.get(type) ?? []) listener(message);
}

/* Sends a request for something to show; returns a key of UNSENT, or nothing. After the next hello the page repeats the requests that
   it still needs */
export function send(message) {
  if (!accepted || socket.readyState !== WebSocket.OPEN) return 'offline';
  const text = JSON.stringify(message);
  if (new Blob([text]).size > MAX_MESSAGE) return 'large';
  socket.send(text);
  return undefined;
}

/* Sends a command; false if it cannot be sent, and the visitor is told */
export function command(message) {
  const reason = send(message);
  if (reason) emit('unsent', { type: message.type, reason });
  return !reason;
}

export function connect() {
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  let opened = false;
  socket = new WebSocket(`${scheme}//${location.host}/socket`);
  socket.onopen = () => { opened = true; };
  socket.onmessage = event => {
    const message = JSON.parse(event.data);
    if (message.type === 'hello') {
      accepted = true;
      delay = 300;
    }
    emit(message.type, message);
  };
  socket.onclose = async event => {
    accepted = false;
    setTimeout(connect, delay);
    delay = Math.min(delay * 2, 5000);
    const reason = opened ? event.reason : await refusalReason();
    if (!accepted) emit('lost', reason);
  };
}

// Why the server refused the web socket. A browser does not tell; a plain request does, and it also sets a missing cookie.
async function refusalReason() {
  try {
    const answer = await fetch('/', { cache: 'no-store', signal: AbortSignal.timeout(5000) });
    return answer.status === 401 ? await answer.text() : '';
  } catch {
    return '';
  }
}
