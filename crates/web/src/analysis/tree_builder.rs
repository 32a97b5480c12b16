//! Makes a game with variations of what the reader of PGN gives: the moves of several variations
//! become one tree.

use std::collections::HashMap;

use annotate::OWN_NAME;
use board::{CastlingMode, Position, parse_san, to_san, to_uci};
use games::{
    CommentEvaluation, PgnGame, Variation, VariationItem, find_evaluation, is_possible_score,
};

use super::game_tree::{GameTree, MAX_NODES, TreeNode, one_line, too_many_moves, too_many_plies};
use crate::{ApiError, game_state::MAX_PLIES, openings::opening_name};

impl GameTree {
    /// The tree of a game that was read.
    ///
    /// # Errors
    /// It has too many moves, or its main line too many plies.
    pub fn from_pgn(game: &PgnGame) -> Result<Self, ApiError> {
        let last = game.game.moves().len();
        if last > MAX_PLIES {
            return Err(too_many_plies());
        }
        let (comments, nags) = (by_ply(&game.comments, last), by_ply(&game.nags, last));
        let (evaluations, variations) =
            (by_ply(&game.evaluations, last), by_ply(&game.variations, last));
        let mut builder = TreeBuilder::default();
        let start = game.game.start();
        let root = builder.add_root(start);
        let say = |node: &mut TreeNode, ply: usize| {
            comments[ply].iter().for_each(|text| node.add_comment(text));
            node.nags.extend(nags[ply].iter().copied());
            if let Some(&&score) = evaluations[ply].first() {
                node.set_score(score);
            }
        };
        say(&mut builder.nodes[root], 0);
        let (mut at, mut position) = (root, start.clone());
        for (ply, &mv) in (1..).zip(game.game.moves()) {
            let next = builder.play(at, &position, mv)?;
            say(&mut builder.nodes[next], ply);
            for &variation in &variations[ply] {
                builder.variation(at, &position, variation)?;
            }
            position.play(mv);
            at = next;
        }
        Ok(Self {
            start: start.fen(),
            chess960: start.castling_mode() == CastlingMode::Chess960,
            tags: game.tags.clone(),
            nodes: builder.nodes,
        })
    }
}

/// What belongs to each number of plies from 0 to `last`, in order.
fn by_ply<T>(list: &[(usize, T)], last: usize) -> Vec<Vec<&T>> {
    let mut found: Vec<Vec<&T>> = (0..=last).map(|_| Vec::new()).collect();
    for (ply, what) in list {
        if let Some(here) = found.get_mut(*ply) {
            here.push(what);
        }
    }
    found
}

/// Adds the moves of a game to a tree.
#[derive(Default)]
struct TreeBuilder {
    nodes: Vec<TreeNode>,
    /// Plies from the start position to each node.
    plies: Vec<usize>,
    /// The nodes by the node before and the move.
    known: HashMap<(usize, String), usize>,
}

impl TreeBuilder {
    fn add_root(&mut self, start: &Position) -> usize {
        self.nodes.push(TreeNode { fen: start.fen(), ..TreeNode::default() });
        self.plies.push(0);
        0
    }

    /// The node of a move; a move that is there already has one.
    fn play(&mut self, at: usize, position: &Position, mv: board::Move) -> Result<usize, ApiError> {
        let uci = to_uci(position, mv);
        if let Some(&known) = self.known.get(&(at, uci.clone())) {
            return Ok(known);
        }
        if self.nodes.len() > MAX_NODES {
            return Err(too_many_moves());
        }
        let after = position.after(mv);
        let node = TreeNode {
            parent: at,
            uci: uci.clone(),
            san: to_san(position, mv),
            fen: after.fen(),
            opening: opening_name(&after).unwrap_or_default().to_owned(),
            ..TreeNode::default()
        };
        self.nodes.push(node);
        self.plies.push(self.plies[at] + 1);
        self.known.insert((at, uci), self.nodes.len() - 1);
        Ok(self.nodes.len() - 1)
    }

    /// Adds a variation from a node. What follows a null move, or the last ply that a game may have
    /// here, is kept as a comment.
    fn variation(
        &mut self,
        from: usize,
        position: &Position,
        variation: &Variation,
    ) -> Result<(), ApiError> {
        let (mut at, mut position) = (from, position.clone());
        // Where alternatives to the last move begin.
        let mut last: Option<(usize, Position)> = None;
        let mut before: Vec<&str> = Vec::new();
        for (index, item) in variation.items.iter().enumerate() {
            match item {
                VariationItem::Move(san) => {
                    let mv = parse_san(&position, san).ok();
                    let Some(mv) = mv.filter(|_| self.plies[at] < MAX_PLIES) else {
                        let rest = in_words(&variation.items[index..]);
                        self.nodes[at]
                            .add_comment(&one_line(&[&before.join(" "), " ", &rest].concat()));
                        return Ok(());
                    };
                    let known = self.nodes.len();
                    let next = self.play(at, &position, mv)?;
                    let is_new = self.nodes.len() > known;
                    let after = position.after(mv);
                    let is_first = last.is_none();
                    last = Some((at, std::mem::replace(&mut position, after)));
                    at = next;
                    if is_first {
                        self.begin_variation(at, is_new, one_line(&before.join(" ")));
                        before.clear();
                    }
                }
                VariationItem::Nag(nag) if last.is_some() => self.nodes[at].nags.push(*nag),
                VariationItem::Nag(_) => {}
                VariationItem::Comment(text) if last.is_none() => before.push(text),
                VariationItem::Comment(text) => self.comment(at, &position, text),
                VariationItem::Variation(nested) => {
                    if let Some((at, before)) = last.clone() {
                        self.variation(at, &before, nested)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the comment before a variation to its first move. A move that another variation has as
    /// well is not marked as a line of the analysis, which the next analysis would replace.
    fn begin_variation(&mut self, at: usize, is_new: bool, before: String) {
        let node = &mut self.nodes[at];
        if is_new {
            node.before = before;
        } else if node.before == OWN_NAME {
            node.before = if before == OWN_NAME { before } else { String::new() };
        } else if before != OWN_NAME {
            node.add_comment(&before);
        }
    }

    /// Adds a comment of a variation; its evaluation is the node's score.
    fn comment(&mut self, at: usize, position: &Position, text: &str) {
        let node = &mut self.nodes[at];
        match find_evaluation(text.as_bytes()) {
            Some(CommentEvaluation { at, score: Some(score) })
                if is_possible_score(score, position) =>
            {
                node.set_score(score);
                node.add_comment(&one_line(&[&text[..at.start], &text[at.end..]].concat()));
            }
            _ => node.add_comment(text),
        }
    }
}

/// The items of a variation as text.
fn in_words(items: &[VariationItem]) -> String {
    let words = items.iter().map(|item| match item {
        VariationItem::Move(san) => san.clone(),
        VariationItem::Nag(nag) => format!("${nag}"),
        VariationItem::Comment(text) => text.clone(),
        VariationItem::Variation(nested) => format!("({})", in_words(&nested.items)),
    });
    words.collect::<Vec<_>>().join(" ")
}
