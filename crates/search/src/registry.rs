//! The searches by name: one table, which front ends read, and the trait that all searches share.

use std::str::FromStr;

use board::{Game, Move};
use eval::Evaluator;
use nets::{Calibration, HeadKind, Network};

use crate::{
    AlphaBeta, CockfishSearch, Control, KBest, Limits, Outcome, Puct, SearchInfo, Settings,
    endgame::Endgame, mating::MatingKnowledge,
};

/// A search of [`SEARCHES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Batch First's K-best-first search.
    KBest,
    /// The K-best-first search of 2018.
    KBestClassic,
    AlphaBeta,
    Puct,
    /// [`CockfishSearch`]; its name in options is `minimax`.
    Minimax,
}

/// The registry's row of a search, for front ends.
#[derive(Clone, Copy, Debug)]
pub struct SearchEntry {
    pub algorithm: Algorithm,
    /// Name in options and messages.
    pub name: &'static str,
    /// One phrase for users.
    pub description: &'static str,
    /// Does it need a network that scores moves?
    pub needs_move_scores: bool,
}

/// Every search, the default first.
pub const SEARCHES: [SearchEntry; 5] = [
    SearchEntry {
        algorithm: Algorithm::KBest,
        name: "kbest",
        description: "K-best-first: zero-window passes over one queue of nodes, in batches",
        needs_move_scores: true,
    },
    SearchEntry {
        algorithm: Algorithm::KBestClassic,
        name: "kbest-classic",
        description: "K-best-first as published in 2018",
        needs_move_scores: true,
    },
    SearchEntry {
        algorithm: Algorithm::AlphaBeta,
        name: "alphabeta",
        description: "principal variation search, one position at a time",
        needs_move_scores: false,
    },
    SearchEntry {
        algorithm: Algorithm::Puct,
        name: "puct",
        description: "Monte Carlo tree search with a policy",
        needs_move_scores: true,
    },
    SearchEntry {
        algorithm: Algorithm::Minimax,
        name: "minimax",
        description: "Cockfish's alpha-beta to a fixed depth",
        needs_move_scores: false,
    },
];

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::KBest, Self::KBestClassic, Self::AlphaBeta, Self::Puct, Self::Minimax];

    /// Its row of [`SEARCHES`], which has the order of this type.
    #[must_use]
    pub fn entry(self) -> SearchEntry {
        SEARCHES[self as usize]
    }

    /// Name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// The default search of a network: K-best-first; PUCT for Leela's, whose single values are
    /// unreliable while means are good (docs/experiments/2026-11-leela-search.md); Cockfish's where
    /// no head scores moves.
    #[must_use]
    pub fn of(network: &Network) -> Self {
        if !has_move_scores(network) {
            Self::Minimax
        } else if network.description.encoding.has_history() {
            Self::Puct
        } else {
            Self::KBest
        }
    }

    /// Can it search with this network?
    #[must_use]
    pub fn suits(self, network: &Network) -> bool {
        !self.entry().needs_move_scores || has_move_scores(network)
    }

    /// A search of this kind over an evaluator of a network that [suits](Self::suits) it.
    #[must_use]
    pub fn build(
        self,
        evaluator: Box<dyn Evaluator>,
        network: &Network,
        settings: &Settings,
    ) -> Box<dyn Search> {
        let search = self.over(evaluator, &network.calibration, has_move_scores(network), settings);
        if network.description.encoding.has_history() {
            Box::new(Remembering(search))
        } else {
            search
        }
    }

    /// As [`build`](Self::build), without a network: `calibration` is what it would have,
    /// `scores_moves` says whether the evaluator scores moves.
    #[must_use]
    pub fn over(
        self,
        evaluator: Box<dyn Evaluator>,
        calibration: &Calibration,
        scores_moves: bool,
        settings: &Settings,
    ) -> Box<dyn Search> {
        // The two searches as published have no mating knowledge.
        let evaluator: Box<dyn Evaluator> = match self {
            Self::KBestClassic | Self::Minimax => evaluator,
            Self::KBest | Self::AlphaBeta | Self::Puct => Box::new(MatingKnowledge(evaluator)),
        };
        let search: Box<dyn Search> = match self {
            Self::KBest => Box::new(KBest::new(evaluator, calibration, settings)),
            Self::KBestClassic => Box::new(KBest::new(evaluator, calibration, settings).classic()),
            Self::AlphaBeta if !scores_moves => {
                Box::new(AlphaBeta::of_values(evaluator, calibration, settings))
            }
            Self::AlphaBeta => Box::new(AlphaBeta::new(evaluator, calibration, settings)),
            Self::Puct => Box::new(Puct::new(evaluator, calibration, settings)),
            Self::Minimax => Box::new(CockfishSearch::new(evaluator, calibration, settings)),
        };
        Box::new(Endgame::new(search, settings))
    }
}

