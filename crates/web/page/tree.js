// A game with variations: nodes with a parent and children, of which the first is the main line. The server knows the rules; here
// moves are only kept.

export const START = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1';
/* What the comment before our own lines says; the next analysis replaces lines that begin so */
const OWN_LINE = 'Batch First';
const REMARKS = ['before', 'comment', 'nags', 'cp', 'mate'];

let lastId = 0;

function makeNode(parent, fields) {
  lastId += 1;
  const node = { id: lastId, parent, children: [], uci: '', san: '', fen: '', opening: '', before: '', comment: '', nags: [] };
  return Object.assign(node, fields);
}

/* A game without moves */
export function empty(start = START, chess960 = false, tags = []) {
  return { start, chess960, tags, root: makeNode(null, { fen: start }) };
}

/* The tree of a message, and its nodes in the order of the message */
export function fromMessage({ start, chess960, tags, nodes }) {
  const all = [];
  for (const { parent, uci, ...fields } of nodes) {
    const node = makeNode(all.length > 0 ? all[parent] : null, { uci, ...fields });
    node.parent?.children.push(node);
    all.push(node);
  }
  return { tree: { start, chess960, tags, root: all[0] }, all };
}

/* The message of a tree, and the index of each node in it */
export function toMessage(tree) {
  const nodes = [];
  const index = new Map();
  const add = node => {
    const entry = { parent: node.parent ? index.get(node.parent) : 0, uci: node.uci };
    for (const field of REMARKS) {
      if (node[field] !== undefined && node[field].length !== 0) entry[field] = node[field];
    }
    index.set(node, nodes.length);
    nodes.push(entry);
    node.children.forEach(add);
  };
  add(tree.root);
  return { message: { start: tree.start, chess960: tree.chess960, tags: tree.tags, nodes }, index };
}

/* The nodes from the first move to this one */
export function path(node) {
  const nodes = [];
  for (let at = node; at.parent; at = at.parent) nodes.unshift(at);
  return nodes;
}

/* The nodes of the main line, the start position first */
export function mainLine(tree) {
  const nodes = [tree.root];
  while (nodes.at(-1).children.length > 0) nodes.push(nodes.at(-1).children[0]);
  return nodes;
}

export const child = (node, uci) => node.children.find(other => other.uci === uci);

/* Adds a move behind the others; a line of the analysis that gets one becomes the visitor's */
export function add(parent, fields) {
  const node = makeNode(parent, fields);
  parent.children.push(node);
  adopt(parent);
  return node;
}

/* Makes a line of the analysis the visitor's own, so that the next analysis keeps it */
export function adopt(node) {
  for (let at = node; at; at = at.parent) if (at.before === OWN_LINE) at.before = '';
}

/* Removes a move and all that follows it; returns the move before it */
export function remove(node) {
  const { parent } = node;
  parent.children.splice(parent.children.indexOf(node), 1);
  parent.recent = undefined;
  return parent;
}

/* Number of moves from this one on, variations included */
export const count = node => node.children.reduce((sum, other) => sum + count(other), 1);

/* The first move of the variation that a move is in; undefined in the main line */
export function branch(node) {
  for (let at = node; at.parent; at = at.parent) if (at.parent.children[0] !== at) return at;
  return undefined;
}

/* Puts the variation that a move is in before the moves that it is an alternative to */
export function promote(node) {
  const first = branch(node);
  if (!first) return;
  const { children } = first.parent;
  children.splice(children.indexOf(first), 1);
  children.unshift(first);
  first.parent.recent = undefined;
  adopt(first);
}

/* Notes how a tree is when its analysis begins, for `merge` */
export function beginAnalysis(tree) {
  for (const node of toMessage(tree).index.keys()) Object.assign(node, { isEdited: false, analysed: node.children.map(({ uci }) => uci) });
}

/* Adds the analysis of a game to the visitor's tree: scores, glyphs, comments where the visitor has edited none meanwhile, and lines
   of the analysis, which replace older ones. Moves that the visitor has deleted do not come back, and their order stays */
export function merge(node, analysed) {
  if (analysed.mate !== undefined || analysed.cp !== undefined) Object.assign(node, { cp: analysed.cp, mate: analysed.mate });
  if (!node.isEdited) Object.assign(node, { comment: analysed.comment, nags: analysed.nags });
  node.children = node.children.filter(({ before }) => before !== OWN_LINE);
  for (const other of analysed.children) {
    const same = child(node, other.uci);
    if (same) {
      merge(same, other);
    } else if (other.before === OWN_LINE || !node.analysed?.includes(other.uci)) {
      other.parent = node;
      node.children.push(other);
    }
  }
  if (node.recent && !node.children.includes(node.recent)) node.recent = undefined;
}

/* The value of a tag; empty if it is unknown */
export function tag(tree, name) {
  const value = tree.tags.find(([other]) => other === name)?.[1] ?? '';
  return /^[?.*]*$/.test(value) ? '' : value;
}

export const isWhiteToMove = node => node.fen.split(' ')[1] !== 'b';
