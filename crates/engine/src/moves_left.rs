//! Leela's guess how long the game will last, beside the lines of any search. Most searches have no
//! use for it, so it is asked once for each search, of the root, and only where it is shown.

use std::{sync::Arc, time::Instant};

use board::Game;
use eval::{
    Batch, EvalError,
    cpu::{CpuLogits, CpuOptions},
};
use nets::{HeadKind, Network};
use search::{Control, Limits, Outcome, Search, SearchInfo, Settings};

/// A search over a network that guesses how long the game will last.
pub(crate) struct WithMovesLeft {
    search: Box<dyn Search>,
    network: Arc<Network>,
    options: CpuOptions,
    /// Compiled when it is asked for the first time.
    logits: Option<CpuLogits>,
    is_shown: bool,
}

impl WithMovesLeft {
    /// The search itself where the network makes no such guess.
    pub fn around(
        search: Box<dyn Search>,
        network: &Arc<Network>,
        options: CpuOptions,
        settings: &Settings,
    ) -> Box<dyn Search> {
        if network.description.head(HeadKind::MovesLeft).is_none() {
            return search;
        }
        let (network, is_shown) = (Arc::clone(network), settings.show_moves_left);
        Box::new(Self { search, network, options, logits: None, is_shown })
    }

    /// Moves until the game ends; the network counts plies.
    fn guess(&mut self, game: &Game) -> Result<u32, EvalError> {
        let logits = match &mut self.logits {
            Some(logits) => logits,
            none => none.insert(CpuLogits::new(
                Arc::clone(&self.network),
                CpuOptions { threads: 1, ..self.options },
            )?),
        };
        let mut batch = Batch::default();
        batch.push(game.remembering().position(), true, &[]);
        let plies = logits.logits_of(&batch, HeadKind::MovesLeft)?;
        // Casts saturate; NaN becomes 0.
        Ok(plies.first().map_or(0, |plies| ((plies + 1.0) / 2.0) as u32))
    }
}

impl Search for WithMovesLeft {
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, EvalError> {
        if !self.is_shown {
            return self.search.search(game, limits, control, report);
        }
        let began = Instant::now();
        // The guess only goes beside the lines: without it the search is the same.
        let moves_left = self.guess(game).ok();
        let limits = limits.less(began.elapsed());
        let mut outcome = self.search.search(game, &limits, control, &mut |info| {
            report(&SearchInfo { moves_left, ..info.clone() });
        })?;
        outcome.lines.iter_mut().for_each(|line| line.moves_left = moves_left);
        Ok(outcome)
    }

    fn configure(&mut self, settings: &Settings) {
        self.is_shown = settings.show_moves_left;
        self.search.configure(settings);
    }

    fn clear(&mut self) {
        self.search.clear();
    }

    fn chances(&mut self, game: &Game) -> Option<Result<Vec<(board::Move, f32)>, EvalError>> {
        self.search.chances(game)
    }
}

#[cfg(test)]
mod tests {
    use nets::{Activation, Description, Head, Layer, Leela, LeelaInput};
    use search::Algorithm;

    use super::*;
    use crate::{EngineBuilder, EngineOptions};

    /// A network that guesses so many plies for every position.
    fn network(plies: f32) -> Arc<Network> {
        let input = LeelaInput::Classical;
        let choice = Leela { input, channels: 4, blocks: 1, squeezed: 2, is_older: false };
        let mut description = Description::leela(&choice);
        let left = Layer::Dense { channels: 1, norm: false, activation: Activation::Relu };
        description.heads.push(Head::plain(HeadKind::MovesLeft, vec![left]));
        let mut network = Network::random(description, 1).unwrap();
        network.tensors.get_mut("moves-left.0.weight").unwrap().data.fill(0.0);
        network.tensors.get_mut("moves-left.0.bias").unwrap().data.fill(plies);
        Arc::new(network)
    }

    #[test]
    fn every_line_has_the_guess_where_it_is_shown() {
        for (plies, moves) in [(0.0, 0), (57.4, 29), (f32::NAN, 0), (1e30, u32::MAX)] {
            let network = network(plies);
            let system = nets::System::BatchFirst;
            let options =
                EngineOptions { algorithm: Some(Algorithm::Puct), ..EngineOptions::default() };
            let builder = EngineBuilder::over(Arc::clone(&network), system, options.clone());
            let mut search = builder.build().unwrap().search;
            for is_shown in [false, true, false] {
                let settings = Settings { show_moves_left: is_shown, ..options.settings.clone() };
                search.configure(&settings);
                let limits = Limits { nodes: Some(30), ..Limits::default() };
                let mut reported = Vec::new();
                let outcome = search
                    .search(&Game::default(), &limits, &Control::default(), &mut |info| {
                        reported.push(info.moves_left);
                    })
                    .unwrap();
                reported.extend(outcome.lines.iter().map(|line| line.moves_left));
                assert!(reported.len() > 1);
                let expected = is_shown.then_some(moves);
                assert!(reported.iter().all(|&found| found == expected), "{plies}: {reported:?}");
            }
        }
    }
}
