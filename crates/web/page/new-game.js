// The form for a new game: an opponent by rating, one that plays like people, or one by time or other limits.

import { command } from './connection.js';
import { by, counted, fieldError, hasNoSearch, level, make, opponentName, setOptions } from './page.js';

let ratedLevels = [];
let networks = new Map();

const HINTS = {
  rating: 'Plays at a rating that was measured in games.',
  human: 'Plays the moves that people play, with their mistakes. Does not calculate.',
  time: 'Plays as well as it can in this time.',
  limit: 'Plays as well as it can within this limit.',
};
const OPPONENTS = { rating: 'Engine by rating', human: 'Human-like', time: 'Engine by time', limit: 'Engine by other limits' };

export function hello(message) {
  const known = JSON.stringify(ratedLevels);
  ratedLevels = message.levels.filter(({ system }) => message.engines.some(({ name }) => name === system))
    .sort((one, other) => one.elo - other.elo);
  const humans = [...message.systems.map(({ name }) => name).filter(hasNoSearch), ...message.maia_ratings.map(rating => `maia-${rating}`)];
  networks = new Map(message.systems.map(({ name, network }) => [name, network]));
  const { engines } = message;
  setOptions(by('human'), humans.map(name => option(name, opponentName(name))));
  setOptions(by('engine'), engines.map(engine => option(engine.name, engineText(engine))));
  by('threads').parentElement.hidden = message.threads === 0;
  setOptions(by('threads'), [option('', 'Default'), ...Array.from({ length: message.threads }, (_, index) => option(index + 1, index + 1))]);
  const kinds = Object.keys(OPPONENTS).filter(kind => ({ rating: ratedLevels, human: humans })[kind]?.length ?? engines.length);
  const isNew = setOptions(by('opponent'), kinds.map(kind => option(kind, OPPONENTS[kind])));
  if (JSON.stringify(ratedLevels) !== known) levelsChanged(known === '[]');
  if (isNew) opponentChosen();
  by('start-game').disabled = false;
}

/* The measured rating of a level, where there is one */
export const rating = (system, { kind, value }) =>
  ratedLevels.find(known => known.system === system && known.level.kind === kind && known.level.value === value)?.elo;

/* The network of a system */
export const network = system => networks.get(system);

// The networks in the program are known by these names.
const NETWORKS = { 'batch-first': 'large network', 'batch-first-fast': 'fast network' };
function engineText({ name, network }) {
  const known = opponentName(name.replace('-large', ''));
  return name === network && !(network in NETWORKS) ? known : `${known}, ${NETWORKS[network] ?? network}`;
}

const option = (value, textContent) => make('option', { value, textContent });

// The server may return with other levels after a restart; the visitor's choice stays where there is one.
function levelsChanged(isFirst) {
  by('rating').max = Math.max(ratedLevels.length - 1, 0);
  if (isFirst) by('rating').value = Math.min(2, ratedLevels.length - 1);
  ratingChosen();
}

function opponentChosen() {
  const kind = by('opponent').value;
  by('opponent-hint').textContent = HINTS[kind] ?? '';
  for (const name of Object.keys(OPPONENTS)) by(`${name}-field`).hidden = kind !== name;
  by('engine-field').hidden = kind !== 'time' && kind !== 'limit';
  clearErrors();
}

function ratingChosen() {
  const chosen = ratedLevels[by('rating').value];
  if (!chosen) return;
  by('rating').setAttribute('aria-valuetext', `${chosen.elo}`);
  by('rating-text').replaceChildren(
    make('b', { textContent: chosen.elo }), ` ± ${chosen.interval}`,
    make('small', { textContent: `${opponentName(chosen.system)}, ${level(chosen.level)}. Measured in ${counted(chosen.games, 'game')}.` }));
}

const AMOUNTS = { nodes: 1000, depth: 4, time: 1 };
function limitChosen() {
  const kind = by('limit').value;
  by('amount').value = AMOUNTS[kind];
  by('amount').step = kind === 'time' ? 'any' : 1;
  fieldError(by('amount'), '');
}

function fromChosen() {
  const from = by('from').value;
  by('chess960-number').hidden = from !== '960';
  by('fen').hidden = by('fen-960').hidden = from !== 'fen';
  by('pgn').hidden = from !== 'pgn';
  clearErrors();
}

// The server says what is wrong with a number of another kind, but only takes whole ones.
const chess960Number = number => (Number.isInteger(number) && number >= 0 && number < 960 ? number : 960);

// The opponent and its strength, as the server takes them.
function chosenOpponent() {
  const threads = Number(by('threads').value) || null;
  const amount = Number(by('amount').value);
  switch (by('opponent').value) {
    case 'rating': {
      const { system, level } = ratedLevels[by('rating').value];
      return { system, level };
    }
    case 'human': return { system: by('human').value, level: { kind: 'nodes', value: 1 } };
    case 'time': {
      const time = by('time').value;
      return { system: by('engine').value, threads, level: time === 'clock' ? { kind: 'clock' } : { kind: 'time', value: Number(time) } };
    }
    default: {
      const kind = by('limit').value;
      // Parts of positions and plies are refused, as 0 is.
      const value = kind === 'time' ? Math.round(1000 * amount) : Number.isInteger(amount) ? amount : 0;
      return { system: by('engine').value, threads, level: { kind, value: Math.max(0, Math.min(value, 1e9)) } };
    }
  }
}

// The fields that errors of the server belong to.
const FIELDS = ['fen', 'pgn', 'chess960-number', 'clock', 'opponent', 'time', 'amount', 'threads'];
function fieldOf(name) {
  const kind = by('opponent').value;
  if (name === 'level') return kind === 'limit' ? 'amount' : kind === 'time' ? 'time' : 'opponent';
  return { system: 'opponent', chess960_number: 'chess960-number' }[name] ?? name;
}
const clearErrors = () => FIELDS.forEach(field => by(`${field}-error`) && fieldError(by(field), ''));

/* Shows why the server refused the game at the field that is wrong; false where the form has no such field */
export function showError({ field, error }) {
  const id = fieldOf(field);
  if (!FIELDS.includes(id) || by('new-game').hidden) return false;
  fieldError(by(id), error);
  by(id).focus();
  return true;
}

by('opponent').onchange = opponentChosen;
by('rating').oninput = ratingChosen;
by('limit').onchange = limitChosen;
by('from').onchange = fromChosen;
by('clock').onchange = () => fieldError(by('time'), '');
by('time').onchange = () => {
  if (by('time').value === 'clock' && !by('clock').value) by('clock').value = '300,3';
};

/* Calls `begun` when a game was requested */
export function onStart(begun) {
  by('new-game').onsubmit = event => {
    event.preventDefault();
    clearErrors();
    const from = by('from').value;
    const clock = by('clock').value;
    const number = by('chess960-number').value;
    const sent = command({
      type: 'new_game',
      ...chosenOpponent(),
      side: by('new-game').elements.side.value,
      clock: clock ? clock.split(',').map(seconds => 1000 * Number(seconds)) : null,
      fen: from === 'fen' ? by('fen').value : null,
      pgn: from === 'pgn' ? by('pgn').value : null,
      chess960: from === '960' || (from === 'fen' && by('fen-is-960').checked),
      chess960_number: from === '960' && number !== '' ? chess960Number(Number(number)) : null,
    });
    if (sent) begun();
  };
}
