// Tests that everybody can use the page: with a keyboard, a screen reader, a phone both ways, and after mistakes.
//
//   node everybody.mjs PROGRAM PICTURES
//
// starts `PROGRAM serve` and headless Chromium, as check.mjs does.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { audit } from './audit.mjs';
import { Server, drag, launchChromium, load, moves, newContext, played, print, setField, startGame as startGameAt, tap, watch } from './harness.mjs';

const [program, pictures] = process.argv.slice(2);
const server = new Server(program);
await server.start();
const problems = [];
const startGame = (page, choose) => startGameAt(page, server.address, choose);
const screenshot = (page, name) => page.screenshot({ path: join(pictures, `${name}.png`) });
const text = (page, id) => page.locator(`#${id}`).textContent();
const go = (page, view) => page.evaluate(view => { location.hash = view; }, view);

async function newPage(context) {
  const page = await context.newPage();
  watch(page, server, problems);
  return page;
}

// Axe-core on every view, in the light and the dark colours; every view has a title and one main heading.
async function auditViews(page) {
  const titles = [];
  const check = async view => {
    for (const colorScheme of ['dark', 'light']) {
      await page.emulateMedia({ colorScheme });
      titles.push(await audit(page, `${view}, ${colorScheme}`));
    }
  };
  await page.goto(`${server.address}#new`);
  await page.locator('#opponent:enabled').waitFor();
  for (const opponent of ['limit', 'time', 'human', 'rating']) {
    await page.selectOption('#opponent', opponent);
    await check(`new game, ${opponent}`);
  }
  await startGame(page);
  await drag(page, 'e2', 'e4');
  await played(page, 2);
  await page.fill('#typed-move', 'Nf6');
  await page.press('#typed-move', 'Enter');
  await page.locator('#typed-move-error').waitFor();
  await check('game');
  await page.click('#resign');
  await check('question');
  await page.click('#confirm button[value=yes]');
  await page.locator('#verdict.over').waitFor();
  await check('finished game');
  await page.click('#to-analysis');
  await page.locator('#analysis-moves [data-node]').first().waitFor();
  await check('analysis');
  await page.click('#think');
  await page.locator('#thoughts li').first().waitFor();
  await page.waitForTimeout(500);
  await check('running analysis');
  await page.click('#think');
  await page.click('#setup-fold summary');
  await page.click('#setup-edit');
  await check('board editor');
  await page.click('#editor-close');
  assert.equal(await load(page, '1. e4 e5 *\n\n1. d4 d5 *'), 'list');
  await check('list of games');
  await page.keyboard.press('Escape');
  assert.match(await load(page, 'hello'), /is not a game/);
  await check('text that is not a game');
  await page.keyboard.press('Escape');
  for (const [button, name] of [['help', 'keyboard help'], ['preferences-open', 'preferences']]) {
    await page.click(`#${button}`);
    await check(name);
    await page.keyboard.press('Escape');
  }
  await go(page, 'games');
  await page.locator('#game-list a').first().waitFor();
  await check('games');
  await go(page, 'lab');
  await page.locator('.charts svg').first().waitFor();
  await check('run');
  await page.locator('#match-list button').click();
  await page.getByText('Latest games').waitFor();
  await check('match');
  await server.kill();
  await page.locator('#offline', { hasText: 'Offline' }).waitFor();
  await check('offline');
  await server.start(new URL(server.address).port);
  await page.locator('#offline').waitFor({ state: 'hidden' });
  print(`axe-core: no serious finding on ${titles.length / 2} pages in two colour schemes; titles: ${[...new Set(titles)].join(', ')}`);
}

