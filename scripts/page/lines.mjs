// Tests the lines of the analysis: late answers, positions that are refused, a running search with its inside, clicks on moves of lines,
// and the chances of ConvChess's moves.

import assert from 'node:assert/strict';
import { chooseBatch, focused, reach, setField, treeHas, treeMoves, print } from './harness.mjs';

async function lateAnswers(page, { address, socket }) {
  // A late answer and a changed setting do not replace what the visitor is typing.
  await page.goto(`${address}#analyse`);
  await page.evaluate(() => document.querySelector('.setup').open = true);
  await page.waitForFunction(() => document.getElementById('setup-fen').value !== '');
  const late = socket().waitForEvent('framereceived', { predicate: ({ payload }) => String(payload).includes('"type":"position"') });
  await page.evaluate(() => {
    document.getElementById('setup-start').click();
    document.getElementById('setup-fen').value = 'half a FEN';
    document.getElementById('setup-fen').dispatchEvent(new Event('input', { bubbles: true }));
    document.getElementById('lines').dispatchEvent(new Event('change'));
  });
  await late;
  await page.waitForTimeout(100);
  assert.equal(await page.inputValue('#setup-fen'), 'half a FEN');
  // An invalid position leaves the board as it was and usable.
  await page.click('#setup button[type=submit]');
  await page.locator('#setup-fen-error').waitFor();
  const answered = socket().waitForEvent('framereceived', { predicate: ({ payload }) => String(payload).includes('"type":"position"') });
  await page.evaluate(() => document.querySelector('[data-step=first]').click());
  await answered;
  // The error of an older request does not remove the position that is shown now.
  const newer = '8/8/4k3/8/8/3QK3/8/8 w - - 0 1';
  const refused = socket().waitForEvent('framereceived', { predicate: ({ payload }) => String(payload).includes('"type":"error"') });
  await page.waitForTimeout(200);
  await page.evaluate(newer => {
    const [form, field] = [document.getElementById('setup'), document.getElementById('setup-fen')];
    const { send } = WebSocket.prototype;
    WebSocket.prototype.send = function (text) {
      WebSocket.prototype.send = send;
      this.send(text);
      field.value = newer;
      form.requestSubmit();
    };
    field.value = 'no position';
    form.requestSubmit();
  }, newer);
  await refused;
  await page.waitForTimeout(500);
  assert.equal(await page.inputValue('#setup-fen'), newer);
  await page.waitForFunction(() => document.querySelectorAll('#board cg-board piece').length === 3);
}

