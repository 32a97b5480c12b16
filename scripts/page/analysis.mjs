// Tests the analysis board: a PGN of a match is loaded, analysed whole, walked by its graph, given a variation, reloaded, copied, and
// read by python-chess; then what is hostile, cut off or foreign in a PGN, the keys, puzzles, the board editor and the colours.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setField } from './harness.mjs';

// The moves with their glyphs, without scores.
const treeMoves = page => page.evaluate(() => [...document.querySelectorAll('#analysis-moves [data-node]')]
  .map(({ childNodes }) => [...childNodes].filter(({ tagName }) => tagName !== 'SMALL').map(({ textContent }) => textContent).join('')));
const current = page => page.locator('#analysis-moves [aria-current]').getAttribute('data-node');
const pieces = page => page.evaluate(() => [...document.querySelectorAll('#board cg-board piece:not(.ghost)')]
  .map(({ cgKey, className }) => `${cgKey} ${className.replace(/ (anim|fading|dragging)/g, '')}`).sort().join());

// Loads a text by the form and waits for the outcome: 'game', 'list' or the error.
async function load(page, text) {
  if (!await page.locator('#load[open]').count()) await page.click('#load-open');
  await page.fill('#load-text', text);
  await page.click('#load-form button[type=submit]');
  await page.waitForFunction(() => !document.querySelector('#load').classList.contains('busy'));
  if (!await page.locator('#load[open]').count()) return 'game';
  if (await page.locator('#load-list').isVisible()) return 'list';
  return page.locator('#load-text-error').textContent();
}

async function download(page) {
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('#save-pgn')]);
  return readFileSync(await file.path(), 'utf8');
}

