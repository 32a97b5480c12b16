// What a visitor says of a position and does to its variation: glyphs, comments, promotion, deletion.

import { by, confirmed } from './page.js';
import * as trees from './tree.js';

let listener = {};

/* callbacks: { current(): the shown node, changed(): the tree has changed, go(node) } */
export function attach(callbacks) { listener = callbacks; }

/* Shows the remarks on a position */
export function show(node) {
  by('glyph').value = String(node.nags.find(nag => nag >= 1 && nag <= 6) ?? '');
  by('glyph').disabled = by('delete-move').disabled = !node.parent;
  by('promote').disabled = !trees.branch(node);
  if (document.activeElement !== by('comment')) by('comment').value = node.comment;
  by('delete-move').title = node.san ? `Delete ${node.san} and all that follows` : 'Delete';
}

function edit(change) {
  const node = listener.current();
  change(node);
  node.isEdited = true;
  trees.adopt(node);
  listener.changed();
}

by('glyph').onchange = () => edit(node => {
  const chosen = Number(by('glyph').value);
  node.nags = [...(chosen ? [chosen] : []), ...node.nags.filter(nag => nag > 6)];
});
by('comment').oninput = () => edit(node => {
  node.comment = by('comment').value.replace(/\s+/g, ' ').trimStart();
});
by('promote').onclick = () => {
  trees.promote(listener.current());
  listener.changed();
};
by('delete-move').onclick = async () => {
  const gone = listener.current();
  const number = trees.count(gone);
  if (number > 1 && !await confirmed(`Delete ${gone.san} and the ${number - 1} move${number === 2 ? '' : 's'} after it?`)) return;
  // The game may have changed while the question was open.
  if (listener.current() !== gone) return;
  const before = trees.remove(gone);
  listener.go(before);
  listener.changed();
};