/// A search over a network that sees earlier positions: every position remembers those before it.
struct Remembering(Box<dyn Search>);

impl Search for Remembering {
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, eval::EvalError> {
        self.0.search(&game.remembering(), limits, control, report)
    }

    fn configure(&mut self, settings: &Settings) {
        self.0.configure(settings);
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

fn has_move_scores(network: &Network) -> bool {
    network.description.heads.iter().any(|head| head.kind == HeadKind::Moves)
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == text).ok_or_else(|| {
            format!("`{text}` is not a search; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// A search that keeps evaluations from move to move.
pub trait Search: Send {
    /// Searches the current position of `game`. `report` gets every new line; it is called on this
    /// thread.
    ///
    /// # Errors
    /// The evaluator failed.
    fn search(
        &mut self,
        game: &Game,
        limits: &Limits,
        control: &Control,
        report: &mut dyn FnMut(&SearchInfo),
    ) -> Result<Outcome, eval::EvalError>;

    /// Takes new settings; another memory size clears the search's memory.
    fn configure(&mut self, settings: &Settings);

    /// Clears evaluations and bounds (`ucinewgame`, a changed network).
    fn clear(&mut self);

    /// For a search that chooses by chance: every legal move of the game's position with its chance,
    /// the likeliest first.
    fn chances(&mut self, _game: &Game) -> Option<Result<Vec<(Move, f32)>, eval::EvalError>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::{
        thread,
        time::{Duration, Instant},
    };

    use board::{CastlingMode, Position};
    use eval::Mock;
    use nets::MoveScores;

    use super::*;

    fn every() -> impl Iterator<Item = (&'static str, Box<dyn Search>)> {
        let mock = || Box::new(Mock::new(4));
        let settings = Settings { hash_mib: 16, multipv: 3, ..Settings::default() };
        let static_leaves = Settings { quiet_leaves: false, ..settings.clone() };
        let without_move_scores = [
            (
                "minimax without quiescence",
                Algorithm::Minimax.over(mock(), &Calibration::default(), false, &static_leaves),
            ),
            (
                "alphabeta over values",
                Algorithm::AlphaBeta.over(mock(), &Calibration::default(), false, &settings),
            ),
        ];
        let scores = [MoveScores::Centipawns, MoveScores::Policy];
        let algorithms = Algorithm::ALL.into_iter().flat_map(move |algorithm| {
            let settings = settings.clone();
            scores.into_iter().map(move |move_scores| {
                let calibration = Calibration { move_scores, ..Calibration::default() };
                (algorithm.name(), algorithm.over(mock(), &calibration, true, &settings))
            })
        });
        algorithms.chain(without_move_scores)
    }

    fn go(search: &mut dyn Search, game: &Game, limits: &Limits) -> Outcome {
        search.search(game, limits, &Control::default(), &mut |_| {}).unwrap()
    }

    fn game(fen: &str) -> Game {
        Game::new(Position::from_fen(fen, CastlingMode::Standard).unwrap())
    }

    #[test]
    fn every_search_has_its_row() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.entry().algorithm, algorithm);
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
    }

    #[test]
    fn every_search_answers_whatever_the_limits() {
        // Starting position, one legal move, few positions in all, mate, stalemate.
        let fens = [
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
            "k7/8/1Q6/8/8/8/8/K7 w - - 0 1",
            "7k/8/8/8/8/8/r7/1r4K1 w - - 0 1",
            "8/8/4k3/1p1p1p1p/1P1P1P1P/4K3/8/8 w - - 75 100",
            "7k/6Q1/6K1/8/8/8/8/8 b - - 0 1",
            "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1",
        ];
        for (name, mut search) in every() {
            for fen in fens {
                let game = game(fen);
                let legal: Vec<Move> = game.position().legal_moves().to_vec();
                let few = legal.iter().copied().skip(1).take(1).collect::<Vec<_>>();
                let limits = [
                    Limits { nodes: Some(0), ..Limits::default() },
                    Limits { nodes: Some(1), ..Limits::default() },
                    Limits { nodes: Some(500), ..Limits::default() },
                    Limits { movetime: Some(Duration::ZERO), ..Limits::default() },
                    Limits { movetime: Some(Duration::from_millis(30)), ..Limits::default() },
                    Limits { nodes: Some(500), search_moves: few.clone(), ..Limits::default() },
                    Limits { mate: Some(1), ..Limits::default() },
                ];
                for limits in &limits {
                    let outcome = go(search.as_mut(), &game, limits);
                    let wanted = if limits.search_moves.is_empty() { &legal } else { &few };
                    let is_right = match outcome.best {
                        Some(best) => wanted.contains(&best),
                        None => wanted.is_empty(),
                    };
                    assert!(is_right, "{name} {fen} {limits:?}: {:?}", outcome.best);
                    // The move is chosen by one evaluation at least.
                    let most = limits.nodes.map_or(u64::MAX, |nodes| nodes.max(1));
                    assert!(outcome.nodes <= most, "{name}");
                    assert!(outcome.lines.iter().all(|line| !line.pv.is_empty()));
                }
            }
        }
    }

    #[test]
    fn every_search_stops_when_told_and_waits_until_then() {
        let endless = game("8/8/4k3/1p1p1p1p/1P1P1P1P/4K3/8/8 w - - 75 100");
        for (name, mut search) in every() {
            for game in [&Game::default(), &endless] {
                let control = Control::default();
                let stopper = control.clone();
                let started = Instant::now();
                let thread = thread::spawn(move || {
                    thread::sleep(Duration::from_millis(150));
                    stopper.stop();
                });
                let limits = Limits { infinite: true, ..Limits::default() };
                let outcome = search.search(game, &limits, &control, &mut |_| {}).unwrap();
                thread.join().unwrap();
                assert!(started.elapsed() >= Duration::from_millis(150), "{name}");
                assert!(outcome.best.is_some());
            }
        }
    }

    #[test]
    fn a_weaker_player_stops_early_and_analyses_as_always() {
        let game = Game::default();
        let weaker = Settings { evaluations: Some(40), hash_mib: 16, ..Settings::default() };
        for algorithm in Algorithm::ALL {
            let mock = Box::new(Mock::new(4));
            let mut search = algorithm.over(mock, &Calibration::default(), true, &weaker);
            let limits = Limits { nodes: Some(400), ..Limits::default() };
            let played = go(search.as_mut(), &game, &limits).nodes;
            assert!((1..=40).contains(&played), "{algorithm:?}: {played}");
            let fewer = Limits { nodes: Some(20), ..Limits::default() };
            assert!(go(search.as_mut(), &game, &fewer).nodes <= 20, "{algorithm:?}");
            let limits = Limits { analysis: true, ..limits };
            assert!(go(search.as_mut(), &game, &limits).nodes > 40, "{algorithm:?}");
        }
    }

    #[test]
    fn a_search_can_be_given_other_memory() {
        for (_, mut search) in every() {
            let limits = Limits { nodes: Some(300), ..Limits::default() };
            for hash_mib in [1, 4, 1] {
                search.configure(&Settings { hash_mib, batch: 4096, ..Settings::default() });
                assert!(go(search.as_mut(), &Game::default(), &limits).best.is_some());
                search.clear();
            }
        }
    }
}
