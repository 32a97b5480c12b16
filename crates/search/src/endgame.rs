//! What all searches share at the root: endgame tables, where a search chooses among the moves that
//! keep the tables' result and its score is that result, and the limit of a weaker player.

use std::time::Instant;

use board::{Color, Game, Move, Score};
use eval::EvalError;
use nets::Wdl;

use crate::{
    Bound, Control, Limits, Outcome, Search, SearchInfo, Settings,
    score::{LARGEST_VALUE, certain_wdl, from_winner},
};

/// A search decorated with a probe of the endgame tables at the root.
pub(crate) struct Endgame {
    search: Box<dyn Search>,
    settings: Settings,
}

impl Endgame {
    /// Decorates a search that has these settings.
    pub(crate) fn new(search: Box<dyn Search>, settings: &Settings) -> Self {
        Self { search, settings: settings.clone() }
    }
}

impl Search for Endgame {
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        let limits =
            &self.settings.evaluations.map_or_else(|| limits.clone(), |most| limits.at_most(most));
        if limits.mate.is_some() && self.settings.tables.is_some() {
            // The moves that keep the tables' result may leave out the fastest mate.
            self.search.configure(&Settings { tables: None, ..self.settings.clone() });
            let outcome = self.search.search(game, limits, control, report);
            self.search.configure(&self.settings);
            return outcome;
        }
        let probing = Instant::now();
        let known =
            self.settings.tables.as_ref().and_then(|tables| tables.root(game)).and_then(|known| {
                let moves: Vec<Move> =
                    known.moves.into_iter().filter(|&mv| limits.allows(mv)).collect();
                (!moves.is_empty()).then_some((moves, known.winner))
            });
        let Some((search_moves, winner)) = known else {
            return self.search.search(game, &limits.less(probing.elapsed()), control, report);
        };
        // Probing a slow disk takes time.
        let limits = Limits { search_moves, ..limits.less(probing.elapsed()) };
        let turn = game.position().turn();
        let mut outcome = self
            .search
            .search(game, &limits, control, &mut |info| report(&certain(info, winner, turn)))?;
        outcome.lines = outcome.lines.iter().map(|info| certain(info, winner, turn)).collect();
        Ok(outcome)
    }

    fn configure(&mut self, settings: &Settings) {
        self.settings.clone_from(settings);
        self.search.configure(settings);
    }

    fn clear(&mut self) {
        self.search.clear();
    }

    fn chances(&mut self, game: &Game) -> Option<Result<Vec<(Move, f32)>, EvalError>> {
        self.search.chances(game)
    }
}

/// The line with the score that the tables give, unless its own score is a mate or the same result
/// by tables.
fn certain(info: &SearchInfo, winner: Option<Color>, turn: Color) -> SearchInfo {
    let value = from_winner(winner, turn);
    let agrees = match info.score {
        Score::Mate(_) => true,
        Score::Centipawns(found) => found.abs() > LARGEST_VALUE && found.signum() == value.signum(),
    };
    if agrees {
        return info.clone();
    }
    let wdl = certain_wdl(value).unwrap_or(Wdl { win: 0, draw: 1000, loss: 0 });
    SearchInfo { score: Score::Centipawns(value), bound: Bound::Exact, wdl, ..info.clone() }
}

#[cfg(test)]
mod tests;
