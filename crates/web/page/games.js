// The list of games.

import { command } from './connection.js';
import { by, confirmed, counted, hasNoSearch, level, make, opponentName, redraw } from './page.js';
import { endingText, shownResult } from './result.js';

export function list({ games }) {
  redraw(by('game-list'), ...games.map(row));
  if (games.length === 0) by('game-list').append(make('li', {}, make('span', { className: 'hint', textContent: 'No games yet.' })));
}

// The result comes first, then the opponent and the date.
function row({ id, begun, system, level: how, engine_white, plies, result, ending }) {
  const side = engine_white ? 'black' : 'white';
  const name = opponentName(system);
  const moves = counted(Math.ceil(plies / 2), 'move');
  const open = make('a', { className: 'open', href: `#game/${id}` },
    make('span', {}, make('b', { textContent: result ? shownResult(result) : 'In progress' }), ' ',
      make('small', { textContent: result ? `${endingText(ending, side, name)} · ${moves}` : moves })),
    make('span', { textContent: `${side === 'white' ? 'White' : 'Black'} against ${name} ` },
      make('small', { textContent: hasNoSearch(system) ? '' : level(how) })),
    make('span', { textContent: new Date(begun).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' }) }));
  const pgn = make('a', { className: 'button', href: `/games/${id}.pgn`, textContent: 'PGN', 'aria-label': `PGN of game ${id}` });
  pgn.setAttribute('download', `batch-first-${id}.pgn`);
  const remove = make('button', { textContent: 'Delete', 'aria-label': `Delete game ${id}`, onclick: async () => {
    if (await confirmed('Delete this game for good?')) command({ type: 'delete', game: id });
  } });
  return make('li', {}, open, pgn, remove);
}
