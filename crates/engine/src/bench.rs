//! The bench that frameworks for engine tests run (OpenBench, fastchess): a number of nodes that
//! only a change of the search changes, and the speed of the machine.

use std::{path::Path, sync::Arc, time::Instant};

use board::{CastlingMode, Game, Position};
use eval::{Devices, Mock};
use nets::{Calibration, MoveScores};
use search::{Algorithm, Control, Limits, Search, Settings};

use crate::{EngineError, EngineOptions, evaluator, load};

/// Positions of games, from the middle of them to the end.
const FENS: [&str; 12] = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "r3k2r/p1p4p/1qn2n2/1p2Nbp1/2P5/P7/3NQP1P/2B1KB1R w Kkq - 0 1",
    "r1b2r2/2q1bp1k/1p2p3/p2pP3/2p2B2/PPP5/R4PPP/3QK2R b K - 0 1",
    "r1bnk2r/2p1bp2/1p3p2/pP2pN2/3pB1p1/P2P4/1P1NPP1P/2KR3R w kq - 0 1",
    "1rb3k1/1pb1rpp1/2p2q1p/p2p1P2/P4B2/1P1B1Q1P/2P2PP1/1R3RK1 w - - 0 1",
    "r1b2rn1/pp4k1/4p2p/3pP3/2pQ2pP/2P1qN2/PP2B1P1/R3K2R w KQ - 0 1",
    "r5kr/1b4pp/p3pp2/1p1p4/3NqP2/1Q2P1P1/P2P3P/4KBR1 w - - 0 1",
    "5rk1/p6b/1p6/2p4p/2PpP1nq/5PR1/PP1KQ1P1/R4B2 b - - 0 1",
    "5r1k/7p/2p2p2/p7/P4P2/2Q3RP/1PN2K2/1RBr3q b - - 0 1",
    "3k4/1pp2p1p/p4p2/4q3/PP2P3/2P1P2b/2Q1B3/R5K1 b - - 0 1",
    "8/p4k2/1p2R3/5P2/P2p4/6K1/1P1p1n1r/6R1 b - - 0 1",
    "8/8/4Q3/6k1/8/4K3/1P6/7q w - - 0 1",
];

/// Plies for the number of nodes.
const DEPTH: u32 = 6;

/// Evaluations a position for the speed.
const NODES: u64 = 2_000;

/// What [`bench`] measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BenchResult {
    /// Evaluations that K-best-first needs to a fixed depth on fixed positions, with scores from a
    /// hash instead of a network: the same on every machine.
    pub nodes: u64,
    /// Evaluations a second of the same search over the network `fast`, one position at a time on
    /// one thread.
    pub nodes_per_second: f64,
}

impl std::fmt::Display for BenchResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} nodes {:.0} nps", self.nodes, self.nodes_per_second)
    }
}

/// Counts and times searches; takes a second or two.
///
/// # Errors
/// The network `fast` cannot be evaluated here.
pub fn bench() -> Result<BenchResult, EngineError> {
    let settings = Settings { batch: 1, hash_mib: 16, ..Settings::default() };
    let calibration = Calibration { move_scores: MoveScores::Policy, ..Calibration::default() };
    let mock = Box::new(Mock::new(1).with_policy());
    let mut counted = Algorithm::KBest.over(mock, &calibration, true, &settings);
    let to_depth = Limits { depth: Some(DEPTH), ..Limits::default() };
    let nodes = search_all(counted.as_mut(), &to_depth)?;
    let options = EngineOptions { devices: Devices::cpu(), ..EngineOptions::default() };
    let network = Arc::new(load(Path::new("fast"))?);
    let evaluator = evaluator(&network, &options)?;
    let mut timed = Algorithm::KBest.build(evaluator, &network, &settings);
    let started = Instant::now();
    let evaluated =
        search_all(timed.as_mut(), &Limits { nodes: Some(NODES), ..Limits::default() })?;
    let nodes_per_second = evaluated as f64 / started.elapsed().as_secs_f64();
    Ok(BenchResult { nodes, nodes_per_second })
}

/// Searches every position and adds up the evaluations.
fn search_all(search: &mut dyn Search, limits: &Limits) -> Result<u64, EngineError> {
    let mut nodes = 0;
    for fen in FENS {
        search.clear();
        // Every text is a position; a test looks.
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap_or_default();
        nodes +=
            search.search(&Game::new(position), limits, &Control::default(), &mut |_| {})?.nodes;
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_nodes_repeats() {
        for fen in FENS {
            Position::from_fen(fen, CastlingMode::Standard).unwrap();
        }
        let [one, other] = [bench().unwrap(), bench().unwrap()];
        assert_eq!(one.nodes, other.nodes);
        assert!(one.nodes > 1_000 && one.nodes_per_second > 1.0, "{one}");
    }
}
