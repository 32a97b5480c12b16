//! Who gives the labels: a process of another engine, or a network of Stockfish in this program.

use std::{sync::Arc, time::Duration};

use board::Game;
use uci::client::{ClientError, EngineProcess, EngineSpec, SearchRequest};

use crate::{StockfishNetwork, nnue::StockfishEvaluator, self_play::Judged};

/// Who gives the labels of a run.
#[derive(Clone, Debug)]
pub enum Teacher {
    /// A UCI engine, with its nodes a position and the longest wait for one evaluation.
    Engine { engine: EngineSpec, nodes: u64, timeout: Duration },
    /// A network of Stockfish: its value after the captures. It knows no best move.
    Network(Arc<StockfishNetwork>),
}

impl Teacher {
    /// What decides the labels, one a line: what is asked how, and the engine's options.
    pub(crate) fn identity(&self) -> (Vec<String>, Vec<String>) {
        match self {
            Self::Engine { engine, nodes, .. } => {
                let program = engine.program.display();
                let asked = format!("engine {program} {}", engine.arguments.join(" "));
                let options = engine.options.iter();
                let options = options.map(|(name, value)| format!("option {name} {value}"));
                (vec![asked, format!("nodes {nodes}")], options.collect())
            }
            Self::Network(network) => (vec![format!("network {}", network.checksum())], Vec::new()),
        }
    }

    /// Starts the engine or takes the network.
    ///
    /// # Errors
    /// The engine does not start.
    pub(crate) fn labeller(&self) -> Result<Labeller<'_>, ClientError> {
        Ok(match self {
            Self::Engine { engine, nodes, timeout } => Labeller::Engine {
                process: Box::new(start(engine)?),
                request: SearchRequest::Nodes(*nodes),
                timeout: *timeout,
                annotator: format!("{nodes} nodes a position"),
            },
            Self::Network(network) => Labeller::Network {
                evaluator: StockfishEvaluator::new(network),
                name: network.name(),
            },
        })
    }
}

/// Gives labels, on one thread.
pub(crate) enum Labeller<'a> {
    Engine {
        process: Box<EngineProcess>,
        request: SearchRequest,
        timeout: Duration,
        annotator: String,
    },
    Network {
        evaluator: StockfishEvaluator<'a>,
        name: String,
    },
}

impl Labeller<'_> {
    /// Forgets the last game.
    ///
    /// # Errors
    /// The engine failed.
    pub fn new_game(&mut self) -> Result<(), ClientError> {
        match self {
            Self::Engine { process, .. } => process.new_game(),
            Self::Network { .. } => Ok(()),
        }
    }

    /// The value of the last position of a game and its best move, where they are known.
    ///
    /// # Errors
    /// The engine failed.
    pub fn evaluate(&mut self, game: &Game) -> Result<Judged, ClientError> {
        match self {
            Self::Engine { process, request, timeout, .. } => {
                let answer = process.think(game, request, *timeout)?;
                Ok((answer.score(), answer.best))
            }
            Self::Network { evaluator, .. } => {
                let value = search::settled(game.position(), &mut |position| {
                    evaluator.centipawns(position)
                });
                Ok((Some(value), None))
            }
        }
    }

    /// The name of the engine or network.
    pub fn name(&self) -> &str {
        match self {
            Self::Engine { process, .. } => process.name(),
            Self::Network { name, .. } => name,
        }
    }

    /// How positions were evaluated, for the tag `Annotator`.
    pub fn annotator(&self) -> String {
        match self {
            Self::Engine { process, annotator, .. } => format!("{}, {annotator}", process.name()),
            Self::Network { name, .. } => format!("{name}, captures resolved"),
        }
    }

    pub fn end(self) {
        if let Self::Engine { process, .. } = self {
            process.quit();
        }
    }
}

/// Starts the engine. With one thread and a fixed hash the same nodes give the same move. In
/// analysis mode the score is objective, without contempt or an opponent model.
fn start(spec: &EngineSpec) -> Result<EngineProcess, ClientError> {
    // Longest wait for the handshake of an engine.
    const START: Duration = Duration::from_secs(20);
    let mut engine = EngineProcess::start(spec, START)?;
    for (option, value) in [("Threads", "1"), ("Hash", "16"), ("UCI_AnalyseMode", "true")] {
        let given = spec.options.iter().any(|(name, _)| name.eq_ignore_ascii_case(option));
        if !given && engine.has_option(option) {
            engine.set_option(option, value)?;
        }
    }
    Ok(engine)
}
