//! The tree of PUCT: positions with visits, average values and proven values.

use board::{Game, Move, Position};

use crate::{
    rules::is_repetition,
    score::{LARGEST_VALUE, MATE, MATE_BOUND, Value, from_child},
};

/// The weight of priors, and its growth with visits (CPuct, CPuctFactor and CPuctBase of Lc0).
const EXPLORATION: f32 = 1.745;
const EXPLORATION_FACTOR: f32 = 3.894;
const EXPLORATION_BASE: f32 = 38_739.0;

/// Value of a move without visits below its parent's average (FPU reduction of Lc0).
const FIRST_PLAY_REDUCTION: f32 = 0.33;

/// No child yet.
const NO_CHILD: u32 = u32::MAX;

/// A legal move of a position in the tree.
#[derive(Clone, Copy, Debug)]
struct Edge {
    prior: f32,
    child: u32,
    /// False for moves that the root may not choose.
    allowed: bool,
}

/// A position in the tree. Values are for its mover.
#[derive(Clone, Debug, Default)]
struct Node {
    /// In generation order; empty until expanded.
    edges: Vec<Edge>,
    visits: u32,
    /// Playouts below that wait for their evaluation.
    in_flight: u32,
    /// Sum of the expected results of its visits, -1 to 1 each.
    sum: f64,
    proven: Option<Value>,
}

impl Node {
    fn average(&self) -> f32 {
        if self.visits == 0 { 0.0 } else { (self.sum / f64::from(self.visits)) as f32 }
    }
}

/// The path of a playout: nodes from the root down, and the edges between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Descent {
    nodes: Vec<u32>,
    proven: bool,
}

impl Descent {
    /// A descent that ends at the root.
    pub(super) fn root() -> Self {
        Self { nodes: vec![0], proven: false }
    }

    /// Did it end at a position whose value is proven?
    pub(super) fn is_proven(&self) -> bool {
        self.proven
    }
}

/// A root move for choice and report.
#[derive(Clone, Copy, Debug)]
pub(super) struct RootMove {
    /// Place in generation order.
    pub edge: usize,
    /// For the root's mover, -1 to 1.
    pub expectation: f32,
    /// For the root's mover.
    pub proven: Option<Value>,
    pub(super) visits: u32,
    prior: f32,
}

/// All positions of one search; the root is number 0.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    bytes: usize,
    most_bytes: usize,
    playouts: u64,
    plies: u64,
    deepest: usize,
}

