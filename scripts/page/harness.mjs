// What the checks of the page share: the program with examples for the lab, the browsers, and moves on the board.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { chromium, firefox } from 'playwright-core';

export const TIMEOUT = 120_000;
export const print = text => process.stdout.write(`${text}\n`);

// --- The program

/* A training run and a match, in their file formats */
function writeExamples(runs, matches) {
  mkdirSync(join(runs, 'example'), { recursive: true });
  mkdirSync(join(matches, 'example'), { recursive: true });
  const journal = join(runs, 'example', 'metrics.jsonl');
  const lines = [line({ kind: 'start', step: 0, steps: 400, positions: 500000, backend: 'native', revision: 'example' })];
  for (let step = 1; step <= 200; step += 1) lines.push(trainingLine(step));
  writeFileSync(journal, lines.join(''));
  writeFileSync(join(matches, 'example', 'match.json'), JSON.stringify({ format: 1, settings: ['Gauntlet', '2 openings', 'Rules', 'New: internal', 'Old: internal'] }));
  writeFileSync(join(matches, 'example', 'games.jsonl'), [2, 2, 1, 0, 2, 1].map((points, number) => line({
    number, white: number % 2, black: 1 - number % 2, opening: 0, white_half_points: points, ending: 'checkmate', fault: null, plies: 60, seconds: 3, pgn: '',
  })).join(''));
  return journal;
}

const line = value => `${JSON.stringify(value)}\n`;
/* A line of the training journal */
export const trainingLine = step => line({ kind: 'train', step, samples: 1024 * step, loss: 0.4 + 2 / step, tau: 1 - 1 / Math.sqrt(step), positions_per_second: 4700 });

/* `PROGRAM serve` with a new file of games. `maia`: a folder of Maia networks, if any; `more`: further arguments */
export class Server {
  constructor(program, maia, more = []) {
    this.program = program;
    this.folder = mkdtempSync(join(tmpdir(), 'batch-first-page-'));
    const [runs, matches] = [join(this.folder, 'runs'), join(this.folder, 'matches')];
    this.journal = writeExamples(runs, matches);
    this.arguments = ['--games', join(this.folder, 'games.sqlite'), '--runs', runs, '--matches', matches, '--net', 'fast', ...(maia ? ['--maia', maia] : []), ...more];
  }

