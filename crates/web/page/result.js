// Results of games in words.

const ENDINGS = {
  checkmate: 'Checkmate',
  stalemate: 'Stalemate',
  'insufficient material': 'Insufficient material',
  'threefold repetition': 'Threefold repetition',
  'fifty-move rule': 'Fifty-move rule',
  'draw by agreement': 'Draw by agreement',
  'too long': 'Draw: the game is too long',
  'time out, but nothing to mate with': 'Out of time, but no piece to mate with',
};

/* Why a game ended. `ending`: the server's words; `side`: the visitor's; `name`: the opponent's */
export function endingText(ending, side, name) {
  const [, loser, deed] = /^(White|Black) (resigned|ran out of time)$/.exec(ending) ?? [];
  if (loser) return `${loser.toLowerCase() === side ? 'You' : name} ${deed}`;
  return ENDINGS[ending] ?? ending;
}

/* A result as people write it */
export const shownResult = result => result.replace('1/2-1/2', '½-½');

/* As in `Checkmate · You win · 1-0` */
export function resultText([result, ending], side, name) {
  const winner = { '1-0': 'white', '0-1': 'black' }[result];
  const parts = [endingText(ending, side, name)];
  // Who resigned or ran out of time has lost, and a draw says so itself.
  if (ending === 'checkmate') parts.push(winner === side ? 'You win' : 'You lose');
  else if (!winner && !/draw/i.test(parts[0])) parts.push('Draw');
  return [...parts, shownResult(result)].join(' · ');
}
