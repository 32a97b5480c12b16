// The web socket: opens again by itself, and says so.

const listeners = new Map();
let socket = null;
let delay = 300;
let queue = [];

export function on(type, listener) {
  if (!listeners.has(type)) listeners.set(type, []);
  listeners.get(type).push(listener);
}

function tell(type, message) {
  for (const listener of listeners.get(type) ?? []) listener(message);
}

export function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  else queue.push(message);
}

export function connect() {
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  socket = new WebSocket(`${scheme}//${location.host}/socket`);
  socket.onopen = () => {
    delay = 300;
    tell('open');
    for (const message of queue) send(message);
    queue = [];
  };
  socket.onmessage = event => {
    const message = JSON.parse(event.data);
    tell(message.type, message);
  };
  socket.onclose = () => {
    tell('lost');
    // What was asked for before is asked for again by those who still want it.
    queue = [];
    setTimeout(connect, delay);
    delay = Math.min(delay * 2, 5000);
  };
}