// A game without a mouse: the board by its cursor, the rest by Tab; the live region tells what happens.
async function playByKeyboard(page) {
  await page.goto('about:blank');
  await page.goto(`${server.address}#new`);
  await page.locator('#opponent:enabled').waitFor();
  const focused = () => page.evaluate(() => document.activeElement.id);
  const tabTo = async (id, key = 'Tab') => {
    for (let count = 0; count < 60; count += 1) {
      if (await focused() === id) return;
      await page.keyboard.press(key);
    }
    assert.fail(`${id} is not reached with ${key}`);
  };
  await tabTo('opponent');
  await page.keyboard.press('Home');
  await tabTo('rating');
  await page.keyboard.press('Home');
  await tabTo('start-game');
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.notEqual(outline, 'none', 'the focus is not visible');
  await page.keyboard.press('Enter');
  await page.locator('#game').waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await tabTo('board');
  await page.locator('#board .cursor').waitFor();
  assert.match(await text(page, 'position'), /^White to move. White: king e1, queen d1, rooks a1 h1/);
  await page.keyboard.press('Enter');
  assert.equal(await text(page, 'spoken'), 'e2 white pawn chosen');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  assert.equal(await text(page, 'spoken'), 'e4 empty');
  await page.keyboard.press('Enter');
  await played(page, 2);
  const [own, reply] = await moves(page);
  assert.equal(own, 'e4');
  assert.equal(await text(page, 'spoken'), `Batch First plays ${reply}. Your move.`);
  await page.keyboard.press('p');
  assert.match(await text(page, 'spoken'), /^White to move. White: king e1, .*pawns e4 a2 b2 c2 d2 f2 g2 h2. Black: /);
  await tabTo('take-back');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('#moves button').length === 0);
  print(`a game by keyboard: ${own} ${reply}, the live region told it`);
}

