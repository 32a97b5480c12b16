// What each visitor likes: light or dark, the colours of the board, the pieces, sounds. Kept in this browser.

import { by, make } from './page.js';

const KEY = 'batch-first-preferences';
const DEFAULTS = { theme: 'system', squares: 'green', pieces: 'cburnett', sounds: true };
// Sets of pieces besides the board's own: style sheets that are loaded when they are chosen.
const PIECES = ['merida', 'kryukov', 'celtic'];
// The volume of a sound, and how fast it fades, in seconds.
const [VOLUME, FADE] = [0.25, 0.07];

let preferences = { ...DEFAULTS, ...stored() };
let audio = null;

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

// The dark colours are in media rules of the style sheets; a choice makes these rules hold always, or never.
const darkRules = () => [...document.styleSheets].filter(({ ownerNode }) => !ownerNode.dataset.pieces).flatMap(({ cssRules }) => [...cssRules])
  .filter(rule => rule instanceof CSSMediaRule && (rule.isDark ??= rule.media.mediaText.includes('prefers-color-scheme: dark')));

// The earlier set is shown until the new one is there.
function showPieces(name) {
  const earlier = [...document.querySelectorAll('link[data-pieces]')];
  if (earlier.at(-1)?.dataset.pieces === name) return;
  const clear = () => earlier.forEach(link => link.remove());
  if (!PIECES.includes(name)) clear();
  else document.head.append(make('link', { rel: 'stylesheet', href: `/page/vendor/pieces/${name}.css`, 'data-pieces': name, onload: clear }));
}

function apply() {
  const { theme, squares, pieces } = preferences;
  const media = { system: '(prefers-color-scheme: dark)', dark: 'all', light: 'not all' }[theme] ?? 'all';
  for (const rule of darkRules()) rule.media.mediaText = media;
  document.documentElement.style.colorScheme = theme === 'system' ? '' : theme;
  document.documentElement.dataset.squares = squares;
  showPieces(pieces);
  by('theme').value = theme;
  by('squares').value = squares;
  by('pieces').value = pieces;
  by('sounds').checked = preferences.sounds;
}

function change(name, value) {
  preferences = { ...preferences, [name]: value };
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // A browser that keeps nothing forgets the choice at the next visit.
  }
  apply();
}

/* The sound of a move; a capture sounds lower */
export function moveSound(isCapture) {
  // Browsers play nothing before the visitor has done something.
  if (!preferences.sounds || !navigator.userActivation?.hasBeenActive) return;
  audio ??= new AudioContext();
  const now = audio.currentTime;
  const [tone, volume] = [audio.createOscillator(), audio.createGain()];
  tone.type = 'triangle';
  tone.frequency.setValueAtTime(isCapture ? 190 : 320, now);
  tone.frequency.exponentialRampToValueAtTime(isCapture ? 70 : 140, now + FADE);
  volume.gain.setValueAtTime(VOLUME, now);
  volume.gain.exponentialRampToValueAtTime(0.001, now + FADE);
  tone.connect(volume).connect(audio.destination);
  tone.start(now);
  tone.stop(now + FADE);
}

by('theme').onchange = event => change('theme', event.target.value);
by('squares').onchange = event => change('squares', event.target.value);
by('pieces').onchange = event => change('pieces', event.target.value);
by('sounds').onchange = event => change('sounds', event.target.checked);
by('preferences-open').onclick = () => by('preferences').showModal();
apply();
