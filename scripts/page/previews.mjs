// Tests the small board under the mouse: it shows the position after a move of a line, as python-chess has it.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';

// The first fields of the FENs after moves in UCI notation, as python-chess has them.
const PYTHON = `
import chess, json, sys
found = []
for fen, chess960, moves in json.load(sys.stdin):
    board = chess.Board(fen, chess960=chess960)
    for move in moves: board.push_uci(move)
    found.append(board.board_fen())
print(json.dumps(found))
`;

// Castling in both notations, en passant and promotion.
const CASTLES = 'r3k2r/pppppppp/8/8/8/8/PPPPPPPP/R3K2R w KQkq - 0 1';
const PREVIEWS = [
  [CASTLES, false, ['e1g1', 'e8c8']],
  [CASTLES, true, ['e1a1', 'e8h8']],
  ['1r2k1r1/pppppppp/8/8/8/8/PPPPPPPP/1R2K1R1 w GBgb - 0 1', true, ['e1b1', 'e8g8']],
  ['4k3/3p4/8/4P3/8/8/8/4K3 b - - 0 1', false, ['d7d5', 'e5d6']],
  ['1n2k3/P7/8/8/8/8/6p1/4K2R b - - 0 1', false, ['g2h1n', 'a7b8r']],
];
export async function previewsAreRight(page) {
  const run = spawnSync('python3', ['-c', PYTHON], { input: JSON.stringify(PREVIEWS), encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  const shown = await page.evaluate(async previews => {
    const preview = await import('/page/preview.js');
    const letters = { king: 'k', queen: 'q', rook: 'r', bishop: 'b', knight: 'n', pawn: 'p' };
    const found = previews.map(([fen, , moves]) => {
      preview.show(document.getElementById('think'), fen, moves, 'white');
      const pieces = new Map([...document.querySelectorAll('.preview piece:not(.fading, .ghost)')].map(({ cgKey, classList }) => {
        const letter = letters[[...classList].find(name => name in letters)];
        return [cgKey, classList.contains('white') ? letter.toUpperCase() : letter];
      }));
      return [8, 7, 6, 5, 4, 3, 2, 1].map(rank => [...'abcdefgh'].map(file => pieces.get(`${file}${rank}`) ?? '.').join('')
        .replace(/\.+/g, ({ length }) => length)).join('/');
    });
    preview.hide();
    return found;
  }, PREVIEWS);
  assert.deepEqual(shown, JSON.parse(run.stdout));
}

// A move of a line is shown under the mouse; the engine may replace the line meanwhile.
export async function showsPreview(page) {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    await page.locator('#thoughts button').first().hover();
    const isShown = await page.locator('.preview piece').first().isVisible();
    await page.mouse.move(5, 5);
    if (isShown) return;
  }
  assert.fail('a move of a line is not shown under the mouse');
}
