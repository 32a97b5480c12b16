// Tests games on a server with a single search slot: opponents by time, with a network and threads of the visitor's choice; games that
// are left; the words while a game waits; sounds; a puzzle from a game that was played here.
//
//   node playing.mjs PROGRAM
//
// starts `PROGRAM serve` and headless Chromium, as check.mjs does.

import assert from 'node:assert/strict';
import { audit } from './audit.mjs';
import { Server, drag, launchChromium, moves, newContext, played, print, setField, startGame, treeMoves, verdict, watch } from './harness.mjs';

const chooseTime = async (page, time) => {
  await page.selectOption('#opponent', 'time');
  await page.selectOption('#time', time);
};

// An engine by time, with the network and the threads that were chosen.
async function byTime(page, address) {
  const sent = [];
  page.on('websocket', socket => socket.on('framesent', ({ payload }) => sent.push(JSON.parse(payload))));
  await startGame(page, address, async () => {
    await chooseTime(page, '500');
    await page.selectOption('#engine', 'batch-first-large');
    await page.selectOption('#threads', '2');
    await page.check('[name=side][value=white]', { force: true });
  });
  const { system, threads, level } = sent.find(({ type }) => type === 'new_game');
  assert.deepEqual({ system, threads, level }, { system: 'batch-first-large', threads: 2, level: { kind: 'time', value: 500 } });
  await drag(page, 'e2', 'e4');
  await played(page, 2);
  assert.equal(await page.locator('#top .who').textContent(), 'Batch First (large)0.5 s a move, 2 threads');
  // By its clock: both clocks run, the engine's while it thinks.
  await startGame(page, address, async () => {
    await chooseTime(page, 'clock');
    assert.notEqual(await page.inputValue('#clock'), '', 'an engine by its clock has a clock');
    await page.selectOption('#clock', '60,1');
  });
  await page.locator('#bottom .clock.runs').waitFor();
  await drag(page, 'e2', 'e4');
  await page.locator('#top .clock.runs').waitFor();
  await played(page, 2);
  assert.match(await page.locator('#top .clock').textContent(), /^(1:0|0:5)\d$/);
  print(`an engine by time, with the large network and two threads: ${(await moves(page)).join(' ')}`);
}

// A game that was left does not go on searching: five of a minute a move would keep the only slot for five minutes.
async function leftGames(page, address) {
  for (let game = 0; game < 5; game += 1) {
    await startGame(page, address, async () => {
      await page.check('[name=side][value=black]', { force: true });
      await page.selectOption('#limit', 'time');
      await setField(page, 'amount', 60);
    });
    await page.locator('#top .dots').waitFor();
  }
  const begun = Date.now();
  await startGame(page, address, () => page.check('[name=side][value=black]', { force: true }));
  await played(page, 1);
  assert.ok(Date.now() - begun < 60_000, 'games that were left keep the search slot');
  print('five games that were left have stopped searching');
}

// While another visitor analyses, the engine waits for the slot; the page says when it has it.
async function waiting(page, other, address) {
  await other.goto(`${address}#analyse`);
  await other.locator('#analysis-system:enabled').waitFor();
  await other.click('#think');
  await other.locator('#thoughts li').first().waitFor();
  await page.bringToFront();
  await startGame(page, address, async () => {
    await chooseTime(page, '1000');
    await page.check('[name=side][value=white]', { force: true });
  });
  await page.evaluate(() => {
    window.verdicts = [];
    const note = () => window.verdicts.push(document.getElementById('verdict').textContent);
    new MutationObserver(note).observe(document.getElementById('verdict'), { childList: true, characterData: true, subtree: true });
  });
  for (const [number, move] of ['e4', 'd4', 'Nc3'].entries()) {
    await page.fill('#typed-move', move);
    await page.press('#typed-move', 'Enter');
    await played(page, 2 * number + 2);
    await page.waitForFunction(() => document.getElementById('verdict').textContent.includes('Your move'));
  }
  const verdicts = (await page.evaluate(() => window.verdicts)).filter((text, index, all) => text !== all[index - 1]);
  assert.ok(verdicts.includes('Waiting for the engine'), `${verdicts}`);
  for (const [index, text] of verdicts.entries()) {
    if (/Your move$/.test(text)) assert.equal(verdicts[index - 1], 'Batch First is thinking…', `${verdicts}`);
  }
  await other.click('#think');
  print('a game waits for the engine while another visitor analyses, and says when it thinks');
}