// The first game of a PGN as python-chess reads it: names, main line, number of moves with variations, evaluations, glyphs, comments.
const PYTHON = `
import chess.pgn, io, json, sys
game = chess.pgn.read_game(io.StringIO(sys.stdin.read()))
nodes, comments, glyphs, evaluations = 0, [], [], 0
def visit(node):
    global nodes, evaluations
    for child in node.variations:
        nodes += 1
        comments.extend(text for text in [child.starting_comment, child.comment] if text)
        glyphs.extend(sorted(child.nags))
        evaluations += child.eval() is not None
        visit(child)
sys.setrecursionlimit(10000)
visit(game)
print(json.dumps({"white": game.headers["White"], "black": game.headers["Black"], "errors": [str(e) for e in game.errors],
    "moves": [node.san() for node in game.mainline()], "nodes": nodes, "comments": comments, "glyphs": glyphs, "evaluations": evaluations}))
`;
function readByPython(pgn) {
  const run = spawnSync('python3', ['-c', PYTHON], { input: pgn, encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return JSON.parse(run.stdout);
}

// A match of two games by the program itself.
function playMatch(program, folder) {
  const file = join(folder, 'match.pgn');
  const run = spawnSync(program, ['match', '--games', '2', '--nodes', '20', '--max-plies', '60', '--pgn', file,
    '--engine', 'self; name=Batch First', '--engine', 'self; name=Joe "Iron" <b>Pawn</b>'], { encoding: 'utf8' });
  assert.equal(run.status, 0, `${run.stdout}${run.stderr}`);
  return readFileSync(file, 'utf8');
}

async function wholeGame(page, { address, print, screenshot, drag, program }) {
  const folder = mkdtempSync(join(tmpdir(), 'batch-first-analysis-'));
  const match = playMatch(program, folder);
  rmSync(folder, { recursive: true });
  await page.goto(`${address}#analyse`);
  await page.locator('#analysis-system option').first().waitFor({ state: 'attached' });
  assert.equal(await load(page, match), 'list');
  assert.equal(await page.locator('#load-games button').count(), 2);
  await screenshot(page, 'load-games');
  await page.locator('#load-games button').first().click();
  await page.locator('#analysis-moves [data-node]').nth(20).waitFor();
  assert.match(await page.locator('#analysis-title').textContent(), /Joe "Iron" <b>Pawn<\/b>/);
  assert.equal(await page.locator('#notes').isVisible(), false);
  const before = await treeMoves(page);

  // Cancelled once, then to its end; meanwhile the visitor writes a comment, which stays.
  await page.selectOption('#review-effort', '300');
  await page.click('#review-start');
  await page.waitForFunction(() => document.querySelector('#review-bar').value >= 2);
  await page.click('#review-cancel');
  await page.locator('#review-start').waitFor();
  await page.click('#review-start');
  await page.waitForFunction(() => document.querySelector('#review-bar').value >= 2);
  await page.keyboard.press('Escape');
  await page.locator('#analysis-moves [data-node]').first().click();
  await page.fill('#comment', 'written <i>during</i> the analysis');
  await page.locator('#summary').waitFor();
  assert.match(await page.locator('#summary').textContent(), /\d+ %/);
  const analysed = await treeMoves(page);
  assert.ok(analysed.length >= before.length, 'no move is lost');

  // The graph leads to a position, the wheel to the next.
  const graph = await page.locator('#graph').boundingBox();
  const points = await page.locator('#graph .white').first().getAttribute('points');
  assert.ok(points.split(' ').length >= before.length, points);
  await page.mouse.click(graph.x + graph.width / 2, graph.y + graph.height / 2);
  const middle = await current(page);
  const board = await page.locator('#board').boundingBox();
  await page.mouse.move(board.x + board.width / 2, board.y + board.height / 2);
  await page.mouse.wheel(0, 120);
  await page.waitForFunction(middle => document.querySelector('#analysis-moves [aria-current]').dataset.node !== middle, middle);
  await screenshot(page, 'analysed-game');

  // A variation by the mouse, with a comment and a glyph; a click on the main line loses nothing.
  await page.evaluate(() => document.querySelector('[data-step=first]').click());
  await page.waitForFunction(() => document.querySelector('#analysis-moves [aria-current]') === null);
  await page.locator('#board cg-board piece').first().waitFor();
  await page.waitForTimeout(400);
  await drag(page, 'h2', 'h4');
  await page.waitForFunction(() => document.querySelector('#analysis-moves [aria-current]')?.textContent.startsWith('h4'));
  await page.fill('#comment', 'mine');
  await page.selectOption('#glyph', '6');
  await page.locator('#analysis-moves [data-node]').first().click();
  await page.waitForFunction(count => document.querySelectorAll('#analysis-moves [data-node]').length === count, analysed.length + 1);

  // The address holds it all.
  await page.waitForTimeout(900);
  const kept = await treeMoves(page);
  const shown = await pieces(page);
  await page.reload();
  await page.locator('#analysis-moves [data-node]').nth(20).waitFor();
  assert.deepEqual(await treeMoves(page), kept);
  await page.waitForFunction(() => document.querySelector('#analysis-moves [aria-current]'));
  await page.waitForTimeout(400);
  assert.equal(await pieces(page), shown);
  assert.match(await page.locator('#summary').textContent(), /\d+ %/);

  // The copy is what the file is.
  const pgn = await download(page);
  await page.click('#copy-pgn');
  await page.getByText('The PGN is copied.').waitFor();
  await page.click('#load-open');
  await page.focus('#load-text');
  await page.keyboard.press('ControlOrMeta+V');
  assert.equal((await page.inputValue('#load-text')).trim(), pgn.trim());
  await page.click('#load-close');
  const read = readByPython(pgn);
  assert.deepEqual(read.errors, []);
  assert.equal(read.nodes, kept.length);
  assert.deepEqual(read.moves.length, before.length);
  // python-chess leaves the backslashes of tags in place.
  assert.ok([read.white, read.black].includes('Joe \\"Iron\\" <b>Pawn</b>'), `${read.white}, ${read.black}`);
  assert.ok(read.evaluations >= before.length - 1, `${read.evaluations} evaluations`);
  assert.ok(read.comments.some(text => text.includes('mine')) && read.comments.some(text => text.includes('written <i>during</i> the analysis')));
  assert.ok(read.glyphs.includes(6));
  // Read again, the game is the same.
  assert.equal(await load(page, pgn), 'game');
  await page.waitForFunction(count => document.querySelectorAll('#analysis-moves [data-node]').length === count, kept.length);
  assert.deepEqual((await treeMoves(page)).sort(), kept.sort());
  assert.equal(await download(page), pgn);
  print(`a game of a match: ${before.length} plies analysed, ${kept.length - before.length} moves of variations, PGN of ${pgn.length} bytes read by python-chess`);
}

async function hostileTexts(page, { print, screenshot }) {
  const html = '<img src=x onerror=alert(1)>';
  const nasty = `[White "${html}"]\n[Black "O'Neil \\"Iron\\" & <script>"]\n\n{${html}} 1. e4! {${html} [%clk 0:01]} (1. d4?! d5 (1... Nf6 {x}) 2. c4) e5 $146 *`;
  assert.equal(await load(page, nasty), 'game');
  await page.locator('#analysis-moves [data-node]').nth(5).waitFor();
  assert.equal(await page.locator('#view-analyse img, #view-analyse script, #stage img').count(), 0);
  assert.match(await page.locator('#analysis-moves').textContent(), /<img src=x onerror=alert\(1\)>/);
  assert.deepEqual(await treeMoves(page), ['e4!', 'd4?!', 'd5', 'Nf6', 'c4', 'e5N']);
  for (const [text, words] of [
    ['hello world', /hello world is no game/],
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
  assert.equal(await load(page, '1. e4 e5 2. Sf3 Sc6 3. Lb5'), 'game');
  assert.match(await page.locator('#notes').textContent(), /move 2, Sf3 is no move; pieces have English letters.*Not read: Sf3 Sc6 3. Lb5/);
  assert.deepEqual(await treeMoves(page), ['e4', 'e5']);
  await screenshot(page, 'cut-off');
  // The browser's Back returns to the game before.
  await page.waitForTimeout(900);
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll('#analysis-moves [data-node]').length === 6);
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
  await page.waitForTimeout(900);
  await page.reload();
  await page.waitForFunction(() => document.querySelector('#analysis-moves')?.textContent.includes('written later'));
  assert.equal(await load(page, `1. f4 {${random(12_000)}} f5 *`), 'game');
  await page.waitForTimeout(900);
  await page.goBack();
  await page.waitForFunction(() => document.querySelector('#analysis-moves').textContent.includes('written later'));
  print('PGN that is hostile, foreign, cut off or long: nothing is lost in silence');
}

// A text by a file, by dropping a file and by pasting it into the page.
async function waysIn(page, { print }) {
  const count = number => page.waitForFunction(number => document.querySelectorAll('#analysis-moves [data-node]').length === number, number);
  await page.click('#load-open');
  // Old programs write names in Latin-1.
  await page.setInputFiles('#load-file', { name: 'old.pgn', mimeType: 'text/plain', buffer: Buffer.from('[White "M\u00fcller"]\n\n1. e4 e5 2. Nf3 Nc6 *', 'latin1') });
  await count(4);
  assert.match(await page.locator('#analysis-title').textContent(), /Müller/);
  await page.click('#load-open');
  await page.setInputFiles('#load-file', { name: 'games.zst', mimeType: 'application/zstd', buffer: Buffer.from([40, 0, 47, 253]) });
  await page.getByText('games.zst is no text file.').waitFor();
  await page.click('#load-close');
  const give = (kind, text) => page.evaluate(([kind, text]) => {
    const data = new DataTransfer();
    if (kind === 'drop') data.items.add(new File([text], 'dropped.pgn'));
    else data.setData('text/plain', text);
    document.body.dispatchEvent(kind === 'drop' ? new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })
      : new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
  }, [kind, text]);
  await give('drop', '1. d4 d5 2. c4 *');
  await count(3);
  await give('paste', '1. c4 e5 *');
  await count(2);
  await give('paste', '8/8/4k3/8/8/3QK3/8/8 w - - 0 1');
  await count(0);
  await page.waitForFunction(() => document.getElementById('setup-fen').value === '8/8/4k3/8/8/3QK3/8/8 w - - 0 1');
  await give('paste', 'nothing of the kind');
  await page.getByText('nothing of the kind is no game').waitFor();
  await page.click('#load-close');
  print('games by a file, dropped and pasted; a position pasted');
}

async function keysAndEndings(page, { print, click, screenshot }) {
  // Moves by the keyboard, and an error at its field.
  await page.click('#setup-fold summary');
  await page.click('#setup-start');
  await page.waitForFunction(() => location.hash === '#analyse');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('m');
  for (const [text, count] of [['f3', 1], ['e7e5', 2], ['g4', 3]]) {
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
    await page.waitForFunction(count => document.querySelectorAll('#analysis-moves [data-node]').length === count, count);
  }
  await page.keyboard.type('Qh5');
  await page.keyboard.press('Enter');
  await page.locator('#analysis-move-error').waitFor();
  assert.match(await page.locator('#analysis-move-error').textContent(), /The move Qh5 is not legal here/);
  assert.match(await page.locator('#opening').textContent(), /^A00 /);
  // The engine runs; mate on the board leaves neither its lines nor its evaluation.
  await page.fill('#analysis-move', '');
  await page.keyboard.press('Escape');
  await page.keyboard.press(' ');
  await page.locator('#thoughts:not(.stale) li').first().waitFor();
  // A move of a line is shown under the mouse.
  await page.locator('#thoughts button').first().hover();
  await page.locator('.preview piece').first().waitFor();
  await page.mouse.move(5, 5);
  await click(page, 'd8');
  await click(page, 'h4');
  await page.getByText('Checkmate: Black wins.').waitFor();
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
  await page.getByText('Stalemate: a draw.').waitFor();
  assert.deepEqual(await ended(), [0, '½']);
  // The threat: what the other side would play.
  await page.keyboard.press('Escape');
  await page.keyboard.press('ArrowLeft');
  await setField(page, 'setup-fen', 'r1bqkbnr/pppp1ppp/2n5/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR b KQkq - 3 3');
  await page.click('#setup button[type=submit]');
  await page.waitForFunction(() => document.querySelectorAll('#analysis-moves [data-node]').length === 0 && document.querySelectorAll('#board cg-board piece').length >= 32);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('x');
  await page.waitForFunction(() => document.querySelector('#thoughts:not(.stale) li button')?.textContent === 'Qxf7#');
  await page.keyboard.press('x');
  await page.waitForFunction(() => document.querySelector('#thoughts:not(.stale) li button') && document.querySelector('#thoughts li button').textContent !== 'Qxf7#');
  await page.keyboard.press(' ');
  // Promote, delete; a position in the address.
  assert.equal(await load(page, '1. e4 (1. d4 d5 2. c4) e5 2. Nf3 *'), 'game');
  await page.locator('#analysis-moves [data-node]', { hasText: 'c4' }).click();
  await page.click('#promote');
  assert.deepEqual(await treeMoves(page), ['d4', 'e4', 'e5', 'Nf3', 'd5', 'c4']);
  await page.locator('#analysis-moves [data-node]', { hasText: 'e4' }).click();
  await page.click('#delete-move');
  await page.click('#confirm button[value=yes]');
  await page.waitForFunction(() => document.querySelectorAll('#analysis-moves [data-node]').length === 3);
  assert.deepEqual(await treeMoves(page), ['d4', 'd5', 'c4']);
  await page.evaluate(() => { location.hash = '#analyse/fen/8/8/4k3/8/8/3QK3/8/8_w_-_-_0_1'; });
  await page.waitForFunction(() => document.querySelectorAll('#board cg-board piece').length === 3);
  print('moves by the keyboard, mate and stalemate, the threat, promotion and deletion of variations');
}

async function puzzlesAndEditor(page, { print, click, drag, screenshot }) {
  // Black did not see a mate: after the analysis it is a puzzle.
  assert.equal(await load(page, '[White "Ann"]\n[Black "Bea"]\n\n1. f3 e5 2. g4 Nc6 3. e4 d6 *'), 'game');
  await page.selectOption('#review-effort', '300');
  await page.click('#review-start');
  await page.locator('#summary .puzzles').first().click();
  await page.getByText('Black played 2… Nc6, and one move was much better. Find it.').waitFor();
  await page.locator('.cg-wrap.orientation-black').first().waitFor();
  assert.equal(await page.locator('#analysis-moves').isVisible(), false);
  await page.waitForTimeout(400);
  await drag(page, 'd7', 'd5');
  await page.getByText('There is something better').waitFor();
  await screenshot(page, 'puzzle');
  await page.waitForTimeout(400);
  await drag(page, 'd8', 'h4');
  await page.getByText('Qh4#: that is it.').waitFor();
  const before = await page.locator('#analysis-moves [data-node]').count();
  await page.click('#puzzle-end');
  assert.equal(await page.locator('#analysis-moves [data-node]').count(), before);
  await page.keyboard.press('f');

  // A position from an empty board; a wrong one is refused at its field.
  if (!await page.locator('#setup-edit').isVisible()) await page.click('#setup-fold summary');
  await page.click('#setup-edit');
  await page.click('#editor-empty');
  for (const [tool, name] of [['white king', 'e1'], ['black king', 'e8'], ['white rook', 'a1'], ['black pawn', 'h7'], [' ', 'h7']]) {
    await page.click(`[data-tool="${tool}"]`);
    await click(page, name);
  }
  await page.click('[data-tool=move]');
  await drag(page, 'a1', 'a4');
  await page.selectOption('#editor-turn', 'b');
  await screenshot(page, 'editor');
  await page.click('#editor-done');
  await page.waitForFunction(() => document.getElementById('setup-fen').value === '4k3/8/8/8/R7/8/8/4K3 b - - 0 1'
    && location.hash === '#analyse/fen/4k3/8/8/8/R7/8/8/4K3_b_-_-_0_1');
  await page.click('#setup-edit');
  await page.click('#editor-empty');
  await page.click('#editor-done');
  await page.locator('#setup-fen-error').filter({ hasText: 'empty board' }).waitFor();
  assert.equal(await page.inputValue('#setup-fen'), '8/8/8/8/8/8/8/8 b - - 0 1');

  // A king that is moved two squares takes no rook with it, and Chess960 castling stays.
  await setField(page, 'setup-fen', '4k3/8/8/8/8/8/8/4K2R w K - 0 1');
  await page.check('#setup-960');
  await page.click('#setup button[type=submit]');
  await page.waitForFunction(() => location.hash.endsWith('/960'));
  await page.click('#setup-edit');
  await drag(page, 'e1', 'g1');
  await page.uncheck('#castle-K');
  await page.click('#editor-done');
  await page.waitForFunction(() => document.getElementById('setup-fen').value === '4k3/8/8/8/8/8/8/6KR w - - 0 1' && location.hash.endsWith('/960'));
  await page.uncheck('#setup-960');
  await page.click('#setup-start');

  // Colours last over a reload.
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const light = await ground();
  await page.click('#preferences-open');
  await page.selectOption('#theme', 'dark');
  await page.uncheck('#sounds');
  await page.reload();
  await page.waitForFunction(light => getComputedStyle(document.documentElement).backgroundColor !== light, light);
  assert.equal(await page.isChecked('#sounds'), false);
  await page.click('#preferences-open');
  await page.selectOption('#theme', 'system');
  assert.equal(await ground(), light);
  await page.keyboard.press('Escape');
  print('a puzzle from a missed mate, a position from an empty board, colours that last');
}

/* `tools`: { address, program, print, screenshot, drag, click } of the test of the whole page */
export async function checkAnalysis(page, tools) {
  await wholeGame(page, tools);
  await hostileTexts(page, tools);
  await waysIn(page, tools);
  await keysAndEndings(page, tools);
  await puzzlesAndEditor(page, tools);
}
