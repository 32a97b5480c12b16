// The web socket: opens again by itself, and says so.

const listeners = new Map();
let socket = null;
let greeted = false;    // the server has let this page in
let delay = 300;

export function on(type, listener) {
  if (!listeners.has(type)) listeners.set(type, []);
  listeners.get(type).push(listener);
}

function tell(type, message) {
  for (const listener of listeners.get(type) ?? []) listener(message);
}

/* Asks for something to be shown. Without a connection nothing is sent: after the next hello the page asks again for all that
   it still wants */
export function send(message) {
  const open = greeted && socket.readyState === WebSocket.OPEN;
  if (open) socket.send(JSON.stringify(message));
  return open;
}

/* Asks for something to be done; false, and the visitor is told, where there is no connection */
export function wish(message) {
  const sent = send(message);
  if (!sent) tell('unsent');
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
      greeted = true;
      delay = 300;
    }
    tell(message.type, message);
  };
  socket.onclose = async event => {
    greeted = false;
    setTimeout(connect, delay);
    delay = Math.min(delay * 2, 5000);
    const reason = opened ? event.reason : await whyNot();
    if (!greeted) tell('lost', reason);
  };
}

// A refused web socket does not say why. A plain request does, and brings a cookie where the browser has lost its own.
async function whyNot() {
  try {
    const answer = await fetch('/', { cache: 'no-store', signal: AbortSignal.timeout(5000) });
    return answer.status === 401 ? await answer.text() : '';
  } catch {
    return '';
  }
}