// Faults that the page once had.
async function checkFaults(page) {
  // Before the connection is there the page says so, and nothing can be chosen.
  const lonely = await page.context().newPage();
  await lonely.routeWebSocket(/socket/, () => {});
  await lonely.goto(server.address);
  for (const id of ['opponent', 'analysis-system']) {
    assert.deepEqual(await lonely.evaluate(id => [document.getElementById(id).disabled, document.getElementById(id).textContent], id), [true, 'Connecting…'], id);
  }
  assert.ok(await lonely.locator('#start-game').isDisabled());
  await lonely.close();
  await page.bringToFront();

  // A wrong choice starts no game; the error is at its field and names the limit.
  const refused = async (choose, id, words) => {
    await page.goto('about:blank');
    await page.goto(`${server.address}#new`);
    await page.locator('#opponent:enabled').waitFor();
    await choose();
    await page.click('#start-game');
    const error = page.locator(`#${id}-error`);
    await error.waitFor();
    assert.match(await error.textContent(), words);
    assert.equal(await page.getAttribute(`#${id}`, 'aria-describedby'), `${id}-error`);
    assert.ok(await page.locator('#game').isHidden());
  };
  const limit = amount => async () => {
    await page.selectOption('#opponent', 'limit');
    await page.fill('#amount', amount);
  };
  await refused(async () => page.selectOption('#from', 'fen'), 'fen', /^That is not a valid FEN: it is empty\.$/);
  await screenshot(page, 'new-game-error');
  await refused(async () => {
    await page.selectOption('#from', 'fen');
    await page.fill('#fen', 'rubbish');
  }, 'fen', /^That is not a valid FEN: /);
  const pgn = text => async () => {
    await page.selectOption('#from', 'pgn');
    await page.fill('#pgn', text);
  };
  await refused(pgn(''), 'pgn', /no game/);
  await refused(pgn('https://lichess.org/abcdefgh'), 'pgn', /it is a link/);
  await refused(pgn('1. e4 e5 2. Sf3'), 'pgn', /English letters/);
  await refused(pgn('1. e4 e5 *\n\n1. d4 d5 *'), 'pgn', /several games/);
  await refused(pgn(`{${'long '.repeat(10_000)}} 1. e4`), 'pgn', /at most 48 KiB/);
  await refused(limit('2000000'), 'amount', /1 to 1,000,000 positions/);
  await refused(limit('1.5'), 'amount', /1 to 1,000,000 positions/);
  await refused(async () => {
    await page.selectOption('#from', '960');
    await setField(page, 'chess960-number', 3.5);
  }, 'chess960-number', /0 to 959/);
  await refused(limit(''), 'amount', /1 to 1,000,000 positions/);
  await refused(async () => {
    await page.selectOption('#opponent', 'time');
    await page.selectOption('#time', 'clock');
    await page.selectOption('#clock', '');
  }, 'time', /^Choose a clock/);

  // Moves that are not legal are refused at the field, and stay there to be mended.
  await startGame(page, async () => page.check('[name=side][value=white]', { force: true }));
  await page.fill('#typed-move', 'Nf6');
  await page.press('#typed-move', 'Enter');
  await page.locator('#typed-move-error', { hasText: 'Nf6 is not legal here.' }).waitFor();
  assert.equal(await page.inputValue('#typed-move'), 'Nf6');
  await page.fill('#typed-move', 'Nf3');
  assert.ok(await page.locator('#typed-move-error').isHidden());
  await page.press('#typed-move', 'Enter');
  await played(page, 2);
  assert.equal(await page.inputValue('#typed-move'), '');
  // An error does not outlive its game, and looking back says where the moves are made.
  await page.fill('#typed-move', 'Ng8');
  await page.press('#typed-move', 'Enter');
  await page.locator('#typed-move-error', { hasText: 'Ng8 is not legal here.' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Home');
  await page.locator('#verdict', { hasText: 'Your move (in the latest position)' }).waitFor();
  await page.click('#resign');
  await page.click('#confirm button[value=yes]');
  await page.locator('#typed-move-error').waitFor({ state: 'hidden' });
  assert.equal(await page.inputValue('#typed-move'), '');

  // A rating that was chosen is shown during the game.
  await page.goto('about:blank');
  await page.goto(`${server.address}#new`);
  await page.locator('#opponent:enabled').waitFor();
  await page.selectOption('#opponent', 'rating');
  await setField(page, 'rating', 0);
  const rating = await page.locator('#rating-text b').textContent();
  await page.check('[name=side][value=white]', { force: true });
  await page.click('#start-game');
  await page.locator('#top .who small', { hasText: new RegExp(`^${rating} · `) }).waitFor();
  await startGame(page, async () => setField(page, 'amount', 1000));
  await page.locator('#top .who small', { hasText: /1,000 positions a move$/ }).waitFor();

  // A hint is an arrow and a text; a draw is declined in the opening.
  await page.keyboard.press('Escape');
  await page.keyboard.press('h');
  await page.locator('#advice', { hasText: /^Hint: \S/ }).waitFor();
  await page.locator('cg-container svg line').first().waitFor({ state: 'attached' });
  await screenshot(page, 'hint');
  await page.click('#offer-draw');
  await page.locator('#advice', { hasText: 'Batch First declines the draw.' }).waitFor();

  // Nothing to take back while only the engine has moved.
  await startGame(page, async () => page.check('[name=side][value=black]', { force: true }));
  await played(page, 1);
  await page.waitForFunction(() => document.getElementById('verdict').textContent.includes('Your move'));
  assert.ok(await page.locator('#take-back').isDisabled());

  // A premove does not wait while earlier moves are looked at.
  await startGame(page, async () => {
    await page.check('[name=side][value=white]', { force: true });
    await page.selectOption('#limit', 'time');
    // Long enough for the premove, however busy the machine is.
    await page.fill('#amount', '10');
  });
  await drag(page, 'd2', 'd4');
  await played(page, 1);
  await drag(page, 'b1', 'c3');
  await page.locator('square.current-premove').first().waitFor();
  await page.keyboard.press('Home');
  await page.waitForFunction(() => document.querySelector('#moves [aria-current]') === null);
  await played(page, 3);
  assert.equal((await moves(page))[2], 'Nc3');
  print('mended faults: connecting, errors at their fields, takeback, hint and draw offer, a premove while looking back');
}

// A phone in both directions: everything fits, the board is large and whole, and every control can be reached.
async function checkPhones() {
  for (const [width, height] of [[360, 740], [390, 844], [412, 915], [740, 360], [844, 390], [915, 412], [667, 375]]) {
    const context = await newContext(browser, { viewport: { width, height }, deviceScaleFactor: 2, hasTouch: true, isMobile: true, colorScheme: 'light' });
    const phone = await newPage(context);
    const name = `${width}x${height}`;
    await startGame(phone);
    await phone.evaluate(() => scrollTo(0, 0));
    await tap(phone, 'd2');
    await tap(phone, 'd4');
    await played(phone, 2);
    const sizes = [];
    for (const view of ['game', 'analyse', 'editor']) {
      if (view === 'analyse') {
        await phone.locator('#to-analysis').tap();
        await phone.locator('#think').tap();
        await phone.locator('#thoughts li').first().waitFor();
        await phone.waitForTimeout(300);
      } else if (view === 'editor') {
        await phone.locator('#think').tap();
        await phone.locator('#setup-fold summary').tap();
        await phone.locator('#setup-edit').tap();
        await phone.locator('#palette').waitFor();
        // A refused position: its error has to fit as well.
        await phone.locator('#editor-empty').tap();
        await phone.locator('#editor-done').tap();
        await phone.locator('#editor-done-error', { hasText: 'the board is empty' }).waitFor();
        await phone.evaluate(() => scrollTo(0, 0));
      }
      // The board has its new size.
      await phone.waitForFunction(() => {
        const [place, drawn] = ['#board', '#board cg-board'].map(name => document.querySelector(name).getBoundingClientRect().width);
        return place - drawn < 8;
      });
      const layout = await phone.evaluate(() => {
        const board = document.querySelector('cg-board').getBoundingClientRect();
        const controls = [...document.querySelectorAll('main button, main select, main input, main a')]
          .filter(control => control.checkVisibility() && !control.disabled && !control.closest('.moves, .thoughts, #position'));
        const unreachable = controls.filter(control => {
          control.scrollIntoView({ block: 'center' });
          // A box is ticked by its label.
          const { x, y, width, height } = (control.type === 'checkbox' ? control.labels[0] : control).getBoundingClientRect();
          const top = document.elementFromPoint(x + width / 2, y + height / 2);
          return !top || !(control.contains(top) || top.contains(control) || control.labels?.[0]?.contains(top)) || height < 24;
        }).map(control => control.id || control.textContent);
        scrollTo(0, 0);
        return { board: [board.left, board.top, board.right, board.bottom], scrollY, wide: document.documentElement.scrollWidth, count: controls.length, unreachable };
      });
      const [left, top, right, bottom] = layout.board;
      assert.ok(layout.wide <= width, `${name} ${view}: ${layout.wide} pixels wide`);
      assert.ok(left >= 0 && top >= 0 && right <= width && bottom <= height, `${name} ${view}: the board ends at ${right}, ${bottom}`);
      assert.ok(right - left >= 0.8 * Math.min(width, height), `${name} ${view}: the board has ${right - left} pixels`);
      assert.deepEqual(layout.unreachable, [], `${name} ${view}`);
      sizes.push(`${Math.round(right - left)}`);
      await screenshot(phone, `phone-${name}-${view}`);
    }
    await phone.locator('#editor-close').tap();
    assert.ok(await phone.locator('#editor-done-error').isHidden());
    // The address of a view is not the place of its panel: the page stays at its top.
    for (const view of ['play', 'analyse', 'games', 'lab', 'new']) {
      await go(phone, view);
      await phone.waitForTimeout(150);
      assert.equal(await phone.evaluate(() => scrollY), 0, `${name}: #${view} jumps`);
      if (view === 'games' || view === 'new') await screenshot(phone, `phone-${name}-${view}`);
    }
    print(`${name}: the board has ${sizes.join(' and ')} pixels, nothing is wider than the screen, every control is reached`);
    await context.close();
  }
}

const browser = await launchChromium();
const context = await newContext(browser, { viewport: { width: 1280, height: 860 }, colorScheme: 'light' });
try {
  const page = await newPage(context);
  await auditViews(page);
  await playByKeyboard(page);
  await checkFaults(page);
  await context.close();
  await checkPhones();
  assert.deepEqual(problems, []);
} catch (error) {
  await browser.contexts().at(-1)?.pages()[0]?.screenshot({ path: join(pictures, 'failed-everybody.png') }).catch(() => {});
  throw error;
} finally {
  await browser.close();
  await server.end();
}