impl Tree {
    /// A root that waits for its expansion, in at most `most_bytes`.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self {
            nodes: vec![Node::default()],
            bytes: 0,
            most_bytes,
            playouts: 0,
            plies: 0,
            deepest: 0,
        }
    }

    /// Bytes in use; while the vector of nodes grows, the old one exists beside the new one.
    fn bytes(&self) -> usize {
        let spare = self.nodes.capacity() - self.nodes.len();
        let nodes = if spare < 8192 { 3 * self.nodes.capacity() } else { self.nodes.capacity() };
        self.bytes + nodes * size_of::<Node>()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes() > self.most_bytes
    }

    pub(super) fn fill_per_mille(&self) -> u32 {
        (self.bytes() as u64 * 1000 / self.most_bytes.max(1) as u64).min(1000) as u32
    }

    /// Is the root's value proven, or is there nothing to choose from?
    pub(super) fn is_decided(&self) -> bool {
        self.nodes[0].proven.is_some()
    }

    pub(super) fn playouts(&self) -> u64 {
        self.playouts
    }

    /// Mean and largest length of the playouts, at least 1.
    pub(super) fn depths(&self) -> (u32, u32) {
        let mean = self.plies.checked_div(self.playouts).unwrap_or(0);
        ((mean as u32).max(1), (self.deepest as u32).max(1))
    }

    /// The root may choose these moves only.
    pub(super) fn restrict(&mut self, allowed: &[bool]) {
        for (edge, &allowed) in self.nodes[0].edges.iter_mut().zip(allowed) {
            edge.allowed = allowed;
        }
    }

    /// The move to follow from an expanded node.
    fn select(&self, node: &Node) -> usize {
        let visited =
            |edge: &Edge| (edge.child != NO_CHILD).then(|| &self.nodes[edge.child as usize]);
        let known: f32 =
            node.edges.iter().filter(|edge| edge.child != NO_CHILD).map(|edge| edge.prior).sum();
        let first_play = node.average() - FIRST_PLAY_REDUCTION * known.sqrt();
        let total = (node.visits + node.in_flight).max(1) as f32;
        let exploration =
            EXPLORATION + EXPLORATION_FACTOR * ((total + EXPLORATION_BASE) / EXPLORATION_BASE).ln();
        let scale = exploration * total.sqrt();
        let urgency = |edge: &Edge| {
            let (average, visits) = match visited(edge) {
                None => (first_play, 0.0),
                Some(child) => match child.proven {
                    // Won for the opponent: never again while there is anything else.
                    Some(value) if value > LARGEST_VALUE => return f32::NEG_INFINITY,
                    _ if child.visits == 0 => (first_play, child.in_flight as f32),
                    _ => (-child.average(), (child.visits + child.in_flight) as f32),
                },
            };
            average + scale * edge.prior / (1.0 + visits)
        };
        let mut best = (0, f32::NEG_INFINITY);
        for (index, edge) in node.edges.iter().enumerate().filter(|(_, edge)| edge.allowed) {
            let urgency = urgency(edge);
            if urgency > best.1 || best.1 == f32::NEG_INFINITY && !node.edges[best.0].allowed {
                best = (index, urgency);
            }
        }
        best.0
    }

    /// Goes down to a new position, a proven one, one that waits already, or a draw by repetition;
    /// counts the visit as in flight. The position comes back where it is new; true for a draw.
    pub(super) fn descend(&mut self, game: &Game) -> (Descent, Option<Position>, bool) {
        let mut position = game.position().clone();
        let mut keys = vec![position.key()];
        let mut descent = Descent { nodes: vec![0], proven: false };
        let mut at = 0_u32;
        loop {
            self.nodes[at as usize].in_flight += 1;
            let node = &self.nodes[at as usize];
            if node.proven.is_some() {
                descent.proven = true;
                return (descent, None, false);
            }
            if node.edges.is_empty() {
                // Waits for its evaluation, or is new.
                let is_new = node.in_flight == 1;
                return (descent, is_new.then_some(position), false);
            }
            let index = self.select(node);
            let Some(&mv) = position.legal_moves().get(index) else {
                return (descent, None, false);
            };
            position.play(mv);
            let child = node.edges[index].child;
            let next = if child == NO_CHILD { self.add(at, index) } else { child };
            descent.nodes.push(next);
            if is_repetition(&position, keys.iter().rev().copied(), game.keys()) {
                self.nodes[next as usize].in_flight += 1;
                return (descent, None, true);
            }
            keys.push(position.key());
            at = next;
        }
    }

    fn add(&mut self, parent: u32, index: usize) -> u32 {
        let child = self.nodes.len() as u32;
        self.nodes.push(Node::default());
        self.nodes[parent as usize].edges[index].child = child;
        child
    }

    /// Takes a playout back that found nothing.
    pub(super) fn give_back(&mut self, descent: &Descent) {
        for &node in &descent.nodes {
            let node = &mut self.nodes[node as usize];
            node.in_flight = node.in_flight.saturating_sub(1);
        }
    }

    /// Gives a leaf its moves and backs its value up.
    pub(super) fn expand(&mut self, descent: &Descent, priors: &[f32], expectation: f32) {
        let leaf = descent.nodes.last().copied().unwrap_or(0);
        let edges: Vec<Edge> =
            priors.iter().map(|&prior| Edge { prior, child: NO_CHILD, allowed: true }).collect();
        self.bytes += edges.capacity() * size_of::<Edge>();
        self.nodes[leaf as usize].edges = edges;
        self.back_up(descent, expectation);
    }

    /// Averages a result into all positions of a playout; `expectation` is for the mover of its
    /// last one.
    pub(super) fn back_up(&mut self, descent: &Descent, expectation: f32) {
        let mut expectation = f64::from(expectation);
        for &node in descent.nodes.iter().rev() {
            let node = &mut self.nodes[node as usize];
            node.visits += 1;
            node.in_flight = node.in_flight.saturating_sub(1);
            node.sum += expectation;
            expectation = -expectation;
        }
        self.playouts += 1;
        self.plies += descent.nodes.len().saturating_sub(1) as u64;
        self.deepest = self.deepest.max(descent.nodes.len().saturating_sub(1));
    }

    /// Backs up the value of a proven position.
    pub(super) fn back_up_proven(&mut self, descent: &Descent, expectation: impl Fn(Value) -> f32) {
        let leaf = descent.nodes.last().copied().unwrap_or(0);
        let value = self.nodes[leaf as usize].proven.unwrap_or(0);
        self.back_up(descent, expectation(value));
    }

    /// The last position of a playout ends the game, with this value for its mover: what that
    /// decides above is proven too.
    pub(super) fn prove(
        &mut self,
        descent: &Descent,
        value: Value,
        expectation: impl Fn(Value) -> f32,
    ) {
        let Some((&leaf, above)) = descent.nodes.split_last() else { return };
        self.nodes[leaf as usize].proven = Some(value);
        for &parent in above.iter().rev() {
            let Some(value) = self.decided(&self.nodes[parent as usize]) else { break };
            self.nodes[parent as usize].proven = Some(value);
        }
        self.back_up(descent, expectation(value));
    }

    /// The value of a node that its children decide: a mate given, or all of them proven.
    fn decided(&self, node: &Node) -> Option<Value> {
        let mut best = -MATE;
        let mut all = true;
        for edge in node.edges.iter().filter(|edge| edge.allowed) {
            let proven =
                (edge.child != NO_CHILD).then(|| self.nodes[edge.child as usize].proven).flatten();
            match proven {
                Some(value) => best = best.max(from_child(value)),
                None => all = false,
            }
        }
        (all || best > MATE_BOUND).then_some(best)
    }

    /// The root's moves, the one to play first: proven wins, then by visits, proven losses last.
    pub(super) fn best(&self, count: usize) -> Vec<RootMove> {
        let mut moves: Vec<RootMove> = self.nodes[0]
            .edges
            .iter()
            .enumerate()
            .filter(|(_, edge)| edge.allowed)
            .map(|(index, edge)| {
                let child = (edge.child != NO_CHILD).then(|| &self.nodes[edge.child as usize]);
                RootMove {
                    edge: index,
                    expectation: child
                        .filter(|child| child.visits > 0)
                        .map_or(self.nodes[0].average(), |child| -child.average()),
                    proven: child.and_then(|child| child.proven).map(from_child),
                    visits: child.map_or(0, |child| child.visits),
                    prior: edge.prior,
                }
            })
            .collect();
        let certain = |candidate: &RootMove| {
            candidate.proven.filter(|value| value.abs() > LARGEST_VALUE).unwrap_or(0)
        };
        moves.sort_by(|a, b| {
            (certain(b), b.visits).cmp(&(certain(a), a.visits)).then(b.prior.total_cmp(&a.prior))
        });
        moves.truncate(count);
        moves
    }

    /// The most visited moves after a root move.
    pub(super) fn principal_variation(&self, root: &Position, edge: usize) -> Vec<Move> {
        let mut position = root.clone();
        let (mut line, mut at, mut index) = (Vec::new(), 0_u32, edge);
        loop {
            let node = &self.nodes[at as usize];
            let Some(&mv) = position.legal_moves().get(index) else { break };
            line.push(mv);
            position.play(mv);
            at = node.edges[index].child;
            if at == NO_CHILD || self.nodes[at as usize].edges.is_empty() {
                break;
            }
            let visits = |edge: &Edge| {
                if edge.child == NO_CHILD { 0 } else { self.nodes[edge.child as usize].visits }
            };
            let worth = |edge: &Edge| match edge.child {
                NO_CHILD => Some(0),
                child => self.nodes[child as usize]
                    .proven
                    .map(from_child)
                    .filter(|value| value.abs() > LARGEST_VALUE),
            };
            let edges = &self.nodes[at as usize].edges;
            let best = (0..edges.len())
                .max_by_key(|&i| (worth(&edges[i]).unwrap_or(0), visits(&edges[i])));
            match best.filter(|&i| visits(&edges[i]) > 0) {
                Some(best) => index = best,
                None => break,
            }
        }
        line
    }
}
