//! Makes a game with variations of what the reader of PGN gives: the moves of several variations
//! become one tree.

use std::collections::HashMap;

use annotate::OWN_NAME;
use board::{CastlingMode, Position, parse_san, to_san, to_uci};
use games::{
    CommentEvaluation, PgnGame, Variation, VariationItem, find_evaluation, is_possible_score,
};

use super::game_tree::{GameTree, MAX_NODES, TreeNode, one_line, too_many};
use crate::{ApiError, openings::opening_name};

impl GameTree {
    /// The tree of a game that was read.
    ///
    /// # Errors
    /// It has too many moves.
    pub fn from_pgn(game: &PgnGame) -> Result<Self, ApiError> {
        let mut builder = TreeBuilder::default();
        let start = game.game.start();
        let root = builder.add_root(start);
        builder.say(game, 0, root);
        let (mut at, mut position) = (root, start.clone());
        for (ply, &mv) in (1..).zip(game.game.moves()) {
            let next = builder.play(at, &position, mv)?;
            builder.say(game, ply, next);
            for (_, variation) in game.variations.iter().filter(|(behind, _)| *behind == ply) {
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

/// Adds the moves of a game to a tree.
#[derive(Default)]
struct TreeBuilder {
    nodes: Vec<TreeNode>,
    /// The nodes by the node before and the move.
    known: HashMap<(usize, String), usize>,
}

impl TreeBuilder {
    fn add_root(&mut self, start: &Position) -> usize {
        self.nodes.push(TreeNode { fen: start.fen(), ..TreeNode::default() });
        0
    }

    /// The node of a move; a move that is there already has one.
    fn play(&mut self, at: usize, position: &Position, mv: board::Move) -> Result<usize, ApiError> {
        let uci = to_uci(position, mv);
        if let Some(&known) = self.known.get(&(at, uci.clone())) {
            return Ok(known);
        }
        if self.nodes.len() > MAX_NODES {
            return Err(too_many());
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
        self.known.insert((at, uci), self.nodes.len() - 1);
        Ok(self.nodes.len() - 1)
    }

    /// Adds what is said of the main line's position after `ply` plies.
    fn say(&mut self, game: &PgnGame, ply: usize, at: usize) {
        let node = &mut self.nodes[at];
        game.comments
            .iter()
            .filter(|(of, _)| *of == ply)
            .for_each(|(_, text)| node.add_comment(text));
        node.nags.extend(game.nags.iter().filter(|(of, _)| *of == ply).map(|&(_, nag)| nag));
        if let Some(&(_, score)) = game.evaluations.iter().find(|(of, _)| *of == ply) {
            node.set_score(score);
        }
    }

    /// Adds a variation from a node. What follows a null move is kept as a comment.
    fn variation(
        &mut self,
        from: usize,
        position: &Position,
        variation: &Variation,
    ) -> Result<(), ApiError> {
        let (mut at, mut position) = (from, position.clone());
        // Where alternatives to the last move begin.
        let mut last: Option<(usize, Position)> = None;
        let mut before = String::new();
        for (index, item) in variation.items.iter().enumerate() {
            match item {
                VariationItem::Move(san) => {
                    let Ok(mv) = parse_san(&position, san) else {
                        let rest = [before, in_words(&variation.items[index..])].join(" ");
                        self.nodes[at].add_comment(&one_line(&rest));
                        return Ok(());
                    };
                    let known = self.nodes.len();
                    let next = self.play(at, &position, mv)?;
                    let is_new = self.nodes.len() > known;
                    let after = position.after(mv);
                    last = Some((at, std::mem::replace(&mut position, after)));
                    at = next;
                    if index_of_first(variation) == index {
                        self.begin_variation(at, is_new, std::mem::take(&mut before));
                    }
                }
                VariationItem::Nag(nag) if last.is_some() => self.nodes[at].nags.push(*nag),
                VariationItem::Nag(_) => {}
                VariationItem::Comment(text) if last.is_none() => {
                    before = one_line(&[&before, " ", text].concat());
                }
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

/// The index of a variation's first move.
fn index_of_first(variation: &Variation) -> usize {
    let is_move = |item: &VariationItem| matches!(item, VariationItem::Move(_));
    variation.items.iter().position(is_move).unwrap_or_default()
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
