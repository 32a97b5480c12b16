// Tests the page in Chromium: a whole game, an analysis, a reload in mid-game, a killed server, a phone, the lab.
//
//   node check.mjs PROGRAM PICTURES MAIA
//
// starts `PROGRAM serve` with a new file of games, and headless Chromium. Screenshots go to the folder PICTURES. The folder
// MAIA holds maia-1500.pb.gz. Needs playwright-core beside this file (npm ci) and Chromium (CHROMIUM=path, or
// /usr/bin/chromium).

import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { checkAnalysis } from './analysis.mjs';
import { Server, chooseBatch, click, drag, focused, moves, newProfile, openChromium, played, print, reach, setField, startGame as startGameAt, tap, trainingLine, verdict, watch as watchPage } from './harness.mjs';
import { checkLines } from './lines.mjs';

const [program, pictures, maia] = process.argv.slice(2);
mkdirSync(pictures, { recursive: true });

const server = new Server(program, maia);
await server.start();
const profile = newProfile();
const open = options => openChromium(options, profile);
const problems = [];
let context = null;

const sockets = new Map();
function watch(page) {
  page.on('websocket', socket => sockets.set(page, socket));
  watchPage(page, server, problems);
}
const startGame = (page, choose) => startGameAt(page, server.address, choose);

async function screenshot(page, name) {
  // The animation of the pieces ends.
  await page.waitForTimeout(300);
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}

// Describes the pages after a failure: a screenshot and the state of each.
async function describe(pages) {
  for (const [number, page] of pages.entries()) {
    const state = page.evaluate(async () => {
      const texts = Object.fromEntries(['offline', 'toast', 'verdict', 'analysis-state', 'think', 'thoughts']
        .map(id => [id, `${document.getElementById(id).hidden ? 'hidden: ' : ''}${document.getElementById(id).textContent.trim()}`]));
      const game = (await import('/page/play.js')).current();
      return {
        address: location.href,
        ...texts,
        fen: document.getElementById('setup-fen').value,
        isStale: document.getElementById('thoughts').classList.contains('stale'),
        game: game && { fen: game.fens.at(-1), plies: game.moves.length, turn: game.turn, side: game.side, result: game.result, thinking: game.thinking },
      };
    });
    const timeout = new Promise(resolve => setTimeout(resolve, 10_000, 'no answer within ten seconds'));
    print(`page ${number}: ${JSON.stringify(await Promise.race([state, timeout]).catch(String), null, 1)}`);
    await page.screenshot({ path: join(pictures, `failed-${number}.png`), timeout: 10_000 }).catch(problem => print(String(problem)));
  }
}

