//! A game with its variations, as the page holds it: a flat list of moves, each with the number of
//! the move before it. The same form goes to the page and comes from it, and becomes PGN;
//! `tree_builder.rs` makes it of PGN.

use board::{Game, Position, Score, to_san, to_uci};
use games::{PgnGame, Variation, VariationItem};
use serde::{Deserialize, Serialize};

use crate::{ApiError, game_state::MAX_PLIES, new_game::parse_position, openings::opening_name};

/// The most moves of a game, variations included.
pub const MAX_NODES: usize = 10_000;
/// Variations inside variations: the reader of PGN follows them so far.
const MAX_DEPTH: usize = 40;

/// A game with variations, comments and glyphs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GameTree {
    /// FEN of the start position.
    pub start: String,
    #[serde(default)]
    pub chess960: bool,
    /// Names and values of the PGN tags, in order, without `FEN` and `SetUp`.
    #[serde(default)]
    pub tags: Vec<(String, String)>,
    /// The start position first; then every move after the one it follows. Of the moves that follow
    /// the same one, the first is the main line.
    pub nodes: Vec<TreeNode>,
}

/// A move and what is said of the position after it; the first node is the start position.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TreeNode {
    /// Index of the node before; 0 for the start position itself.
    #[serde(default)]
    pub parent: usize,
    /// The move in UCI notation.
    #[serde(default)]
    pub uci: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub san: String,
    /// The position after the move.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fen: String,
    /// Name of the opening, where the position has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub opening: String,
    /// The comment before the first move of a variation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub before: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// Numeric annotation glyphs (NAGs).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nags: Vec<u16>,
    /// White's score in centipawns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp: Option<i32>,
    /// Moves until White mates; negative where Black does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mate: Option<i32>,
}

impl TreeNode {
    fn score(&self) -> Option<Score> {
        self.mate.map(Score::Mate).or(self.cp.map(Score::Centipawns))
    }

    pub(super) fn set_score(&mut self, score: Score) {
        match score {
            Score::Centipawns(value) => self.cp = Some(value),
            Score::Mate(moves) => self.mate = Some(moves),
        }
    }

    pub(super) fn add_comment(&mut self, text: &str) {
        if !self.comment.is_empty() && !text.is_empty() {
            self.comment.push(' ');
        }
        self.comment.push_str(text);
    }
}

