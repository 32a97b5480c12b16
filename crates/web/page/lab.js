// Training runs and matches. They are loaded again every three seconds while they are shown.

import { by, counted, make, redraw, short } from './page.js';
import { chart, legend } from './chart.js';

// Milliseconds between two loads.
const PERIOD = 3000;

let available = { runs: false, matches: false };
let chosen = null;      // { kind, name }
let shown = '';         // the entry that the detail shows, as JSON
let timer = 0;

export function hello(message) {
  available = { runs: message.runs, matches: message.matches };
  document.querySelector('[data-nav=lab]').hidden = !available.runs && !available.matches;
  by('runs-title').hidden = !available.runs;
  by('matches-title').hidden = !available.matches;
}

export function enter() {
  load();
  timer = setInterval(load, PERIOD);
}

export function leave() { clearInterval(timer); }

async function fetchJson(path) {
  const response = await fetch(path);
  return response.ok ? response.json() : null;
}

async function load() {
  try {
    const [runs, matches] = await Promise.all([available.runs ? fetchJson('/api/runs') : [], available.matches ? fetchJson('/api/matches') : []]);
    if (!chosen && runs?.length) chosen = { kind: 'run', name: runs[0].name };
    else if (!chosen && matches?.length) chosen = { kind: 'match', name: matches[0].name };
    list(by('run-list'), 'run', runs ?? []);
    list(by('match-list'), 'match', matches ?? []);
    await detail(chosen?.kind === 'match' ? matches : runs);
  } catch {
    // The notice of the lost connection tells the visitor.
  }
}

function list(element, kind, all) {
  redraw(element, ...all.map(({ name, changed }) => {
    const button = make('button', { 'data-key': name, onclick: () => { chosen = { kind, name }; shown = ''; load(); } },
      name, make('small', { textContent: ago(changed) }));
    if (chosen?.kind === kind && chosen.name === name) button.setAttribute('aria-current', 'true');
    return make('li', {}, button);
  }));
}

function ago(changed) {
  const seconds = Math.max(0, (Date.now() - changed) / 1000);
  if (seconds < 15) return 'now';
  if (seconds < 120) return `${Math.round(seconds)} s ago`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min ago`;
  return new Date(changed).toLocaleString();
}

async function detail(all) {
  const entry = all?.find(({ name }) => name === chosen?.name);
  if (!entry) return;
  const key = JSON.stringify([chosen, entry]);
  if (key === shown) return;
  const found = await fetchJson(`/api/${chosen.kind}?name=${encodeURIComponent(entry.name)}`);
  if (!found) return;
  shown = key;
  const draw = chosen.kind === 'run' ? run : match;
  const parts = draw(found);
  if (entry.report) {
    const path = entry.name.split('/').map(encodeURIComponent).join('/');
    parts.push(make('a', { className: 'button', href: `/reports/${chosen.kind}/${path}/report.html`, target: '_blank', textContent: 'Open the report' }));
  }
  redraw(by('lab-detail'), ...parts);
}

function run({ name, start, end, step, latest, training, validation }) {
  const steps = start?.steps;
  const facts = [
    steps ? `step ${step.toLocaleString('en')} of ${steps.toLocaleString('en')} (${Math.round(100 * step / steps)} %)` : `step ${step}`,
    latest ? `${short(latest[3])} positions a second` : null,
    start?.positions ? `${short(start.positions)} positions an epoch` : null,
    start?.backend, start?.revision ? `revision ${start.revision}` : null,
    end ? `ended: ${end.reason}` : null,
  ].filter(Boolean);
  const sources = new Map();
  for (const measures of validation) {
    const label = measures.head ? `${measures.source}, ${measures.head}` : measures.source;
    if (!sources.has(label)) sources.set(label, []);
    sources.get(label).push(measures);
  }
  const curves = (column, field, scale = 1) => [
    ...(column === null ? [] : [{ name: 'training', soft: true, points: training.map(point => [point[0], point[column]]) }]),
    ...[...sources].map(([label, all]) => ({ name: label, points: all.map(measures => [measures.samples, measures[field] === null || measures[field] === undefined ? null : scale * measures[field]]) })),
  ].map(curve => ({ ...curve, points: curve.points.filter(([x, y]) => x !== null && y !== null) })).filter(({ points }) => points.length);
  const figures = [['Loss', curves(1, 'loss')], ['Ranking: tau-a in training, tau-b on held-out positions', curves(2, 'tau_b')],
    ['Played move ranked first, %', curves(null, 'top_1', 100)]]
    .filter(([, lines]) => lines.length)
    .map(([title, lines]) => make('figure', {}, make('figcaption', { textContent: title }), chart(lines), legend(lines)));
  return [make('h2', { textContent: name }), make('p', { className: 'hint', textContent: facts.join(' · ') }), make('div', { className: 'charts' }, ...figures)];
}

function table(heads, rows) {
  const cell = (tag, [text, isNumber]) => make(tag, { textContent: text ?? '–', className: isNumber ? 'n' : '' });
  return make('div', { className: 'table' }, make('table', {},
    make('thead', {}, make('tr', {}, ...heads.map(head => cell('th', head)))),
    make('tbody', {}, ...rows.map(row => make('tr', {}, ...row.map((text, index) => cell('td', [text, heads[index][1]])))))));
}

const signed = number => `${number > 0 ? '+' : number < 0 ? '−' : ''}${Math.abs(Math.round(number))}`;

function match({ name, games, players, pairings, latest, error }) {
  if (error) return [make('h2', { textContent: name }), make('p', { textContent: error })];
  const rated = players.length > 2;
  const standing = players.map((player, index) => ({ ...player, index })).filter(player => player.games > 0)
    .sort((one, other) => (other.wins + other.draws / 2) / other.games - (one.wins + one.draws / 2) / one.games);
  const parts = [make('h2', { textContent: name }), make('p', { className: 'hint', textContent: counted(games, 'game') }),
    table([['player'], ['games', 1], ['won', 1], ['drawn', 1], ['lost', 1], ['score', 1], ...(rated ? [['Elo', 1], ['95 %', 1]] : [])],
      standing.map(({ name, games, wins, draws, losses, rating }) => [name, games, wins, draws, losses,
        `${(100 * (wins + draws / 2) / games).toFixed(1)} %`,
        ...(rated ? [rating ? signed(rating[0]) : null, rating ? `${signed(rating[1])} to ${signed(rating[2])}` : null] : [])]))];
  parts.push(make('h3', { textContent: 'Pairings' }),
    table([['players'], ['won', 1], ['drawn', 1], ['lost', 1], ['Elo difference', 1], ['95 %', 1]],
      pairings.map(({ first, second, tally, estimate }) => [`${players[first].name} – ${players[second].name}`, tally.wins, tally.draws, tally.losses,
        estimate?.elo == null ? null : signed(estimate.elo),
        estimate?.low == null || estimate?.high == null ? null : `${signed(estimate.low)} to ${signed(estimate.high)}`])));
  parts.push(make('h3', { textContent: 'Latest games' }),
    table([['', 1], ['white'], ['black'], ['result'], ['ending'], ['plies', 1]],
      latest.map(game => [game.number, players[game.white].name, players[game.black].name, game.result, game.ending, game.plies])));
  return parts;
}
