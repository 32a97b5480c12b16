//! Which games are played here, by the tag `Variant`: one rule for annotation, training data and
//! openings.

use board::CastlingMode;

/// Names of standard chess, with or without a start position; letters and digits only.
const STANDARD: [&str; 10] = [
    "",
    "standard",
    "chess",
    "normal",
    "classical",
    "fromposition",
    "wildstandard",
    "standardchess",
    "orthodox",
    "orthochess",
];
const CHESS960: [&str; 6] =
    ["chess960", "fischerandom", "fischerrandom", "fischerandomchess", "fischerrandomchess", "frc"];

/// The castling rules of a game: `Some(None)` where the tag does not say, so that the castling
/// rights of its start position decide ([`board::Position::read_fen`]). `None`: another variant.
#[must_use]
pub fn castling_mode_of_variant(variant: Option<&str>) -> Option<Option<CastlingMode>> {
    let name: String = variant
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    if STANDARD.contains(&name.as_str()) {
        Some(None)
    } else if CHESS960.contains(&name.as_str()) {
        Some(Some(CastlingMode::Chess960))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_variants_are_no_chess960() {
        for name in ["Standard", "From Position", "wild/standard", "normal", "?", ""] {
            assert_eq!(castling_mode_of_variant(Some(name)), Some(None), "{name}");
        }
        for name in ["Chess960", "chess 960", "Fischerandom", "Fischer Random", "FRC"] {
            assert_eq!(castling_mode_of_variant(Some(name)), Some(Some(CastlingMode::Chess960)));
        }
        for name in [
            "Crazyhouse960",
            "Atomic",
            "Antichess",
            "Three-check",
            "960 Horde",
            "Double Fischer Random",
        ] {
            assert_eq!(castling_mode_of_variant(Some(name)), None, "{name}");
        }
        assert_eq!(castling_mode_of_variant(None), Some(None));
    }
}