  /* Starts the program and resolves to its address */
  async start(port = 0) {
    this.process = spawn(this.program, ['serve', '--listen', `127.0.0.1:${port}`, ...this.arguments], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.address = await new Promise((resolve, reject) => {
      let text = '';
      this.process.stdout.on('data', data => {
        text += data;
        if (text.includes('\n')) resolve(text.trim());
      });
      this.process.on('exit', code => reject(new Error(`the server ended with ${code}`)));
    });
    return this.address;
  }

  async kill(signal = 'SIGKILL') {
    const gone = new Promise(resolve => this.process.on('exit', resolve));
    this.process.kill(signal);
    await gone;
  }

  /* Ends the program and deletes its files */
  async end() {
    await this.kill();
    rmSync(this.folder, { recursive: true });
  }
}

// --- The browsers

const profiles = [];
process.on('exit', () => profiles.forEach(profile => rmSync(profile, { recursive: true, force: true })));
export function newProfile() {
  const profile = mkdtempSync(join(tmpdir(), 'batch-first-browser-'));
  profiles.push(profile);
  return profile;
}

const CHROMIUM = {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
};

/* Chromium with a profile that outlives it */
export async function openChromium(options, profile) {
  const opened = await chromium.launchPersistentContext(profile, { ...CHROMIUM, ...options });
  opened.setDefaultTimeout(TIMEOUT);
  return opened;
}

/* Chromium for several visitors, each with a context of its own */
export const launchChromium = () => chromium.launch(CHROMIUM);
export async function newContext(browser, options) {
  const opened = await browser.newContext(options);
  opened.setDefaultTimeout(TIMEOUT);
  return opened;
}

/* Debian's Firefox, over WebDriver BiDi */
export async function openFirefox(options) {
  const opened = await firefox.launchPersistentContext(newProfile(), {
    channel: 'moz-firefox',
    executablePath: process.env.FIREFOX ?? '/usr/bin/firefox-esr',
    headless: true,
    ...options,
  });
  opened.setDefaultTimeout(TIMEOUT);
  return opened;
}

/* Collects errors of a page, and requests elsewhere */
export function watch(page, server, problems) {
  page.on('pageerror', error => {
    // Firefox tells of the style sheets that playwright's screenshots and axe-core try to insert.
    if (!/inline style \(style-src-elem\)/.test(String(error))) problems.push(`script: ${error}`);
  });
  page.on('console', message => {
    // The test kills the server: errors of the connection are expected.
    if (message.type() === 'error' && !/ERR_CONNECTION_|ERR_EMPTY_RESPONSE|WebSocket/.test(message.text())) problems.push(`console: ${message.text()}`);
  });
  page.on('request', request => {
    if (!request.url().startsWith(server.address.slice(0, -1)) && !/^(data|blob|about|chrome|resource):/.test(request.url())) {
      problems.push(`a request elsewhere: ${request.url()}`);
    }
  });
}

// --- The page

// The centre of a square on the screen.
export async function square(page, name) {
  // The page may be drawing the board anew: the board and its orientation are read at one moment.
  const found = await page.waitForFunction(() => {
    const { x, y, width, height } = document.querySelector('#board cg-board')?.getBoundingClientRect() ?? {};
    return width > 0 && { box: { x, y, width, height }, isBlackBelow: !!document.querySelector('.cg-wrap.orientation-black') };
  });
  const { box, isBlackBelow } = await found.jsonValue();
  const [file, rank] = ['abcdefgh'.indexOf(name[0]), Number(name[1]) - 1];
  const [x, y] = isBlackBelow ? [7 - file, rank] : [file, 7 - rank];
  return { x: box.x + (x + 0.5) * box.width / 8, y: box.y + (y + 0.5) * box.height / 8 };
}

export async function click(page, name) {
  const { x, y } = await square(page, name);
  await page.mouse.click(x, y);
}

export async function tap(page, name) {
  const { x, y } = await square(page, name);
  await page.touchscreen.tap(x, y);
}

/* `isFree`: pieces may go everywhere, as in the board editor */
export async function drag(page, from, to, isFree = false) {
  const [one, other] = [await square(page, from), await square(page, to)];
  await page.mouse.move(one.x, one.y);
  await page.mouse.down();
  // Only when the server has said what is legal, the piece can go somewhere.
  if (!isFree) await page.locator('#board square.move-dest, #board square.premove-dest').first().waitFor();
  await page.mouse.move(other.x, other.y, { steps: 4 });
  // The board takes up a drag when it draws the next frame; a piece that is let go before is only chosen.
  await page.locator('#board piece.dragging').waitFor();
  await page.mouse.up();
}

export const moves = page => page.locator('#moves button:not([disabled])').allTextContents();
export const played = (page, count) => page.waitForFunction(count => document.querySelectorAll('#moves button:not([disabled])').length >= count
  || document.querySelector('#verdict.over'), count);
export const verdict = page => page.locator('#verdict').textContent();

/* Sets a field in one step. `fill` appends to a field of numbers in Firefox, and to one that the page sets meanwhile */
export const setField = (page, id, value) => page.locator(`#${id}`).evaluate((field, value) => {
  field.value = value;
  field.dispatchEvent(new Event('input', { bubbles: true }));
}, value);

/* Opens the form for a new game with default choices, lets `choose` change them, and starts the game */
export async function startGame(page, address, choose = async () => {}) {
  await page.goto(`${address}#new`);
  await page.locator('#opponent:enabled').waitFor();
  // The form keeps the choices of an earlier game.
  await page.selectOption('#from', 'start');
  await page.selectOption('#clock', '');
  await page.selectOption('#opponent', 'limit');
  await page.selectOption('#engine', 'batch-first');
  await page.selectOption('#limit', 'nodes');
  await page.selectOption('#threads', '');
  await setField(page, 'amount', 40);
  await choose();
  await page.click('#start-game');
  await page.locator('#game').waitFor();
}

/* The list of the element with the keyboard focus, and its text */
export const focused = page => page.evaluate(() => `${document.activeElement.closest('[id]').id} ${document.activeElement.textContent}`);

/* Moves the focus by the keyboard, so that it is visible */
export async function reach(page, locator) {
  await page.keyboard.press('Tab');
  await locator.focus();
}

// --- The analysis

/* Sets K. The choice is folded away */
export const chooseBatch = (page, size) => page.evaluate(size => {
  document.getElementById('batch').value = size;
  document.getElementById('batch').dispatchEvent(new Event('change'));
}, size);

/* The moves with their glyphs, without scores */
export const treeMoves = page => page.evaluate(() => [...document.querySelectorAll('#analysis-moves [data-node]')]
  .map(({ childNodes }) => [...childNodes].filter(({ tagName }) => tagName !== 'SMALL').map(({ textContent }) => textContent).join('')));

/* Waits until the tree has so many moves */
export const treeHas = (page, count) =>
  page.waitForFunction(count => document.querySelectorAll('#analysis-moves [data-node]').length === count, count);

/* Loads a text by the form and waits for the outcome: 'game', 'list' or the error */
export async function load(page, text) {
  if (!await page.locator('#load[open]').count()) await page.click('#load-open');
  await page.fill('#load-text', text);
  await page.click('#load-form button[type=submit]');
  await page.waitForFunction(() => !document.querySelector('#load').classList.contains('busy'));
  if (!await page.locator('#load[open]').count()) return 'game';
  if (await page.locator('#load-list').isVisible()) return 'list';
  return page.locator('#load-text-error').textContent();
}

/* Waits until the address holds a game with a text in it, and leads to its move number `at`. The page writes it a while after the
   last change; a game that is too long for it is in the history */
export async function addressHolds(page, text, at) {
  const deadline = Date.now() + TIMEOUT;
  for (let found = ''; ;) {
    const [hash, long] = await page.evaluate(() => [location.hash, history.state?.json ?? '']);
    const [, kind, code] = hash.split('/');
    if (code === 'kept') found = long;
    else if (kind === 'game') found = inflateRawSync(Buffer.from(code, 'base64url')).toString();
    if (found.includes(text) && (at === undefined || JSON.parse(found).at === at)) return;
    assert.ok(Date.now() < deadline, `the address does not hold ${text}: ${found.slice(0, 300)}`);
    await page.waitForTimeout(50);
  }
}
