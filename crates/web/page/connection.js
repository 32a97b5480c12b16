// The web socket. It reconnects by itself and tells its listeners when the connection is lost.

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

/* Sends a request for something to show; false without a connection. After the next hello the page repeats the requests that it
   still needs */
export function send(message) {
  const open = accepted && socket.readyState === WebSocket.OPEN;
  if (open) socket.send(JSON.stringify(message));
  return open;
}

/* Sends a command; false without a connection, and the visitor is told */
export function command(message) {
  const sent = send(message);
  if (!sent) emit('unsent', message);
  return sent;
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
