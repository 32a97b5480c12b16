// The engine at the position that the analysis shows. Each change of the position or the settings is a new request; answers carry
// its tag.

import * as board from './board.js';
import { send } from './connection.js';
import * as inside from './inside.js';
import * as lines from './lines.js';
import { by, say, short } from './page.js';
import * as preview from './preview.js';
import { nextTag } from './replies.js';
import * as trees from './tree.js';

// The least time between two requests, in milliseconds.
const REQUEST_INTERVAL = 80;

let listener = {};
let tag = 0;
let analysing = false;
let threat = false;     // the lines are those of the other side, as if this one passed
let answer = null;
let sentAt = 0;         // when the last request was sent
let sendTimer = 0;

/* callbacks: { shown(), changed() }. `shown` tells { tree, node, visible } and the `candidate` that the server is to check, if any;
   `changed`: a setting was changed */
export function attach(callbacks) { listener = callbacks; }

/* Does a message answer the last request? */
export const isCurrent = message => message.tag === tag;
export const isRunning = () => analysing;
export const isThreat = () => threat;
/* Are there lines of the shown position? */
export const hasAnswer = () => Boolean(answer);

export function start() { analysing = true; }
export function stop() { analysing = false; }
export function setThreat(wanted) { threat = wanted; }

/* Makes the last answer an old one and sends a new request */
export function request() {
  tag = nextTag();
  answer = null;
  // The old lines stay, dimmed, until new ones come.
  by('thoughts').classList.add('stale');
  by('chances').classList.add('stale');
  preview.hide();
  board.arrows([]);
  board.heat(null);
  drawState();
  // A key that is held down does not send a request for every step.
  clearTimeout(sendTimer);
  sendTimer = setTimeout(sendRequest, Math.max(0, sentAt + REQUEST_INTERVAL - performance.now()));
}

function sendRequest() {
  sentAt = performance.now();
  const { tree, node, candidate } = listener.shown();
  const at = candidate ?? { tree, node, moves: [] };
  const moves = [...trees.path(at.node).map(({ uci }) => uci), ...at.moves];
  const asked = {
    tag,
    start: at.tree.start,
    chess960: at.tree.chess960,
    moves,
    system: by('analysis-system').value,
    lines: Number(by('lines').value),
    batch: Number(by('batch').value),
  };
  if (threat && analysing && !candidate) Object.assign(asked, { start: passed(node.fen), moves: [] });
  send({ type: analysing ? 'analyse' : 'show_position', ...asked });
  inside.reset();
}

/* Sends no more requests, and ends the one that runs */
export function leave() {
  analysing = false;
  clearTimeout(sendTimer);
  send({ type: 'stop' });
  preview.hide();
  by('evaluation').hidden = true;
}

// The position with the other side to move.
function passed(fen) {
  const fields = fen.split(' ');
  return [fields[0], fields[1] === 'w' ? 'b' : 'w', fields[2], '-', '0', fields[5]].join(' ');
}

/* Shows the server's lines or chances */
export function show(message) {
  const { node, visible } = listener.shown();
  if (!isCurrent(message) || !visible) return;
  if (message.state === 'waiting' && answer) message = { ...message, lines: answer.lines };
  answer = message;
  if (message.state === 'failed') say(message.error);
  if (message.view) inside.show(message.view);
  drawState();
  if (answer.lines.length > 0 && !node.isLast) showLines(node);
  if (answer.chances) lines.drawChances(answer.chances, node.fen);
}

function showLines(node) {
  lines.draw(answer.lines, threat ? passed(node.fen) : node.fen, threat);
  const [best] = answer.lines;
  if (!node.over && !threat) {
    by('analysis-state').textContent = `Depth ${best.depth}, ${short(best.nodes)} evaluations, ${short(1000 * best.nodes / Math.max(best.milliseconds, 1))} positions a second`;
  }
}

/* Draws what the engine does, the evaluation, and which lists are shown */
export function drawState() {
  const { node, visible } = listener.shown();
  const states = {
    waiting: 'Waiting for the engine…',
    done: answer?.chances ? '' : 'Finished.',
    failed: answer?.error,
  };
  by('think').textContent = analysing ? 'Stop' : 'Start';
  by('think').setAttribute('aria-pressed', analysing);
  const idle = node.over || (analysing ? states[answer?.state] : 'Move the pieces, or press Start to run the engine.');
  by('analysis-state').textContent = (threat && analysing ? 'The threat: what the other side would play if it were its turn. ' : '') + (idle ?? '');
  const system = by('analysis-system').value;
  const hasLines = analysing && !node.isLast;
  // No line and no evaluation of an earlier position stays when the game is over in this one.
  if (node.isLast) by('thoughts').replaceChildren();
  by('inside').hidden = !(analysing && system === 'batch-first');
  by('thoughts').hidden = by('chances-wdl').hidden = !hasLines || system === 'convchess';
  by('chances').hidden = !hasLines || system !== 'convchess';
  const ended = node.isLast ? { result: resultAt(node) } : null;
  const known = ended ?? (node.mate !== undefined || node.cp !== undefined ? node : null);
  by('evaluation').hidden = !visible;
  if (!(answer?.lines?.length > 0) && !(hasLines && by('thoughts').children.length > 0 && !known)) lines.drawEvaluation(known);
}

// White's points where the rules end the game.
function resultAt(node) {
  if (!node.isCheck) return 0.5;
  return trees.isWhiteToMove(node) ? 0 : 1;
}

for (const id of ['analysis-system', 'lines', 'batch']) {
  by(id).onchange = () => {
    by('thoughts').replaceChildren();
    listener.changed();
  };
}
for (const radio of document.querySelectorAll('[name=heat]')) {
  radio.onchange = () => answer?.chances && lines.drawChances(answer.chances, listener.shown().node.fen);
}