async function castlingRights(page) {
  // Castling rights that the pieces do not have are dropped, and the page says so.
  await setField(page, 'setup-fen', '4k3/8/8/8/8/8/8/4K2R w KQkq - 0 1');
  await page.click('#setup button[type=submit]');
  await page.waitForFunction(() => /^The castling rights [^`]*\.$/.test(document.getElementById('toast').textContent));
  const rook = '4k3/8/8/8/8/8/8/4K2R w K - 0 1';
  assert.equal(await page.inputValue('#setup-fen'), rook);
  // The address holds the position.
  await page.waitForFunction(() => location.hash.startsWith('#analyse/fen/4k3/'));
  await page.reload();
  await page.waitForFunction(rook => document.getElementById('setup-fen').value === rook, rook);
  await page.click('#setup-fold summary');
}

async function runningSearch(page, { screenshot }) {
  // An analysis runs: depth and evaluations grow, the queue is drawn, the board has arrows.
  await setField(page, 'setup-fen', 'r1bq1rk1/pp2bppp/2n1pn2/2pp4/3P4/2PBPN2/PP1N1PPP/R1BQ1RK1 w - - 0 8');
  await page.click('#setup button[type=submit]');
  await page.evaluate(() => { document.querySelector('.setup').open = false; document.activeElement.blur(); });
  await page.selectOption('#lines', '3');
  await chooseBatch(page, 32);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press(' ');
  await page.waitForFunction(() => document.querySelectorAll('#thoughts li').length === 3
    && parseInt(document.querySelector('#thoughts small').textContent, 10) >= 4
    && document.querySelector('#f-evaluations').textContent !== '');
  // The inside of the search is folded away at first.
  assert.ok(await page.locator('#inside summary').isVisible());
  assert.ok(await page.locator('#bins').isHidden());
  await page.click('#inside summary');
  await reach(page, page.locator('#thoughts button').first());
  const figure = id => page.locator(`#f-${id}`).textContent();
  const early = await figure('evaluations');
  await page.waitForFunction(early => document.querySelector('#f-evaluations').textContent !== early, early);
  await page.waitForTimeout(1500);
  assert.match(await focused(page), /^thoughts /);
  await page.evaluate(() => document.activeElement.blur());
  // The queue's histogram has ink.
  await page.waitForFunction(() => {
    const canvas = document.getElementById('bins');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return data.filter((value, index) => index % 4 === 3 && value > 0).length > 500;
  });
  await page.locator('cg-container svg line').first().waitFor({ state: 'attached' });
  // A new request dims the old answer at once, however soon it follows the last one.
  const prompt = await page.evaluate(async () => {
    const [form, lines] = [document.querySelector('#setup'), document.querySelector('#thoughts')];
    for (let request = 0; request < 20; request += 1) {
      form.requestSubmit();
      if (!lines.classList.contains('stale')) return false;
      const deadline = performance.now() + 60_000;
      while (lines.classList.contains('stale') && performance.now() < deadline) await new Promise(resolve => setTimeout(resolve, 1));
    }
    return true;
  });
  assert.ok(prompt, 'lines of the previous position are shown for this one');
  await page.waitForTimeout(4000);
  print(`an analysis: depth ${await figure('depth')}, ${await figure('evaluations')} evaluations, ${await figure('speed')} positions a second, positions a batch ${await figure('batch')}, queue entries ${await figure('queue')}`);
  await screenshot(page, 'analysis');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(300);
  await screenshot(page, 'analysis-dark');
  await page.emulateMedia({ colorScheme: 'light' });
}

async function movesOfLines(page) {
  // A click on a move of a line adds the moves up to it; another variation takes nothing away.
  await page.waitForFunction(() => {
    // The first line may have a single move for a moment.
    const second = document.querySelectorAll('#thoughts:not(.stale) li:first-child button')[1];
    second?.click();
    return Boolean(second);
  });
  await treeHas(page, 2);
  // The list of moves is open beside the lines.
  for (const list of ['#analysis-moves [data-node]', '#thoughts li']) assert.ok(await page.locator(list).last().isVisible(), list);
  const kept = await treeMoves(page);
  await page.evaluate(() => document.querySelector('[data-step=first]').click());
  await page.waitForFunction(first => {
    if (document.querySelector('#thoughts').classList.contains('stale')) return false;
    const begins = [...document.querySelectorAll('#thoughts li')].map(line => line.querySelector('button'));
    const other = begins.find(button => button && !first.startsWith(button.textContent));
    other?.click();
    return Boolean(other);
  }, kept[0]);
  await treeHas(page, 3);
  const grown = await treeMoves(page);
  assert.ok(kept.every(move => grown.includes(move)), `${kept} became ${grown}`);
}

async function chances(page, { screenshot }) {
  // ConvChess: move probabilities and heat map.
  await page.selectOption('#analysis-system', 'convchess');
  await page.locator('#chance-list li').first().waitFor();
  await page.locator('square[class*=heat-]').first().waitFor();
  await screenshot(page, 'chances');
  await page.keyboard.press(' ');
}

/* `tools`: { address, socket(): that of the page, screenshot } */
export async function checkLines(page, tools) {
  await lateAnswers(page, tools);
  await castlingRights(page);
  await runningSearch(page, tools);
  await movesOfLines(page);
  await chances(page, tools);
}
