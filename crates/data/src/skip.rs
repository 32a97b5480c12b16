//! The reasons for which games, lines and positions are skipped, and their counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A reason to skip a game, a line or a position of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipKind {
    /// A game of a variant other than Chess960.
    Variant,
    /// A game whose FEN tag cannot be used.
    BadStart,
    /// Text that is not a game.
    NoGame,
    /// A game whose players are rated too low or not at all.
    Elo,
    /// A game with another result than asked for.
    Result,
    /// A game that is too short or too long.
    Length,
    /// A game cut off, or a line dropped, at an illegal move.
    IllegalMove,
    /// A game cut off at text that is not PGN.
    BadSyntax,
    /// A line among the tags that is not a tag.
    TagLine,
    /// A game whose result tag and moves disagree; the tag counts.
    TwoResults,
    /// A game whose evaluations are from the player's side instead of White's.
    PlayersSide,
    /// An `[%eval]` comment that cannot be read.
    BadEvaluation,
    /// A line that is not JSON of the expected form.
    BadJson,
    /// A FEN or EPD that is not a legal position.
    BadPosition,
    /// Castling rights that the pieces do not have; the position is used without them.
    CastlingRights,
    /// A position in which the game is over.
    GameOver,
    /// A position with neither a value nor a move with a value.
    Unlabelled,
    /// A mate label, dropped on request.
    Mate,
    /// A position that another record already has.
    Duplicate,
}

impl SkipKind {
    /// The reason in words, for a count in front of it.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Variant => "games of other variants",
            Self::BadStart => "games from an unusable FEN",
            Self::NoGame => "texts that are no game",
            Self::Elo => "games of players rated too low or not at all",
            Self::Result => "games with another result",
            Self::Length => "games that are too short or too long",
            Self::IllegalMove => "games cut off, or lines left out, at an illegal move",
            Self::BadSyntax => "games cut off at text that is not understood",
            Self::TagLine => "lines among tags that are no tags",
            Self::TwoResults => "games whose tag and moves give different results",
            Self::PlayersSide => "games with evaluations from the player's side",
            Self::BadEvaluation => "unreadable evaluations",
            Self::BadJson => "lines that are not the expected JSON",
            Self::BadPosition => "lines without a legal position",
            Self::CastlingRights => "castling rights that the pieces do not have",
            Self::GameOver => "positions where the game is over",
            Self::Unlabelled => "positions without a label",
            Self::Mate => "mate labels",
            Self::Duplicate => "duplicate positions",
        }
    }
}

/// Number of skipped items by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Skipped(pub BTreeMap<SkipKind, u64>);

impl Skipped {
    /// Counts one more.
    pub fn add(&mut self, kind: SkipKind) {
        self.add_many(kind, 1);
    }

    /// Counts `count` more; 0 adds no entry.
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

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (&kind, &count) in &other.0 {
            self.add_many(kind, count);
        }
    }
}
