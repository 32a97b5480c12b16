//! Why something was left out, counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A reason to leave a game, a line or a position out of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipKind {
    /// A game of a variant other than Chess960.
    Variant,
    /// A game whose FEN tag cannot be used.
    BadStart,
    /// A game whose players are rated too low or not at all.
    Elo,
    /// A game with another result than asked for.
    Result,
    /// A game that is too short or too long.
    Length,
    /// A game broken off, or a line dropped, at a move that is not legal.
    IllegalMove,
    /// A game broken off, or tags dropped, where the text is no PGN.
    BadSyntax,
    /// The evaluations of a game that are the player's own side's instead of White's.
    PlayersSide,
    /// An `[%eval]` comment that cannot be read.
    BadEvaluation,
    /// A line that is not JSON of the expected form.
    BadJson,
    /// A FEN or EPD that is no legal position.
    BadPosition,
    /// A position in which the game is over.
    GameOver,
    /// A position with neither a value nor a move with a value.
    Unlabelled,
    /// A mate label, left out on request.
    Mate,
    /// A position that another record already has.
    Duplicate,
}

impl SkipKind {
    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Variant => "games of other variants",
            Self::BadStart => "games from an unusable FEN",
            Self::Elo => "games of players rated too low or not at all",
            Self::Result => "games with another result",
            Self::Length => "games that are too short or too long",
            Self::IllegalMove => "games or lines with an illegal move",
            Self::BadSyntax => "games with broken text",
            Self::PlayersSide => "games with evaluations from the player's side",
            Self::BadEvaluation => "unreadable evaluations",
            Self::BadJson => "lines that are not the expected JSON",
            Self::BadPosition => "lines without a legal position",
            Self::GameOver => "positions where the game is over",
            Self::Unlabelled => "positions without a label",
            Self::Mate => "mate labels",
            Self::Duplicate => "duplicate positions",
        }
    }
}

/// How much was left out, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Skipped(pub BTreeMap<SkipKind, u64>);

impl Skipped {
    /// Counts one more.
    pub fn add(&mut self, kind: SkipKind) {
        self.add_many(kind, 1);
    }

    /// Counts `count` more; nothing is noted for none.
    pub fn add_many(&mut self, kind: SkipKind, count: u64) {
        if count > 0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    /// How often this reason occurred.
    #[must_use]
    pub fn count(&self, kind: SkipKind) -> u64 {
        self.0.get(&kind).copied().unwrap_or(0)
    }

    /// Adds another count.
    pub fn merge(&mut self, other: &Self) {
        for (&kind, &count) in &other.0 {
            self.add_many(kind, count);
        }
    }
}
