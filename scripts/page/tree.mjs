// Tests the parts of the analysis board that need no browser: trees after an analysis, and the scores of match programs in comments.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

// The page's modules have no package of their own that says what they are: they are read as texts.
const folder = new URL('../../crates/web/page/', import.meta.url);
const address = text => `data:text/javascript,${encodeURIComponent(text)}`;
const source = name => readFileSync(new URL(name, folder), 'utf8');
const treeAddress = address(source('tree.js'));
const trees = await import(treeAddress);
const view = await import(address(source('tree-view.js')
  .replace("'./page.js'", JSON.stringify(address(source('page.js')))).replace("'./tree.js'", JSON.stringify(treeAddress))));

const node = (parent, uci, fields = {}) => ({ parent, uci, san: uci, fen: '', opening: '', before: '', comment: '', nags: [], ...fields });
const game = nodes => trees.fromMessage({ start: trees.START, chess960: false, tags: [], nodes });
const text = at => at.children.map(other => `${other.uci}${other.nags.length ? `$${other.nags}` : ''}${other.cp === undefined ? '' : `=${other.cp}`}(${text(other)})`).join(' ');

// While the game 1. e4 (1. d4 d5) (1. c4) e5 with an old line 1. f4 is analysed, the visitor deletes 1. c4, promotes 1. d4, adds
// 1... c5 and comments 1. e4.
const moves = [node(0, ''), node(0, 'e2e4'), node(0, 'd2d4'), node(0, 'c2c4'), node(1, 'e7e5'), node(2, 'd7d5')];
const { tree, all } = game([...moves, node(0, 'f2f4', { before: 'Batch First' })]);
trees.beginAnalysis(tree);
trees.remove(all[3]);
trees.promote(all[2]);
trees.add(all[1], { uci: 'c7c5', san: 'c5' });
Object.assign(all[1], { comment: 'mine', isEdited: true });
const analysed = structuredClone(moves);
Object.assign(analysed[1], { cp: 20, nags: [6] });
Object.assign(analysed[4], { cp: 30, nags: [4], comment: 'theirs' });
analysed.push(node(0, 'g1f3', { before: 'Batch First' }), node(6, 'g8f6'), node(5, 'c2c4'));
trees.merge(tree.root, game(analysed).tree.root);
assert.equal(text(tree.root), 'd2d4(d7d5(c2c4())) e2e4=20(e7e5$4=30() c7c5()) g1f3(g8f6())');
assert.deepEqual([all[1].comment, all[4].comment], ['mine', 'theirs']);

// Match programs write scores from the mover's side; people write what they like.
const after = (comment, turn) => view.scoreText({ comment, parent: { fen: `8/8/8/8/8/8/8/8 ${turn} - - 0 1` } });
for (const [comment, white, black, shown] of [
  ['-0.31/14 0.52s', '-0.31', '+0.31', ''],
  ['+0.31/14 0.52s, White mates', '+0.31', '-0.31', 'White mates'],
  ['[%clk 0:01] +M3/7 1s', '+M3', '-M3', ''],
  ['0.00/9 0.1s', '0.00', '0.00', ''],
  ['-M3/7', '-M3', '+M3', ''],
  ['he had 2.5/3 then', '', '', 'he had 2.5/3 then'],
  ['2.5/3', '', '', '2.5/3'],
  ['(-0.33 → #-2) Blunder. Nd2 was best. -0.32/1 0.00s', '', '', '(-0.33 → #-2) Blunder. Nd2 was best.'],
  ['(0.30 → 1.20) Inaccuracy. +0.31/14 0.52s, a trap', '', '', '(0.30 → 1.20) Inaccuracy. a trap'],
  ['(0.30 → 1.20) Mistake. Nf3 was best. he had 2.5/3 then', '', '', '(0.30 → 1.20) Mistake. Nf3 was best. he had 2.5/3 then'],
  ['2.5/3 then', '', '', '2.5/3 then'],
]) {
  assert.deepEqual([after(comment, 'w'), after(comment, 'b'), view.shownComment(comment)], [white, black, shown], comment);
}
console.log('trees after an analysis, scores of match programs');
