// Connects the parts of the page: views, keyboard, and messages from the server.

import * as analyse from './analyse.js';
import * as board from './board.js';
import { UNSENT, connect, on, send } from './connection.js';
import * as engine from './engine.js';
import * as games from './games.js';
import * as lab from './lab.js';
import { by, notice, opponentName, say } from './page.js';
import * as play from './play.js';
import * as replies from './replies.js';
import * as review from './review.js';

const VIEWS = ['play', 'analyse', 'games', 'lab'];
const modules = { play, analyse, lab };

let view = null;
let requested = null;   // the game that the address names, until it is open

const active = () => modules[view];

function enter(next) {
  if (view === next) return;
  modules[view]?.leave?.();
  view = next;
  document.body.dataset.view = view;
  for (const name of VIEWS) by(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll('[data-nav]')) {
    if (link.dataset.nav === view) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  modules[view]?.enter?.();
  // The views are different pages to their readers: each begins at its top.
  scrollTo(0, 0);
}

const TITLES = { analyse: 'Analysis', games: 'Your games', lab: 'Lab' };
function setTitle() {
  document.title = `${TITLES[view] ?? play.title()} · Batch First`;
}

function route() {
  const [name, id] = location.hash.slice(1).split('/');
  if (name === 'game' && /^\d+$/.test(id ?? '')) {
    enter('play');
    if (play.current()?.id !== Number(id)) {
      requested = Number(id);
      play.open(requested);
    }
  } else if (name === 'analyse') {
    enter(name);
    analyse.open(location.hash);
  } else if (name === 'lab') {
    enter(name);
  } else if (name === 'games') {
    enter(name);
    send({ type: 'games' });
  } else if (name === 'play' && play.current()) {
    location.replace(`#game/${play.current().id}`);
  } else {
    enter('play');
    play.showForm();
  }
  setTitle();
}

on('hello', message => {
  by('offline').hidden = true;
  play.hello(message);
  analyse.hello(message);
  lab.hello(message);
  route();
  // After a lost connection the open game and the analysis are requested again.
  if (play.current()) play.open(play.current().id);
  if (view === 'analyse') analyse.refresh();
});
on('lost', reason => {
  play.connectionLost();
  replies.lost();
  review.end('The analysis of the game ended with the connection.');
  const text = reason ? `${reason} Trying to connect again…` : 'Offline. Trying to connect again…';
  // Setting the same text again would make a screen reader repeat it.
  if (by('offline').textContent !== text) by('offline').textContent = text;
  by('offline').hidden = false;
});
on('unsent', ({ type, reason }) => {
  notice(reason === 'offline' && type === 'move' ? 'Offline: your move was not sent.' : UNSENT[reason]);
  // The pieces go back to the server's position.
  play.refresh();
});
on('game', message => {
  requested = null;
  play.state(message);
  setTitle();
});
on('closed', () => {
  notice('That game was deleted.');
  play.showForm();
});
on('games', games.list);
on('position', analyse.showPosition);
on('analysis', engine.show);
on('reply', replies.receive);
on('review', review.report);
on('correction', message => { if (message.correction) notice(message.correction); });
on('error', message => {
  // Errors of the analysis carry a tag; all others are about games.
  if (Number.isInteger(message.tag)) return replies.receive(message) || review.fail(message) || analyse.showError(message);
  if (!play.showError(message)) notice(message.error);
  if (requested !== null) {
    requested = null;
    location.hash = '#new';
  }
  play.refresh();
});

board.onMove(uci => (view === 'analyse' ? analyse.move(uci) : play.move(uci)));

function flip() {
  board.orient(board.orientation() === 'white' ? 'black' : 'white');
  if (view === 'play') play.flipped();
  if (view === 'analyse') analyse.flipped();
}

// The names and the result of a game that was played here, as PGN tags.
function tagsOf({ side, system, result, begun }) {
  const players = ['You', opponentName(system)];
  const [white, black] = side === 'white' ? players : players.toReversed();
  return [['Event', 'Game on the Batch First page'], ['Date', begun.slice(0, 10).replaceAll('-', '.')], ['White', white], ['Black', black],
    ...(result ? [['Result', result[0]]] : [])];
}

function toAnalysis() {
  const game = play.shownGame();
  if (view !== 'play') return;
  if (game) analyse.load({ ...game, tags: tagsOf(play.current()) });
  location.hash = '#analyse';
}

by('flip').onclick = flip;
by('to-analysis').onclick = toAnalysis;
by('help').onclick = () => by('keys').showModal();
for (const button of document.querySelectorAll('[data-step]')) button.onclick = () => active()?.step?.(button.dataset.step);

const KEYS = {
  ArrowLeft: () => active()?.step?.('back'),
  ArrowRight: () => active()?.step?.('forward'),
  Home: () => active()?.step?.('first'),
  End: () => active()?.step?.('last'),
  f: flip,
  a: toAnalysis,
  n: () => { location.hash = '#new'; },
  m: () => by(view === 'analyse' ? 'analysis-move' : 'typed-move').focus(),
  x: () => view === 'analyse' && analyse.toggleThreat(),
  h: () => view === 'play' && play.hint(),
  p: () => say(by('position').textContent),
  z: event => view === 'play' && !event.repeat && play.takeBack(),
  ' ': () => view === 'analyse' && analyse.toggle(),
  '?': () => by('keys').showModal(),
  ...Object.fromEntries(VIEWS.map((name, index) => [String(index + 1), () => {
    if (name !== 'lab' || !document.querySelector('[data-nav=lab]').hidden) location.hash = `#${name}`;
  }])),
};

addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (event.target.closest('input:not([type=radio]), textarea, select')) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  if (event.key === ' ' && event.target.closest('button, a, summary, input')) return;
  // Arrow keys choose in groups of choices and move sliders.
  if (event.key.startsWith('Arrow') && event.target.closest('input')) return;
  const action = KEYS[event.key];
  // In views without a board these keys scroll the page.
  const scrolls = ['Home', 'End', ' '].includes(event.key) && !active()?.step;
  if (action && !scrolls) {
    event.preventDefault();
    action(event);
  }
});
addEventListener('hashchange', route);
connect();
