// Tests the analysis board: a person's hour; then what is hostile, cut off or foreign in a PGN, the keys and the preferences, with
// puzzles.mjs the puzzles and the board editor.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { addressHolds, click, load, print, setField, treeHas, treeMoves } from './harness.mjs';
import { personsHour } from './person.mjs';
import { previewsAreRight, showsPreview } from './previews.mjs';
import { puzzlesAndEditor } from './puzzles.mjs';

async function download(page) {
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('#save-pgn')]);
  return readFileSync(await file.path(), 'utf8');
}

async function hostileTexts(page, { screenshot }) {
  const html = '<img src=x onerror=alert(1)>';
  const nasty = `[White "${html}"]\n[Black "O'Neil \\"Iron\\" & <script>"]\n\n{${html}} 1. e4! {${html} [%clk 0:01]} (1. d4?! d5 (1... Nf6 {x}) 2. c4) e5 $146 *`;
  assert.equal(await load(page, nasty), 'game');
  await page.locator('#analysis-moves [data-node]').nth(5).waitFor();
  assert.equal(await page.locator('#view-analyse img, #view-analyse script, #stage img').count(), 0);
  assert.match(await page.locator('#analysis-moves').textContent(), /<img src=x onerror=alert\(1\)>/);
  assert.deepEqual(await treeMoves(page), ['e4!', 'd4?!', 'd5', 'Nf6', 'c4', 'e5N']);
  for (const [text, words] of [
    ['hello world', /hello world is not a game/],
    ['https://lichess.org/abcdefgh', /it is a link/],
    ['1. Sf3 Sf6', /English letters/],
    ['x'.repeat(1_100_000), /1,075 KiB.*1024 KiB/],
    ['', /Paste a PGN/],
  ]) {
    assert.match(await load(page, text), words);
    await page.keyboard.press('Escape');
  }
  await screenshot(page, 'hostile-comments');
  // What was shown stays where nothing could be read.
  assert.equal((await treeMoves(page)).length, 6);
  assert.equal(await load(page, '1. b4 e5 2. Sf3 Sc6 3. Lb5'), 'game');
  assert.match(await page.locator('#notes').textContent(), /move 2, Sf3 is not a move; pieces have English letters.*Not read: Sf3 Sc6 3. Lb5/);
  assert.deepEqual(await treeMoves(page), ['b4', 'e5']);
  await screenshot(page, 'cut-off');
  // The browser's Back returns to the game before.
  await addressHolds(page, '"b2b4"');
  await page.goBack();
  await treeHas(page, 6);
  // No-break spaces; a game far longer than 48 KiB.
  assert.equal(await load(page, '1.\u00a0e4\u00a0e5\u00a02.\u00a0Nf3'), 'game');
  assert.deepEqual(await treeMoves(page), ['e4', 'e5', 'Nf3']);
  assert.equal(await page.locator('#notes').isVisible(), false);
  assert.equal(await load(page, `1. e4 {${'long words '.repeat(20_000)}} e5 *`), 'game');
  assert.deepEqual(await treeMoves(page), ['e4', 'e5']);
  // A game that is too long for the address: what is written later is kept as well, and Back finds the one before.
  const random = length => Array.from({ length }, () => Math.random().toString(36).slice(2)).join(' ');
  assert.equal(await load(page, `1. c4 {${random(12_000)}} c5 *`), 'game');
  await page.waitForFunction(() => location.hash.startsWith('#analyse/game/kept/'));
  await page.fill('#comment', 'written later');
  await addressHolds(page, 'written later');
  await page.reload();
  await page.waitForFunction(() => document.querySelector('#analysis-moves')?.textContent.includes('written later'));
  assert.equal(await load(page, `1. f4 {${random(12_000)}} f5 *`), 'game');
  await addressHolds(page, '"f7f5"');
  await page.goBack();
  await page.waitForFunction(() => document.querySelector('#analysis-moves').textContent.includes('written later'));
  print('PGN that is hostile, foreign, cut off or long: nothing is lost in silence');
}