/// A text with single blanks in place of line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl GameTree {
    /// Checks every move, and adds SAN, positions and names of openings.
    ///
    /// # Errors
    /// The start position or a move is not legal, or there are too many moves.
    pub fn complete(mut self) -> Result<Self, ApiError> {
        let positions = self.positions()?;
        self.start = positions[0].fen();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let position = &positions[index];
            node.fen = position.fen();
            node.opening = opening_name(position).unwrap_or_default().to_owned();
            if index > 0 {
                let before = &positions[node.parent];
                let mv = board::parse_uci(before, &node.uci)?;
                (node.uci, node.san) = (to_uci(before, mv), to_san(before, mv));
            }
        }
        Ok(self)
    }

    /// Adds a glyph to a move that is possible after `ply` plies of the main line, if it is there.
    pub fn add_glyph(&mut self, ply: usize, uci: &str, nag: u16) {
        let mut at = 0;
        for _ in 0..ply {
            match (at + 1..self.nodes.len()).find(|&index| self.nodes[index].parent == at) {
                Some(next) => at = next,
                None => return,
            }
        }
        let is_move = |node: &&mut TreeNode| node.parent == at && node.uci == uci;
        if let Some(node) = self.nodes.iter_mut().skip(1).find(is_move)
            && !node.nags.contains(&nag)
        {
            node.nags.push(nag);
        }
    }

    /// The position of every node.
    fn positions(&self) -> Result<Vec<Position>, ApiError> {
        if self.nodes.len() > MAX_NODES + 1 {
            return Err(too_many_moves());
        }
        if self.nodes.is_empty() {
            return Err(ApiError::new("The game has no start position."));
        }
        let mut positions = vec![parse_position(&self.start, self.chess960)?];
        let mut plies = vec![0];
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            if node.parent >= index {
                return Err(ApiError::new("A move comes before the one that it follows."));
            }
            if plies[node.parent] >= MAX_PLIES {
                return Err(too_many_plies());
            }
            let before = &positions[node.parent];
            let after = before.after(board::parse_uci(before, &node.uci)?);
            plies.push(plies[node.parent] + 1);
            positions.push(after);
        }
        Ok(positions)
    }

    /// The game as the reader of PGN gives it.
    ///
    /// # Errors
    /// As [`GameTree::complete`], and variations are nested too deeply.
    pub fn into_pgn(self) -> Result<PgnGame, ApiError> {
        let positions = self.positions()?;
        let mut children = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            children[node.parent].push(index);
        }
        let mut pgn = PgnGame { game: Game::new(positions[0].clone()), ..PgnGame::default() };
        let mut at = 0;
        loop {
            let (ply, node) = (pgn.game.moves().len(), &self.nodes[at]);
            // A game that is over has no evaluation: a mate on the board would be one in one move.
            let score = node.score().filter(|_| positions[at].has_legal_moves());
            pgn.evaluations.extend(score.map(|score| (ply, score)));
            let comment = one_line(&[&node.before, " ", &node.comment].concat());
            if !comment.is_empty() {
                pgn.comments.push((ply, comment));
            }
            pgn.nags.extend(node.nags.iter().map(|&nag| (ply, nag)));
            let Some((&main, others)) = children[at].split_first() else { break };
            for &other in others {
                let variation = self.variation(other, &children, &positions, 1)?;
                pgn.variations.push((ply + 1, variation));
            }
            let mv = board::parse_uci(&positions[at], &self.nodes[main].uci)?;
            pgn.game.play(mv);
            at = main;
        }
        pgn.tags = self.tags.into_iter().filter(|(name, _)| is_kept_tag(name)).collect();
        Ok(pgn)
    }

    /// The variation that begins with a node.
    fn variation(
        &self,
        first: usize,
        children: &[Vec<usize>],
        positions: &[Position],
        depth: usize,
    ) -> Result<Variation, ApiError> {
        if depth > MAX_DEPTH {
            return Err(ApiError::new(format!(
                "Variations are nested more than {MAX_DEPTH} deep. Promote or delete one."
            )));
        }
        let mut items = Vec::new();
        let mut siblings: &[usize] = &[];
        let mut next = Some(first);
        while let Some(at) = next {
            let node = &self.nodes[at];
            let before = &positions[node.parent];
            let comment = |text: &str| {
                Some(one_line(text)).filter(|text| !text.is_empty()).map(VariationItem::Comment)
            };
            items.extend(comment(&node.before));
            items.push(VariationItem::Move(to_san(before, board::parse_uci(before, &node.uci)?)));
            items.extend(node.nags.iter().map(|&nag| VariationItem::Nag(nag)));
            items.extend(comment(&said(node.score(), &node.comment)));
            for &sibling in siblings {
                let nested = self.variation(sibling, children, positions, depth + 1)?;
                items.push(VariationItem::Variation(nested));
            }
            next = children[at].first().copied();
            siblings = children[at].get(1..).unwrap_or_default();
        }
        Ok(Variation { items })
    }
}

/// A comment with its evaluation.
pub fn said(score: Option<Score>, comment: &str) -> String {
    let score = score
        .map(|score| format!("[%eval {}] ", games::white_score_text(score, board::Color::White)));
    score.unwrap_or_default() + comment
}

/// A name that PGN allows, and none that the start position decides.
fn is_kept_tag(name: &str) -> bool {
    let of_start = ["FEN", "SetUp"].iter().any(|tag| name.eq_ignore_ascii_case(tag));
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    !of_start && !name.is_empty() && name.len() <= 64 && is_name(name)
}

pub fn too_many_moves() -> ApiError {
    ApiError(format!("A game has at most {MAX_NODES} moves here, variations included."))
}

pub(super) fn too_many_plies() -> ApiError {
    ApiError(format!("A game has at most {MAX_PLIES} plies here."))
}
