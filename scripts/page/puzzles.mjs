// Tests puzzles from an analysed game and the board editor.

import assert from 'node:assert/strict';
import { click, drag, load, print, setField, treeMoves } from './harness.mjs';

// Three missed mates: the move is shown, the next puzzle follows, the last one has none after it.
async function severalPuzzles(page) {
  assert.equal(await load(page, '1. f3 e5 2. g4 d6 3. Nc3 Nc6 4. Nb1 Nf6 *'), 'game');
  await page.click('#review-start');
  await page.locator('#summary .puzzles').last().click();
  const title = () => page.locator('#puzzle-title').textContent();
  const count = Number((await title()).match(/^Puzzle 1 of (\d)$/)[1]);
  assert.ok(count >= 2, `${count} puzzles`);
  for (let number = 1; number <= count; number += 1) {
    assert.equal(await title(), `Puzzle ${number} of ${count}`);
    assert.ok(await page.locator('#puzzle-next').isHidden());
    await page.click('#puzzle-solution');
    await page.getByText('The move was Qh4#.').waitFor();
    if (number < count) await page.click('#puzzle-next');
  }
  assert.ok(await page.locator('#puzzle-next').isHidden());
  await page.click('#puzzle-end');
}

async function puzzles(page, { screenshot }) {
  // Black did not see a mate: after the analysis it is a puzzle.
  assert.equal(await load(page, '[White "Ann"]\n[Black "Bea"]\n\n1. f3 e5 2. g4 Nc6 3. e4 d6 *'), 'game');
  await page.selectOption('#review-effort', '1000');
  await page.click('#review-start');
  await page.locator('#summary .puzzles').first().waitFor();
  // The blunders have glyphs, the better line is a variation, the graph marks both, and a click on their number leads to them.
  const judged = await treeMoves(page);
  for (const move of ['g4??', 'Nc6??', 'Qh4#']) assert.ok(judged.some(text => text.startsWith(move)), `no ${move} in ${judged}`);
  assert.ok(await page.locator('#graph circle.blunder').count() >= 2);
  await page.locator('#summary .player-summary').last().locator('button.blunder').click();
  await page.waitForFunction(() => document.querySelector('#analysis-moves [aria-current]').textContent.startsWith('Nc6??'));
  await page.locator('#summary .puzzles').first().click();
  await page.getByText('Black played 2… Nc6, and one move was much better. Find it.').waitFor();
  await page.locator('.cg-wrap.orientation-black').first().waitFor();
  assert.equal(await page.locator('#analysis-moves').isVisible(), false);
  await drag(page, 'd7', 'd5');
  await page.getByText('There is something better').waitFor();
  await screenshot(page, 'puzzle');
  await drag(page, 'd8', 'h4');
  await page.getByText('Qh4# is right.').waitFor();
  const before = await page.locator('#analysis-moves [data-node]').count();
  await page.click('#puzzle-end');
  assert.equal(await page.locator('#analysis-moves [data-node]').count(), before);
  await page.locator('#board.orientation-white').waitFor();

  await severalPuzzles(page);
}

async function editor(page, { screenshot }) {
  // A position from an empty board; a wrong one is refused at its field.
  if (!await page.locator('#setup-edit').isVisible()) await page.click('#setup-fold summary');
  await page.click('#setup-edit');
  await page.click('#editor-empty');
  for (const [tool, name] of [['white king', 'e1'], ['black king', 'e8'], ['white rook', 'a1'], ['black pawn', 'h7'], [' ', 'h7']]) {
    await page.click(`[data-tool="${tool}"]`);
    await click(page, name);
  }
  await page.click('[data-tool=move]');
  await drag(page, 'a1', 'a4', true);
  await page.selectOption('#editor-turn', 'b');
  // The keyboard places pieces as well: the cursor begins on e2.
  const spoken = text => page.locator('#spoken', { hasText: new RegExp(`^${text}$`) }).waitFor({ state: 'attached' });
  const choose = async tool => {
    await page.focus(`[data-tool="${tool}"]`);
    await page.keyboard.press('Enter');
    await page.locator('#board').focus();
  };
  await choose('white pawn');
  await page.keyboard.press('Enter');
  await spoken('e2 white pawn');
  await page.keyboard.press('ArrowUp');
  await spoken('e3 empty');
  await choose(' ');
  await page.keyboard.press('ArrowDown');
  await spoken('e2 white pawn');
  await page.keyboard.press('Enter');
  await spoken('e2 empty');
  await screenshot(page, 'editor');
  await page.click('#editor-done');
  await page.waitForFunction(() => document.getElementById('setup-fen').value === '4k3/8/8/8/R7/8/8/4K3 b - - 0 1'
    && location.hash === '#analyse/fen/4k3/8/8/8/R7/8/8/4K3_b_-_-_0_1');
  await page.click('#setup-edit');
  // A position that is not possible stays in the editor, to be mended.
  await page.click('#editor-empty');
  await page.click('#editor-done');
  await page.locator('#editor-done-error', { hasText: 'That position is not possible: the board is empty.' }).waitFor();
  assert.ok(await page.locator('#palette').isVisible());
  assert.equal(await page.locator('#position').textContent(), 'White: none. Black: none.');
  await page.selectOption('#editor-turn', 'w');
  await page.locator('#editor-done-error').waitFor({ state: 'hidden' });
  await page.selectOption('#editor-turn', 'b');
  for (const [tool, name] of [['white king', 'c1'], ['black king', 'c8']]) {
    await page.click(`[data-tool="${tool}"]`);
    await click(page, name);
  }
  await page.click('#editor-done');
  await page.waitForFunction(() => document.getElementById('setup-fen').value === '2k5/8/8/8/8/8/8/2K5 b - - 0 1');
  await page.locator('#palette').waitFor({ state: 'hidden' });
}

async function editorAndCastling(page) {
  // A king that is moved two squares takes no rook with it, and Chess960 castling stays.
  await setField(page, 'setup-fen', '4k3/8/8/8/8/8/8/4K2R w K - 0 1');
  await page.check('#setup-960');
  await page.click('#setup button[type=submit]');
  await page.waitForFunction(() => location.hash.endsWith('/960'));
  await page.click('#setup-edit');
  await drag(page, 'e1', 'g1', true);
  await page.uncheck('#castle-K');
  await page.click('#editor-done');
  await page.waitForFunction(() => document.getElementById('setup-fen').value === '4k3/8/8/8/8/8/8/6KR w - - 0 1' && location.hash.endsWith('/960'));
  await page.uncheck('#setup-960');
  await page.click('#setup-start');
}

/* `screenshot(page, name)` takes a picture */
export async function puzzlesAndEditor(page, tools) {
  await puzzles(page, tools);
  await editor(page, tools);
  await editorAndCastling(page);
  print('a puzzle from a missed mate, a position from an empty board');
}