// Moves make sounds until the visitor switches them off.
async function sounds(page, address) {
  const count = () => page.evaluate(() => window.sounds);
  await page.addInitScript(() => {
    window.sounds = 0;
    const { createOscillator } = AudioContext.prototype;
    AudioContext.prototype.createOscillator = function () {
      window.sounds += 1;
      return createOscillator.call(this);
    };
  });
  await page.goto('about:blank');
  await startGame(page, address, async () => {
    await page.check('[name=side][value=white]', { force: true });
    // Both moves are seen one after the other.
    await page.selectOption('#limit', 'time');
  });
  await drag(page, 'd2', 'd4');
  await played(page, 2);
  await page.waitForFunction(() => window.sounds >= 2);
  await page.click('#preferences-open');
  await page.uncheck('#sounds');
  await page.keyboard.press('Escape');
  const before = await count();
  await drag(page, 'c2', 'c4');
  await played(page, 4);
  assert.equal(await count(), before);
  print('moves make sounds until these are switched off');
}

// A mate that the visitor missed here becomes a puzzle, which the keyboard solves.
async function puzzleFromGame(page, address) {
  await startGame(page, address, async () => {
    await page.selectOption('#from', 'pgn');
    await page.fill('#pgn', '1. f3 e5 2. g4');
    await page.check('[name=side][value=black]', { force: true });
  });
  await drag(page, 'b8', 'c6');
  await played(page, 5);
  await page.click('#resign');
  await page.click('#confirm button[value=yes]');
  await page.locator('#verdict.over').waitFor();
  assert.equal(await verdict(page), 'You resigned · 1-0');
  await page.click('#to-analysis');
  await page.selectOption('#review-effort', '1000');
  await page.click('#review-start');
  await page.locator('#summary .puzzles').first().click();
  await page.getByText('Black played 2… Nc6, and one move was much better. Find it.').waitFor();
  await audit(page, 'a puzzle');
  // The board is seen from Black's side: the cursor begins on e2 and goes to d8, and on to h4.
  await page.locator('#board.orientation-black').waitFor();
  await page.locator('#board').focus();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Shift+Tab');
  const press = async (key, times) => {
    for (let time = 0; time < times; time += 1) await page.keyboard.press(key);
  };
  await press('ArrowDown', 6);
  await press('ArrowRight', 1);
  await page.keyboard.press('Enter');
  assert.equal(await page.locator('#spoken').textContent(), 'd8 black queen chosen');
  await press('ArrowUp', 4);
  await press('ArrowLeft', 4);
  await page.keyboard.press('Enter');
  await page.getByText('Qh4# is right.').waitFor();
  await page.click('#puzzle-end');
  assert.ok((await treeMoves(page)).some(move => move.startsWith('Nc6')));
  print('a missed mate of a game that was played here, found again by the keyboard');
}

const [program] = process.argv.slice(2);
const server = new Server(program, null, ['--searches', '1']);
const address = await server.start();
const browser = await launchChromium();
const problems = [];
try {
  const context = await newContext(browser, { viewport: { width: 1280, height: 860 }, colorScheme: 'light' });
  const page = await context.newPage();
  const other = await context.newPage();
  for (const opened of [page, other]) watch(opened, server, problems);
  await page.bringToFront();
  await byTime(page, address);
  await leftGames(page, address);
  await waiting(page, other, address);
  await sounds(page, address);
  await puzzleFromGame(page, address);
  assert.deepEqual(problems, []);
} finally {
  await browser.close();
  await server.end();
}
