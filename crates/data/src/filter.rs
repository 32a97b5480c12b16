//! The conditions that the games of an import must meet.

use serde::{Deserialize, Serialize};

use crate::skip::SkipKind;

/// The results that pass a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultFilter {
    /// Any result, known or not.
    #[default]
    Any,
    /// Games with a known result: won, lost or drawn.
    Finished,
    /// Games that one side won.
    Decisive,
}

/// Conditions on whole games; single positions always pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GameFilter {
    /// Smallest rating of both players. A game without ratings does not pass.
    pub min_elo: Option<u32>,
    pub results: ResultFilter,
    /// Smallest length of a game.
    pub min_plies: Option<u32>,
    /// Largest length of a game.
    pub max_plies: Option<u32>,
}

/// The properties of a game that a filter checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GameSummary {
    /// Ratings of White and Black; 0 where unknown.
    pub elo: [u32; 2],
    pub is_draw: bool,
    pub is_decisive: bool,
    pub plies: usize,
}

impl GameFilter {
    /// The reason to skip the game; `None` when it passes.
    pub(crate) fn skip_reason(&self, game: &GameSummary) -> Option<SkipKind> {
        let fits = match self.results {
            ResultFilter::Any => true,
            ResultFilter::Finished => game.is_decisive || game.is_draw,
            ResultFilter::Decisive => game.is_decisive,
        };
        if self.min_elo.is_some_and(|least| game.elo.iter().any(|&elo| elo < least.max(1))) {
            Some(SkipKind::Elo)
        } else if !fits {
            Some(SkipKind::Result)
        } else if self.min_plies.is_some_and(|least| game.plies < least as usize)
            || self.max_plies.is_some_and(|most| game.plies > most as usize)
        {
            Some(SkipKind::Length)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_condition_gives_its_own_reason() {
        let game = GameSummary { elo: [2100, 2000], is_draw: true, is_decisive: false, plies: 60 };
        let any = GameFilter::default();
        assert_eq!(any.skip_reason(&GameSummary::default()), None);
        let strong = GameFilter { min_elo: Some(2000), ..any };
        assert_eq!(strong.skip_reason(&game), None);
        assert_eq!(
            strong.skip_reason(&GameSummary { elo: [2400, 1999], ..game }),
            Some(SkipKind::Elo)
        );
        assert_eq!(
            strong.skip_reason(&GameSummary { elo: [2400, 0], ..game }),
            Some(SkipKind::Elo)
        );
        let decisive = GameFilter { results: ResultFilter::Decisive, ..any };
        assert_eq!(decisive.skip_reason(&game), Some(SkipKind::Result));
        let finished = GameFilter { results: ResultFilter::Finished, ..any };
        assert_eq!(finished.skip_reason(&game), None);
        assert_eq!(
            finished.skip_reason(&GameSummary { is_draw: false, ..game }),
            Some(SkipKind::Result)
        );
        let long = GameFilter { min_plies: Some(20), max_plies: Some(60), ..any };
        assert_eq!(long.skip_reason(&game), None);
        assert_eq!(long.skip_reason(&GameSummary { plies: 61, ..game }), Some(SkipKind::Length));
        assert_eq!(long.skip_reason(&GameSummary { plies: 19, ..game }), Some(SkipKind::Length));
    }
}