// A text by a file, by dropping a file and by pasting it into the page.
async function waysIn(page) {
  await page.click('#load-open');
  // Old programs write names in Latin-1.
  await page.setInputFiles('#load-file', { name: 'old.pgn', mimeType: 'text/plain', buffer: Buffer.from('[White "M\u00fcller"]\n\n1. e4 e5 2. Nf3 Nc6 *', 'latin1') });
  await treeHas(page, 4);
  assert.match(await page.locator('#analysis-title').textContent(), /Müller/);
  await page.click('#load-open');
  await page.setInputFiles('#load-file', { name: 'games.zst', mimeType: 'application/zstd', buffer: Buffer.from([40, 0, 47, 253]) });
  await page.getByText('games.zst is not a text file.').waitFor();
  await page.click('#load-close');
  const give = (kind, text) => page.evaluate(([kind, text]) => {
    const data = new DataTransfer();
    if (kind === 'drop') data.items.add(new File([text], 'dropped.pgn'));
    else data.setData('text/plain', text);
    document.body.dispatchEvent(kind === 'drop' ? new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })
      : new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  }, [kind, text]);
  await give('drop', '1. d4 d5 2. c4 *');
  await treeHas(page, 3);
  await give('paste', '1. c4 e5 *');
  await treeHas(page, 2);
  await give('paste', '8/8/4k3/8/8/3QK3/8/8 w - - 0 1');
  await treeHas(page, 0);
  await page.waitForFunction(() => document.getElementById('setup-fen').value === '8/8/4k3/8/8/3QK3/8/8 w - - 0 1');
  await give('paste', 'nothing of the kind');
  await page.getByText('nothing of the kind is not a game').waitFor();
  await page.click('#load-close');
  print('games by a file, dropped and pasted; a position pasted');
}

async function keysAndEndings(page, { screenshot }) {
  // Moves by the keyboard, and an error at its field.
  await page.click('#setup-fold summary');
  await page.click('#setup-start');
  await page.waitForFunction(() => location.hash === '#analyse');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('m');
  for (const [text, count] of [['f3', 1], ['e7e5', 2], ['g4', 3]]) {
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
    await treeHas(page, count);
  }
  await page.keyboard.type('Qh5');
  await page.keyboard.press('Enter');
  await page.locator('#analysis-move-error').waitFor();
  assert.match(await page.locator('#analysis-move-error').textContent(), /^Qh5 is not legal here/);
  assert.match(await page.locator('#opening').textContent(), /^A00 /);
  // The engine runs; mate on the board leaves neither its lines nor its evaluation.
  await page.fill('#analysis-move', '');
  await page.keyboard.press('Escape');
  await page.keyboard.press(' ');
  await page.locator('#thoughts:not(.stale) li').first().waitFor();
  await showsPreview(page);
  await previewsAreRight(page);
  await click(page, 'd8');
  await click(page, 'h4');
  await page.locator('#analysis-state', { hasText: 'Checkmate: Black wins.' }).waitFor();
  assert.equal(await page.locator('#spoken').textContent(), 'After Qh4#. Checkmate: Black wins.');
  const ended = () => page.evaluate(() => [document.querySelectorAll('#thoughts li').length, document.querySelector('#evaluation span').textContent]);
  assert.deepEqual(await ended(), [0, '0–1']);
  await page.waitForTimeout(500);
  assert.deepEqual(await ended(), [0, '0–1']);
  await screenshot(page, 'mate');
  // Stalemate.
  await setField(page, 'setup-fen', 'k7/8/1K6/8/8/8/8/2Q5 w - - 0 1');
  await page.click('#setup button[type=submit]');
  await page.locator('#thoughts:not(.stale) li').first().waitFor();
  await page.fill('#analysis-move', 'Qc7');
  await page.press('#analysis-move', 'Enter');
  await page.locator('#analysis-state', { hasText: 'Stalemate: a draw.' }).waitFor();
  assert.deepEqual(await ended(), [0, '½']);
  // The threat: what the other side would play.
  await page.keyboard.press('Escape');
  await page.keyboard.press('ArrowLeft');
  assert.equal(await page.locator('#spoken').textContent(), 'First position. White to move.');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.locator('#spoken').textContent(), 'After Qc7. Stalemate: a draw.');
  await page.keyboard.press('ArrowLeft');
  await setField(page, 'setup-fen', 'r1bqkbnr/pppp1ppp/2n5/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR b KQkq - 3 3');
  await page.click('#setup button[type=submit]');
  await page.waitForFunction(() => document.querySelectorAll('#analysis-moves [data-node]').length === 0 && document.querySelectorAll('#board cg-board piece').length >= 32);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('x');
  await page.waitForFunction(() => document.querySelector('#thoughts:not(.stale) li button')?.textContent === 'Qxf7#');
  await page.locator('cg-container svg line[stroke="#882020"]').first().waitFor({ state: 'attached' });
  await page.keyboard.press('x');
  await page.waitForFunction(() => document.querySelector('#thoughts:not(.stale) li button') && document.querySelector('#thoughts li button').textContent !== 'Qxf7#');
  await page.keyboard.press(' ');
  // In check there is no threat. The error of a FEN goes when another position is shown.
  await setField(page, 'setup-fen', '4k3/8/8/8/8/8/4Q3/4K2 b - - 0 1');
  await page.click('#setup button[type=submit]');
  await page.locator('#setup-fen-error', { hasText: 'That is not a valid FEN: rank 1 has 7 squares instead of 8.' }).waitFor();
  assert.equal(await load(page, '[FEN "4k3/8/8/8/8/8/4Q3/4K3 b - - 0 1"]\n\n*'), 'game');
  await page.waitForFunction(() => document.getElementById('setup-fen').value === '4k3/8/8/8/8/8/4Q3/4K3 b - - 0 1');
  await page.locator('#setup-fen-error').waitFor({ state: 'hidden' });
  await page.keyboard.press('x');
  await page.getByText('There is no threat to show: the king is in check.').waitFor();
  // The end of a loaded game is told when it is reached.
  assert.equal(await load(page, '1. f3 e5 2. g4 Qh4# 0-1'), 'game');
  await page.keyboard.press('End');
  await page.locator('#spoken', { hasText: 'After Qh4#. Checkmate: Black wins.' }).waitFor({ state: 'attached' });
  // Promote, delete; a position in the address.
  assert.equal(await load(page, '1. e4 (1. d4 d5 2. c4) e5 2. Nf3 *'), 'game');
  await page.locator('#analysis-moves [data-node]', { hasText: 'c4' }).click();
  await page.click('#promote');
  assert.deepEqual(await treeMoves(page), ['d4', 'e4', 'e5', 'Nf3', 'd5', 'c4']);
  await page.locator('#analysis-moves [data-node]', { hasText: 'e4' }).click();
  await page.click('#delete-move');
  await page.click('#confirm button[value=yes]');
  await treeHas(page, 3);
  assert.deepEqual(await treeMoves(page), ['d4', 'd5', 'c4']);
  await page.evaluate(() => { location.hash = '#analyse/fen/8/8/4k3/8/8/3QK3/8/8_w_-_-_0_1'; });
  await page.waitForFunction(() => document.querySelectorAll('#board cg-board piece').length === 3);
  print('moves by the keyboard, mate and stalemate, the threat, promotion and deletion of variations');
}