try {
  context = await open({ viewport: { width: 1280, height: 860 }, colorScheme: 'light' });
  const page = context.pages()[0] ?? await context.newPage();
  watch(page);

  // Prints how soon the page is ready, by its own clock. The test only limits the files that it loads: times depend on the machine.
  const loads = [];
  for (let visit = 0; visit < 3; visit += 1) {
    await page.goto(server.address);
    await page.locator('#opponent:enabled').waitFor();
    await page.locator('cg-board piece').first().waitFor();
    loads.push(await page.evaluate(() => Math.round(performance.now())));
    if (visit === 0) {
      const files = await page.evaluate(() => ['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind)).map(({ transferSize }) => transferSize));
      const bytes = files.reduce((sum, size) => sum + size, 0);
      assert.ok(files.length <= 40 && bytes > 20_000 && bytes < 200_000, `${files.length} files, ${bytes} bytes`);
      print(`${files.length} files, ${bytes} bytes on the wire`);
      for (const name of ['style.css', 'analyse.css', 'vendor/chessground/chessground.cburnett.css', 'app.js']) {
        const [file] = await page.evaluate(name => performance.getEntriesByName(new URL(`/page/${name}`, location).href)
          .map(({ encodedBodySize, decodedBodySize }) => ({ encodedBodySize, decodedBodySize })), name);
        assert.ok(file.encodedBodySize > 0 && file.encodedBodySize < 0.7 * file.decodedBodySize, `${name} is not compressed: ${JSON.stringify(file)}`);
      }
    }
    await page.goto('about:blank');
  }
  print(`loads in ${loads.join(', ')} ms, the board set up and the socket open`);

  await page.goto(server.address);
  await page.locator('#rating-text b').waitFor();
  await screenshot(page, 'new-game');
  // The words that players know.
  const words = await page.content();
  for (const word of ['Opponent', 'Strength', 'Rating', 'Random', 'Starting position', 'No clock', 'Flip board', 'Takeback', 'positions a second']) {
    assert.ok(words.includes(word), `the page does not say ${word}`);
  }
  assert.ok(!words.includes('`'), 'the page has a backtick');

  // A server that returns with other levels offers these; all other choices stay.
  const levels = await page.evaluate(async () => {
    const by = id => document.getElementById(id);
    const play = await import('/page/play.js');
    const named = id => [...by(id).options].map(({ value }) => ({ name: value, network: '' }));
    const message = { systems: [...named('engine'), { name: 'convchess', network: '' }], engines: named('engine'), threads: 2, maia_ratings: [1500] };
    const hello = count => play.hello({
      ...message,
      levels: Array.from({ length: count }, (_, index) => ({ system: 'batch-first', level: { kind: 'nodes', value: index + 1 }, elo: 100 + index, interval: 9, games: 9 })),
    });
    by('clock').value = '300,3';
    hello(3);
    by('rating').value = 2;
    by('rating').dispatchEvent(new Event('input'));
    const three = [by('rating').max, by('rating-text').querySelector('b').textContent];
    hello(2);
    const two = [by('rating').value, by('rating-text').querySelector('b').textContent];
    by('opponent').value = 'limit';
    by('opponent').dispatchEvent(new Event('change'));
    by('amount').value = 77;
    hello(1);
    const other = [by('opponent').value, by('amount').value, by('clock').value, by('rating').max];
    return { three, two, other };
  });
  assert.deepEqual(levels, { three: ['2', '102'], two: ['1', '101'], other: ['limit', '77', '300,3', '0'] });
  await page.reload();

  // Moves by clicks, by dragging and by typing; an illegal move does nothing.
  await startGame(page);
  await click(page, 'e2');
  await page.locator('square.move-dest').first().waitFor();
  await click(page, 'e5');
  assert.deepEqual(await moves(page), []);
  await drag(page, 'e2', 'e4');
  await played(page, 2);
  await click(page, 'g1');
  await click(page, 'f3');
  await played(page, 4);
  await page.keyboard.press('m');
  await page.keyboard.type('Nc3');
  await page.keyboard.press('Enter');
  await played(page, 6);
  const before = await moves(page);
  assert.deepEqual([before[0], before[2], before[4]], ['e4', 'Nf3', 'Nc3']);
  print(`moves by dragging, clicking and typing: ${before.join(' ')}`);

  // A move of the list keeps the keyboard focus when the list is drawn again; screen readers get the engine's move.
  await reach(page, page.locator('#moves button', { hasText: 'e4' }).first());
  await page.keyboard.press('Enter');
  assert.equal(await focused(page), 'moves e4');
  await page.keyboard.press('End');
  assert.match(await page.locator('#spoken').textContent(), /White to move/);

  // A reload in mid-game keeps the game.
  await page.reload();
  await played(page, 6);
  assert.deepEqual(await moves(page), before);
  print('a reload in mid-game: every move is there');

  // A killed server keeps the game.
  await server.kill();
  await page.locator('#offline', { hasText: 'Offline' }).waitFor();
  // A move without a connection is not made, and the page tells the visitor. This one is legal whatever the engine played.
  await page.evaluate(() => { document.getElementById('toast').hidden = true; });
  await drag(page, 'a2', 'a3');
  await page.getByText('Offline: your move was not sent').waitFor();
  // The pawn is back.
  await page.waitForFunction(() => [...document.querySelectorAll('cg-board piece.white.pawn')].some(({ cgKey }) => cgKey === 'a2'));
  await server.start(new URL(server.address).port);
  await page.locator('#offline').waitFor({ state: 'hidden' });
  await page.keyboard.press('m');
  await page.keyboard.type('a3');
  await page.keyboard.press('Enter');
  await played(page, 8);
  assert.deepEqual((await moves(page)).slice(0, 7), [...before, 'a3']);
  print('the server was killed and started again: the game continues');

  // The ninth page of a visitor shows why it is refused.
  const many = await Promise.all(Array.from({ length: 7 }, () => context.newPage()));
  for (const other of many) {
    await other.goto(server.address);
    await other.locator('#opponent:enabled').waitFor();
  }
  const ninth = await context.newPage();
  await ninth.goto(server.address);
  await ninth.getByText('You have too many pages open').waitFor();
  await many[0].close();
  await ninth.locator('#opponent:enabled').waitFor();
  await ninth.locator('#offline').waitFor({ state: 'hidden' });
  for (const other of [...many.slice(1), ninth]) await other.close();
  await page.bringToFront();
  print('the ninth page shows why it is refused, and connects when another is closed');

  // A clock stops while the server is down and continues after its restart.
  const first = page.url();
  await page.getByText('Offline: your move was not sent').waitFor({ state: 'hidden' });
  await startGame(page, async () => {
    await page.selectOption('#clock', '600,5');
    await page.check('[name=side][value=white]', { force: true });
  });
  const clock = async () => {
    const [minutes, seconds] = (await page.locator('#bottom .clock').textContent()).split(':').map(Number);
    return 60 * minutes + seconds;
  };
  const runsBelow = seconds => page.waitForFunction(seconds => {
    const [minutes, rest] = document.querySelector('#bottom .clock.runs')?.textContent.split(':').map(Number) ?? [];
    return 60 * minutes + rest < seconds;
  }, seconds);
  await runsBelow(598);
  await server.kill('SIGINT');
  await page.locator('#offline:not([hidden])').waitFor();
  const stopped = await clock();
  await page.waitForTimeout(2500);
  assert.equal(await clock(), stopped);
  await server.start(new URL(server.address).port);
  await page.locator('#offline').waitFor({ state: 'hidden' });
  await runsBelow(stopped);
  assert.ok(await clock() > stopped - 30 && await clock() <= stopped, `${stopped} s before, ${await clock()} s after`);
  await page.goto(first);
  await played(page, 8);

  // Replay with the keys, flip the board, take back.
  await page.keyboard.press('Escape');
  await page.keyboard.press('Home');
  await page.waitForFunction(() => document.querySelector('#moves [aria-current]') === null);
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.locator('#moves [aria-current]').textContent(), 'e4');
  await page.keyboard.press('End');
  await page.keyboard.press('f');
  await page.locator('.cg-wrap.orientation-black').waitFor();
  await page.keyboard.press('f');
  await page.keyboard.press('z');
  await page.waitForFunction(() => document.querySelectorAll('#moves button:not([disabled])').length === 6);
  await screenshot(page, 'game');

  // A premove is played as soon as the engine has moved.
  await startGame(page, async () => {
    await page.selectOption('#limit', 'time');
    // Long enough for the premove, however busy the machine is.
    await page.fill('#amount', '10');
    await page.check('[name=side][value=white]', { force: true });
  });
  await drag(page, 'd2', 'd4');
  await page.waitForFunction(() => document.querySelectorAll('#moves button:not([disabled])').length === 1);
  await drag(page, 'b1', 'c3');
  await page.locator('square.current-premove').first().waitFor();
  await played(page, 3);
  assert.equal((await moves(page))[2], 'Nc3');
  print('a premove was played');

  // A promotion asks for the piece; the game that it ends has a result.
  await startGame(page, async () => {
    await page.selectOption('#from', 'fen');
    await page.fill('#fen', '7k/P7/6K1/8/8/8/8/8 w - - 0 1');
  });
  await click(page, 'a7');
  await click(page, 'a8');
  await page.locator('#promotion[open]').waitFor();
  await screenshot(page, 'promotion');
  await page.locator('#promotion button[value=q]').click();
  await page.locator('#verdict.over').waitFor();
  assert.equal(await verdict(page), 'Checkmate · You win · 1-0');
  print(`a promotion: ${await verdict(page)}`);

  // A Maia has a rating and no other strength.
  await startGame(page, async () => {
    await page.selectOption('#opponent', 'human');
    await page.locator('#limit-field').waitFor({ state: 'hidden' });
    await page.selectOption('#human', 'maia-1500');
    await screenshot(page, 'new-game-maia');
  });
  await drag(page, 'e2', 'e4');
  await played(page, 2);
  assert.match(await page.locator('#top .who').textContent(), /^Maia 1500/);
  print(`a Maia answers: ${(await moves(page)).join(' ')}`);

  // A whole game between two engines: the visitor's moves come from the analysis on another page.
  await startGame(page, async () => {
    await page.selectOption('#opponent', 'human');
    await page.selectOption('#human', 'convchess');
    await page.selectOption('#clock', '600,5');
  });
  const second = await context.newPage();
  watch(second);
  await second.goto(`${server.address}#analyse`);
  await second.locator('#analysis-system:enabled').waitFor();
  await second.selectOption('#lines', '1');
  await chooseBatch(second, 1);
  await second.click('#think');
  let count = 0;
  while (!await page.locator('#verdict.over').count() && count < 300) {
    const fen = await page.evaluate(async () => (await import('/page/play.js')).current().fens.at(-1));
    await second.evaluate(() => document.querySelector('.setup').open = true);
    await setField(second, 'setup-fen', fen);
    await second.click('#setup button[type=submit]');
    const best = await second.waitForFunction(() => {
      const first = document.querySelector('#thoughts:not(.stale) li span button');
      const depth = parseInt(document.querySelector('#thoughts small')?.textContent ?? '0', 10);
      const isMate = document.querySelector('#thoughts b')?.textContent.includes('#');
      return first && (depth >= 3 || isMate) ? first.textContent : null;
    }).then(handle => handle.jsonValue());
    await page.bringToFront();
    const ply = (await moves(page)).length;
    await page.fill('#typed-move', best);
    await page.press('#typed-move', 'Enter');
    await played(page, ply + 2);
    count += 1;
  }
  const result = await verdict(page);
  assert.ok(count >= 10, `${count} moves are not a whole game`);
  assert.equal(result, 'Checkmate · You win · 1-0');
  print(`a whole game: ${count} moves, ${result}`);
  await screenshot(page, 'whole-game');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#to-pgn')]);
  await download.saveAs(join(pictures, 'whole-game.pgn'));
  await second.close();

  await checkLines(page, { address: server.address, socket: () => sockets.get(page), screenshot });

  await checkAnalysis(page, { address: server.address, program, screenshot });

  // The list of games, and the lab while a run grows.
  await page.goto(`${server.address}#games`);
  await page.locator('#game-list li').nth(3).waitFor();
  // The result comes first.
  await page.locator('#game-list li', { hasText: /^1-0 Checkmate · 1 moveWhite against Batch First/ }).waitFor();
  await page.locator('#game-list li', { hasText: /^In progress \d+ moves/ }).first().waitFor();
  await page.getByText('White against Maia 1500').waitFor();
  await screenshot(page, 'games');
  await page.goto(`${server.address}#lab`);
  await page.getByText('step 200 of 400').waitFor();
  appendFileSync(server.journal, trainingLine(240));
  await page.getByText('step 240 of 400').waitFor();
  await reach(page, page.locator('#run-list button'));
  await page.evaluate(() => { document.querySelector('#run-list button').isOld = true; });
  await page.waitForFunction(() => !document.querySelector('#run-list button').isOld);
  assert.match(await focused(page), /^run-list example/);
  await screenshot(page, 'lab');
  await page.locator('#match-list button').click();
  await page.getByText('6 games').waitFor();
  await screenshot(page, 'match');
  print('the lab follows a run and counts a match');
  await context.close();

  // A phone: one column, nothing wider than the screen, moves by touch.
  context = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true, colorScheme: 'dark' });
  const phone = context.pages()[0] ?? await context.newPage();
  watch(phone);
  const fits = async view => {
    const { wide, width } = await phone.evaluate(() => ({ wide: document.documentElement.scrollWidth, width: innerWidth }));
    assert.ok(wide <= width, `${view}: ${wide} of ${width} pixels`);
  };
  await startGame(phone);
  await tap(phone, 'd2');
  await tap(phone, 'd4');
  await played(phone, 2);
  // A move can be typed on a narrow page.
  await phone.fill('#typed-move', 'c4');
  await phone.press('#typed-move', 'Enter');
  await played(phone, 4);
  await fits('game');
  await screenshot(phone, 'phone-game');
  await phone.click('#to-analysis');
  await phone.click('#think');
  await phone.locator('#thoughts li').first().waitFor();
  await phone.waitForTimeout(1500);
  await fits('analysis');
  await screenshot(phone, 'phone-analysis');
  await phone.click('#think');
  await phone.click('#load-open');
  await phone.fill('#load-text', '[White "Ann"]\n[Black "Bea"]\n\n1. f3 e5 2. g4 $4 {[%eval #-1] Why?} (2. e4 {[%eval -0.5]} Nf6 3. Nc3 (3. d3 d5)) Qh4# 0-1');
  await fits('load');
  await phone.click('#load-form button[type=submit]');
  await phone.locator('#analysis-moves [data-node]').nth(8).waitFor();
  await phone.click('#review-start');
  await phone.locator('#summary').waitFor();
  await fits('game analysis');
  await screenshot(phone, 'phone-game-analysis');
  for (const view of ['games', 'lab']) {
    await phone.goto(`${server.address}#${view}`);
    await phone.waitForTimeout(500);
    await fits(view);
    await screenshot(phone, `phone-${view}`);
  }
  print('a phone: moves by touch, nothing is wider than the screen');

  assert.deepEqual(problems, []);
  print('no error in the browser, no request elsewhere');
} catch (error) {
  await describe(context?.pages() ?? []);
  throw error;
} finally {
  await context?.close();
  await server.end();
}
