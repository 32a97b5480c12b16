//! Which games an import takes.

use serde::{Deserialize, Serialize};

use crate::skip::SkipKind;

/// Which results are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResultFilter {
    /// Whatever the result.
    #[default]
    Any,
    /// Games that ended: won, lost or drawn.
    Finished,
    /// Games that one side won.
    Decisive,
}

/// Conditions on whole games; single positions are no games and pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GameFilter {
    /// Both sides are rated at least so high. A game without ratings does not pass.
    pub min_elo: Option<u32>,
    pub results: ResultFilter,
    /// Moves of both sides.
    pub min_plies: Option<u32>,
    pub max_plies: Option<u32>,
}

/// What a filter asks of a game.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GameSummary {
    /// White's and Black's, 0 for none.
    pub elo: [u32; 2],
    pub is_draw: bool,
    pub is_decisive: bool,
    pub plies: usize,
}

impl GameFilter {
    /// Why the game is left out, if it is.
    pub(crate) fn refuses(&self, game: &GameSummary) -> Option<SkipKind> {
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
    fn each_condition_refuses_what_it_names() {
        let game = GameSummary { elo: [2100, 2000], is_draw: true, is_decisive: false, plies: 60 };
        let any = GameFilter::default();
        assert_eq!(any.refuses(&GameSummary::default()), None);
        let strong = GameFilter { min_elo: Some(2000), ..any };
        assert_eq!(strong.refuses(&game), None);
        assert_eq!(strong.refuses(&GameSummary { elo: [2400, 1999], ..game }), Some(SkipKind::Elo));
        assert_eq!(strong.refuses(&GameSummary { elo: [2400, 0], ..game }), Some(SkipKind::Elo));
        let decisive = GameFilter { results: ResultFilter::Decisive, ..any };
        assert_eq!(decisive.refuses(&game), Some(SkipKind::Result));
        let finished = GameFilter { results: ResultFilter::Finished, ..any };
        assert_eq!(finished.refuses(&game), None);
        assert_eq!(
            finished.refuses(&GameSummary { is_draw: false, ..game }),
            Some(SkipKind::Result)
        );
        let long = GameFilter { min_plies: Some(20), max_plies: Some(60), ..any };
        assert_eq!(long.refuses(&game), None);
        assert_eq!(long.refuses(&GameSummary { plies: 61, ..game }), Some(SkipKind::Length));
        assert_eq!(long.refuses(&GameSummary { plies: 19, ..game }), Some(SkipKind::Length));
    }
}
