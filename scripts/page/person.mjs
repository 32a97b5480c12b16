// An hour of a person at the analysis board, in any browser: a PGN of a match is loaded, analysed whole, walked by its graph, given a
// variation, reloaded, copied, and read by python-chess.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { audit } from './audit.mjs';
import { addressHolds, drag, load, print, treeHas, treeMoves } from './harness.mjs';

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

// A game is loaded from the list of a match.
async function loadMatch(page, { address, program, screenshot }) {
  const folder = mkdtempSync(join(tmpdir(), 'batch-first-person-'));
  const match = playMatch(program, folder);
  rmSync(folder, { recursive: true });
  await page.goto(`${address}#analyse`);
  await page.locator('#analysis-system:enabled').waitFor();
  assert.equal(await load(page, match), 'list');
  assert.equal(await page.locator('#load-games button').count(), 2);
  await screenshot(page, 'load-games');
  await page.locator('#load-games button').first().focus();
  await page.keyboard.press('Enter');
  await page.locator('#analysis-moves [data-node]').nth(20).waitFor();
  assert.match(await page.locator('#analysis-title').textContent(), /Joe "Iron" <b>Pawn<\/b>/);
  assert.equal(await page.locator('#notes').isVisible(), false);
}

// The analysis is cancelled once, then runs to its end; a comment that is written meanwhile stays.
async function analyse(page) {
  const begun = () => page.waitForFunction(() => document.querySelector('#review-bar').value >= 2);
  await page.selectOption('#review-effort', '1000');
  await page.click('#review-start');
  await begun();
  await page.click('#review-cancel');
  await page.locator('#review-start').waitFor();
  await page.click('#review-start');
  await begun();
  await page.keyboard.press('Escape');
  await page.locator('#analysis-moves [data-node]').first().click();
  await page.fill('#comment', 'written <i>during</i> the analysis');
  await page.locator('#summary').filter({ hasText: /\d+ %/ }).waitFor();
}

// A click in the graph leads to a position, the wheel to the next.
async function walk(page, plies) {
  const points = await page.locator('#graph .white').first().getAttribute('points');
  assert.ok(points.split(' ').length >= plies, points);
  const { width, height } = await page.locator('#graph').boundingBox();
  const isAt = share => page.waitForFunction(share => {
    const graph = document.querySelector('#graph');
    return Math.abs(Number(graph.querySelector('.here')?.getAttribute('x1')) / graph.getBoundingClientRect().width - share) < 1e-3;
  }, share);
  const middle = Math.floor(plies / 2);
  await page.locator('#graph').click({ position: { x: width * middle / plies, y: height / 2 } });
  await isAt(middle / plies);
  await page.locator('#board').hover();
  await page.mouse.wheel(0, 120);
  await isAt((middle + 1) / plies);
}

// A variation by the mouse, with a comment and a glyph; a click on the main line loses nothing.
async function addVariation(page, count) {
  await page.evaluate(() => document.querySelector('[data-step=first]').click());
  await page.waitForFunction(() => document.querySelector('#analysis-moves [aria-current]') === null);
  await drag(page, 'h2', 'h4');
  await page.waitForFunction(() => document.querySelector('#analysis-moves [aria-current]')?.textContent.startsWith('h4'));
  await page.fill('#comment', 'mine');
  await page.selectOption('#glyph', '6');
  await page.locator('#analysis-moves [data-node]').first().click();
  await treeHas(page, count + 1);
}

// In the page: the pieces on the board, or whether they are `wanted`.
const pieces = wanted => {
  const found = [...document.querySelectorAll('#board cg-board piece:not(.ghost, .fading)')]
    .map(({ cgKey, className }) => `${cgKey} ${className.replace(/ (anim|dragging)/g, '')}`).sort().join();
  return wanted === undefined ? found : found === wanted;
};

// The address holds the game, its analysis, and the shown position.
async function reload(page) {
  await addressHolds(page, '"mine"', 1);
  const [moves, board] = [await treeMoves(page), await page.evaluate(pieces)];
  await page.reload();
  await treeHas(page, moves.length);
  assert.deepEqual(await treeMoves(page), moves);
  await page.locator('#summary').filter({ hasText: /\d+ %/ }).waitFor();
  assert.equal(await page.locator('#analysis-moves [aria-current]').textContent(), await page.locator('#analysis-moves [data-node]').first().textContent());
  await page.waitForFunction(pieces, board);
  return moves;
}

// The text that *Copy PGN* leaves in the clipboard.
async function copy(page) {
  const copied = async (button, what) => {
    await page.click(button);
    await page.getByText(`The ${what} is copied.`).waitFor();
    await page.click('#load-open');
    await page.fill('#load-text', '');
    await page.focus('#load-text');
    await page.keyboard.press('ControlOrMeta+V');
    const pasted = await page.waitForFunction(() => document.querySelector('#load-text').value);
    await page.click('#load-close');
    return pasted.jsonValue();
  };
  assert.equal(await copied('#copy-fen', 'FEN'), await page.inputValue('#setup-fen'));
  return copied('#copy-pgn', 'PGN');
}

/* `screenshot(page, name)` takes a picture. Returns the PGN of the game that is shown at the end */
export async function personsHour(page, tools) {
  await loadMatch(page, tools);
  const plies = (await treeMoves(page)).length;
  await analyse(page);
  const analysed = await treeMoves(page);
  assert.ok(analysed.length >= plies, 'moves are lost');
  await walk(page, plies);
  await tools.screenshot(page, 'analysed-game');
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await audit(page, `an analysed game in the ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: null });
  await addVariation(page, analysed.length);
  const moves = await reload(page);
  const pgn = await copy(page);
  const read = readByPython(pgn);
  assert.deepEqual(read.errors, []);
  assert.equal(read.nodes, moves.length);
  assert.equal(read.moves.length, plies);
  // python-chess leaves the backslashes of tags in place.
  assert.ok([read.white, read.black].includes('Joe \\"Iron\\" <b>Pawn</b>'), `${read.white}, ${read.black}`);
  assert.ok(read.evaluations >= plies - 1, `${read.evaluations} evaluations`);
  for (const comment of ['mine', 'written <i>during</i> the analysis']) assert.ok(read.comments.some(text => text.includes(comment)), comment);
  assert.ok(read.glyphs.includes(6));
  // Read again, the game is the same.
  assert.equal(await load(page, pgn), 'game');
  await treeHas(page, moves.length);
  assert.deepEqual((await treeMoves(page)).sort(), moves.sort());
  assert.equal(await copy(page), pgn);
  print(`a person's hour: ${plies} plies analysed, ${moves.length - plies} moves of variations, PGN of ${pgn.length} bytes read by python-chess`);
  return pgn;
}