// In the page: how the white king looks, or whether that is known, or new.
const king = wanted => {
  const piece = document.querySelector('#board piece.white.king');
  if (!piece) return false;
  const { backgroundImage, backgroundPosition } = getComputedStyle(piece);
  const found = backgroundImage + backgroundPosition;
  return wanted ? wanted.known.includes(found) !== Boolean(wanted.isNew) : found;
};

// The pieces and colours that a visitor has chosen last over a reload.
async function preferences(page, { address, screenshot }) {
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.click('#preferences-open');
  await page.selectOption('#theme', 'dark');
  await page.uncheck('#sounds');
  await page.reload();
  await page.waitForFunction(light => getComputedStyle(document.documentElement).backgroundColor !== light, light);
  assert.equal(await page.isChecked('#sounds'), false);
  await page.click('#preferences-open');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.selectOption('#theme', 'light');
  assert.equal(await ground(), light);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.selectOption('#theme', 'system');
  assert.equal(await ground(), light);
  // Each choice of squares has colours of its own.
  const names = await page.locator('#squares option').evaluateAll(options => options.map(({ value }) => value));
  const colours = [];
  for (const name of [...names.slice(1), names[0]]) {
    await page.selectOption('#squares', name);
    colours.push(await page.evaluate(() => getComputedStyle(document.querySelector('#board cg-board')).backgroundImage));
  }
  assert.equal(new Set(colours).size, names.length);

  // Each set has pictures of its own; one that is chosen is loaded then, and alone after a reload.
  const pictures = [await page.evaluate(king)];
  for (const name of ['merida', 'kryukov', 'celtic']) {
    const asked = page.waitForRequest(`${address}page/vendor/pieces/${name}.css`);
    await page.selectOption('#pieces', name);
    await asked;
    await page.waitForFunction(() => document.querySelectorAll('link[data-pieces]').length === 1);
    await page.waitForFunction(king, { known: pictures, isNew: true });
    pictures.push(await page.evaluate(king));
    await screenshot(page, `pieces-${name}`);
  }
  const requests = [];
  page.on('request', request => requests.push(new URL(request.url()).pathname));
  await page.reload();
  await page.waitForFunction(king, { known: pictures.slice(-1) });
  assert.deepEqual(requests.filter(path => path.includes('/pieces/')), ['/page/vendor/pieces/celtic.css']);
  await page.click('#preferences-open');
  assert.equal(await page.inputValue('#pieces'), 'celtic');
  await page.selectOption('#pieces', 'cburnett');
  await page.waitForFunction(king, { known: pictures.slice(0, 1) });
  await page.keyboard.press('Escape');
  print('colours and pieces that last; a set of pieces is loaded when it is chosen');
}

/* `tools`: { address, program, screenshot } of the test of the whole page */
export async function checkAnalysis(page, tools) {
  const pgn = await personsHour(page, tools);
  assert.equal(await download(page), pgn);
  await hostileTexts(page, tools);
  await waysIn(page);
  await keysAndEndings(page, tools);
  await puzzlesAndEditor(page, tools);
  await preferences(page, tools);
}
