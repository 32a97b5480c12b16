// Tests the page in Firefox: a game, an analysis, a person's hour, the lists, and axe-core on each.
//
//   node firefox.mjs PROGRAM PICTURES
//
// needs Debian's Firefox (FIREFOX=path, or /usr/bin/firefox-esr).

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { audit } from './audit.mjs';
import { Server, click, drag, moves, openFirefox, played, print, setField, startGame as startGameAt, verdict, watch } from './harness.mjs';
import { personsHour } from './person.mjs';

const [program, pictures] = process.argv.slice(2);
const server = new Server(program);
await server.start();
const problems = [];
const screenshot = (page, name) => page.screenshot({ path: join(pictures, `firefox-${name}.png`) });
const startGame = (page, choose) => startGameAt(page, server.address, choose);
const context = await openFirefox({ viewport: { width: 1280, height: 860 } });
const page = context.pages()[0] ?? await context.newPage();
try {
  watch(page, server, problems);
  await page.goto(server.address);
  await page.locator('#opponent:enabled').waitFor();
  await page.locator('cg-board piece').first().waitFor();
  print(`Firefox ${context.browser()?.version() ?? ''}: ready after ${await page.evaluate(() => Math.round(performance.now()))} ms`);
  await audit(page, 'new game');

  // A game by clicking, dragging and typing; a reload keeps it.
  await startGame(page);
  await click(page, 'e2');
  await click(page, 'e4');
  await played(page, 2);
  await drag(page, 'g1', 'f3');
  await played(page, 4);
  await page.fill('#typed-move', 'Nc3');
  await page.press('#typed-move', 'Enter');
  await played(page, 6);
  const before = await moves(page);
  await page.reload();
  await played(page, 6);
  assert.deepEqual(await moves(page), before);
  await page.keyboard.press('h');
  await page.locator('#advice', { hasText: /^Hint: \S/ }).waitFor();
  await audit(page, 'game');
  await screenshot(page, 'game');
  await page.keyboard.press('z');
  await page.waitForFunction(() => document.querySelectorAll('#moves button').length === 4);
  await page.click('#resign');
  await page.click('#confirm button[value=yes]');
  await page.locator('#verdict.over').waitFor();
  assert.equal(await verdict(page), 'You resigned · 0-1');
  print(`a game: ${before.join(' ')}; ${await verdict(page)}`);

  // A premove and a promotion.
  await startGame(page, async () => {
    await page.selectOption('#limit', 'time');
    await setField(page, 'amount', 4);
  });
  await drag(page, 'd2', 'd4');
  await played(page, 1);
  await drag(page, 'b1', 'c3');
  await played(page, 3);
  assert.equal((await moves(page))[2], 'Nc3');
  await startGame(page, async () => {
    await page.selectOption('#from', 'fen');
    await page.fill('#fen', '7k/P7/6K1/8/8/8/8/8 w - - 0 1');
  });
  await click(page, 'a7');
  await click(page, 'a8');
  await page.locator('#promotion button[value=q]').click();
  await page.locator('#verdict.over').waitFor();
  assert.equal(await verdict(page), 'Checkmate · You win · 1-0');
  print(`a premove, a promotion: ${await verdict(page)}`);

  // An analysis of the game.
  await page.click('#to-analysis');
  await page.locator('#analysis-moves [data-node]').first().waitFor();
  await page.evaluate(() => document.querySelector('[data-step=first]').click());
  await page.click('#think');
  await page.locator('#thoughts li').first().waitFor();
  await page.waitForTimeout(1000);
  await audit(page, 'analysis');
  await screenshot(page, 'analysis');
  await page.click('#think');
  await personsHour(page, { address: server.address, program, screenshot });

  await page.goto(`${server.address}#games`);
  await page.locator('#game-list li').nth(2).waitFor();
  await audit(page, 'games');
  await screenshot(page, 'games');
  await page.goto(`${server.address}#lab`);
  await page.getByText('step 200 of 400').waitFor();
  await audit(page, 'lab');
  assert.deepEqual(problems, []);
  print('an analysis, the games and the lab; axe-core has no serious finding');
} catch (error) {
  await page.screenshot({ path: join(pictures, 'failed-firefox.png') }).catch(() => {});
  throw error;
} finally {
  await context.close().catch(() => {});
  await server.end();
}
