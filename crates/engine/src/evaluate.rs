//! What a network says of one position, without a search: no tree, no tables, no cache.

use std::sync::Arc;

use board::{Game, Score};
use eval::{Batch, Devices};
use nets::{HeadKind, Wdl};

use crate::{
    EngineError, EngineOptions,
    build::{choose, evaluator, has_search, without_search_on},
};

/// The score of a game's position and its chances, both of the side to move, from the value head of
/// the network that the options [`choose`]. `None`: the network has no value head.
///
/// Loads the network for this one answer, which is the same whatever was searched before.
///
/// # Errors
/// The network, the device or the code path cannot be used.
pub fn evaluate(options: &EngineOptions, game: &Game) -> Result<Option<(Score, Wdl)>, EngineError> {
    let (network, system) = choose(options)?;
    if network.description.head(HeadKind::Value).is_none() {
        return Ok(None);
    }
    let mut options = EngineOptions { threads: 1, ..options.clone() };
    if !has_search(system) {
        options.precision = without_search_on(&network, &options).precision;
        options.devices = Devices::cpu();
    }
    let network = Arc::new(network);
    let mut batch = Batch::default();
    if network.description.encoding.has_history() {
        batch.push(game.remembering().position(), true, &[]);
    } else {
        batch.push(game.position(), true, &[]);
    }
    let mut evaluator = evaluator(&network, &options)?;
    evaluator.submit(batch)?;
    let values = evaluator.wait()?.scores.values;
    Ok(values
        .first()
        .map(|&value| (Score::Centipawns(value.round() as i32), network.calibration.wdl.at(value))))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use board::{CastlingMode, Position};
    use nets::System;

    use super::*;

    /// The score without a queen, in centipawns.
    fn a_queen_behind(options: &EngineOptions, turn: char) -> i32 {
        let fen = match turn {
            'w' => "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNB1KBNR w KQkq - 0 1",
            _ => "rnb1kbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1",
        };
        let game = Game::new(Position::from_fen(fen, CastlingMode::Standard).unwrap());
        let (score, wdl) = evaluate(options, &game).unwrap().unwrap();
        assert!(wdl.loss > wdl.win, "{wdl:?}");
        let Score::Centipawns(score) = score else { panic!("{score:?}") };
        score
    }

    #[test]
    fn scores_are_those_of_the_side_to_move() {
        let devices = Devices::cpu();
        let fast = EngineOptions {
            network: Some(PathBuf::from("fast")),
            devices: devices.clone(),
            ..EngineOptions::default()
        };
        // Its network sees the board from White's side.
        let cockfish = EngineOptions {
            system: Some(System::Cockfish),
            devices: devices.clone(),
            ..EngineOptions::default()
        };
        for options in [fast, cockfish] {
            for turn in ['w', 'b'] {
                let score = a_queen_behind(&options, turn);
                assert!(score < -100, "{turn}: {score}");
            }
        }
        let selectors =
            EngineOptions { system: Some(System::ConvChess), devices, ..EngineOptions::default() };
        assert_eq!(evaluate(&selectors, &Game::default()).unwrap(), None, "no value head");
    }
}
