//! One engine: the network that options choose, an evaluator of its own, and a search over it.

use std::sync::Arc;

use eval::{Cached, Devices, EvaluationCache, Evaluator, Precision, cpu::CpuOptions};
use nets::{Network, System};
use search::{Algorithm, ConvChess, Search};

use crate::{EngineError, EngineOptions, fitting, int8, load, moves_left::WithMovesLeft};

/// A search that is ready for some options.
pub struct Engine {
    pub search: Box<dyn Search>,
    /// One line for people: network, code path, threads.
    pub description: String,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("description", &self.description).finish_non_exhaustive()
    }
}

/// Does the system search? ConvChess does not: it chooses by the chances of the moves.
#[must_use]
pub fn has_search(system: System) -> bool {
    system != System::ConvChess
}

/// The network that the options ask for, and the system that plays with it.
///
/// # Errors
/// The file is not a network or one of another system, or the chosen search cannot use it.
pub fn choose(options: &EngineOptions) -> Result<(Network, System), EngineError> {
    choose_or(options, Use::Play, |system| fitting(system, options))
}

/// What an engine is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A move is wanted.
    Play,
    /// Evaluations are wanted, so that a Maia searches too.
    Evaluate,
}

/// As [`choose`], with the system's network from `unnamed` where the options name none.
pub(crate) fn choose_or(
    options: &EngineOptions,
    purpose: Use,
    unnamed: impl Fn(System) -> Result<Network, EngineError>,
) -> Result<(Network, System), EngineError> {
    let (network, system) = match (&options.network, options.system) {
        (None, wanted) => {
            let system = wanted.unwrap_or(System::BatchFirst);
            (unnamed(system)?, system)
        }
        (Some(path), wanted) => {
            let network = int8::with_ranges(load(path)?, options, int8::file().as_deref())?;
            let mut found = System::of(&network.description);
            // A policy can always play without a search; a Maia's does unless told otherwise.
            let plays_alone = match wanted {
                Some(wanted) => wanted == System::ConvChess,
                None => purpose == Use::Play && is_maia(&network) && options.algorithm.is_none(),
            };
            if plays_alone && ConvChess::check(&network).is_ok() {
                found = System::ConvChess;
            }
            if let Some(wanted) = wanted.filter(|&wanted| wanted != found) {
                return Err(EngineError::OtherSystem { path: path.clone(), found, wanted });
            }
            (network, found)
        }
    };
    if let Some(algorithm) = options.algorithm {
        check_search(algorithm, system, &network)?;
    }
    if !has_search(system) {
        ConvChess::check(&network)?;
    }
    Ok((network, system))
}

/// Is this a network of Leela's kind that plays like people? Its file says nothing of that, but its
/// name does.
fn is_maia(network: &Network) -> bool {
    network.description.encoding.has_history() && network.name.to_lowercase().contains("maia")
}

fn check_search(
    algorithm: Algorithm,
    system: System,
    network: &Network,
) -> Result<(), EngineError> {
    let search = algorithm.name();
    if !has_search(system) {
        return Err(EngineError::NoSearch { system, search });
    }
    if !algorithm.suits(network) {
        let others = [Algorithm::AlphaBeta.name(), Algorithm::Minimax.name()].join(" and ");
        return Err(EngineError::NoMoveScores { search, network: network.name.clone(), others });
    }
    Ok(())
}

/// The search that the options ask for, or the network's own.
pub(crate) fn algorithm(options: &EngineOptions, network: &Network) -> Algorithm {
    options.algorithm.unwrap_or_else(|| Algorithm::of(network))
}

/// An evaluator of a network for these options.
///
/// # Errors
/// The network, the device or the code path cannot be used.
pub fn evaluator(
    network: &Arc<Network>,
    options: &EngineOptions,
) -> Result<Box<dyn Evaluator>, EngineError> {
    Ok(options.devices.evaluator(network, options.cpu())?)
}

/// An engine for these options.
///
/// # Errors
/// The network cannot be used.
pub fn build(options: &EngineOptions) -> Result<Engine, EngineError> {
    EngineBuilder::new(options.clone())?.build()
}

/// Builds equal engines, each with an empty cache, over one network in memory.
#[derive(Clone, Debug)]
pub struct EngineBuilder {
    network: Arc<Network>,
    system: System,
    options: EngineOptions,
    cache: Option<EvaluationCache>,
}

impl EngineBuilder {
    /// Loads the network that the options [`choose`].
    ///
    /// # Errors
    /// The network cannot be used.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let (network, system) = choose(&options)?;
        Ok(Self::over(Arc::new(network), system, options))
    }

    /// Takes a network and a system that these options can [`choose`].
    #[must_use]
    pub fn over(network: Arc<Network>, system: System, options: EngineOptions) -> Self {
        Self { network, system, options, cache: None }
    }

    /// Lets the engines share evaluations with all users of `cache`. A system without a search makes
    /// no use of it.
    #[must_use]
    pub fn with_cache(self, cache: EvaluationCache) -> Self {
        Self { cache: Some(cache), ..self }
    }

    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    #[must_use]
    pub fn system(&self) -> System {
        self.system
    }

    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// A new engine.
    ///
    /// # Errors
    /// The network, the device or the code path cannot be used.
    pub fn build(&self) -> Result<Engine, EngineError> {
        self.build_over(|evaluator| evaluator)
    }

    /// As [`build`](Self::build), with the evaluator in what `wrap` makes around it, which sees what
    /// the search asks. A system without a search has no evaluator.
    ///
    /// # Errors
    /// The network, the device or the code path cannot be used.
    pub fn build_over(
        &self,
        wrap: impl FnOnce(Box<dyn Evaluator>) -> Box<dyn Evaluator>,
    ) -> Result<Engine, EngineError> {
        let Self { network, options, .. } = self;
        if !has_search(self.system) {
            return without_search(network, options);
        }
        let mut evaluator = wrap(evaluator(network, options)?);
        let description = evaluator.describe();
        if let Some(cache) = &self.cache {
            evaluator = Box::new(Cached::over(evaluator, cache));
        }
        let search = algorithm(options, network).build(evaluator, network, &options.settings);
        let search = WithMovesLeft::around(search, network, options.cpu(), &options.settings);
        Ok(Engine { search, description })
    }
}

/// How a network is evaluated for moves without a search. One of Leela's is evaluated in `f32`
/// unless a format is asked for: a move takes a millisecond in any, and `bf16` chooses another move
/// in 6 of 1,000 positions, where two are nearly equally likely.
pub(crate) fn without_search_on(network: &Network, options: &EngineOptions) -> CpuOptions {
    let mut cpu = options.cpu();
    if network.description.encoding.has_history() {
        cpu.precision = cpu.precision.or(Some(Precision::F32));
    }
    cpu
}

fn without_search(network: &Arc<Network>, options: &EngineOptions) -> Result<Engine, EngineError> {
    let system = System::ConvChess;
    if options.devices != Devices::default() && !options.devices.is_cpu() {
        return Err(EngineError::NoDevice { system, devices: options.devices.clone() });
    }
    let name = &network.name;
    let description = if is_maia(network) {
        format!("network {name}: moves by their chances (the option Search lets it search)")
    } else {
        format!("network {name}, {system}: moves by their chances, without a search")
    };
    let cpu = without_search_on(network, options);
    let search = ConvChess::new(Arc::clone(network), cpu, &options.settings)?;
    let search = WithMovesLeft::around(Box::new(search), network, cpu, &options.settings);
    Ok(Engine { search, description })
}

#[cfg(test)]
mod tests {
    use nets::{Description, Leela, LeelaInput, leela_file};
    use search::Algorithm;

    use super::*;
    use crate::embedded;

    /// A file of Leela's kind with next to nothing in it.
    fn file(folder: &std::path::Path, name: &str) -> EngineOptions {
        let input = LeelaInput::Classical;
        let choice = Leela { input, channels: 4, blocks: 1, squeezed: 2, is_older: false };
        let description = Description::leela(&choice);
        let path = folder.join(name);
        let network = Network::random(description, 1).unwrap();
        std::fs::write(&path, leela_file(&network).unwrap()).unwrap();
        EngineOptions { network: Some(path), devices: Devices::cpu(), ..EngineOptions::default() }
    }

    #[test]
    fn a_maia_plays_alone_unless_a_search_or_an_evaluation_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let system =
            |options: &EngineOptions, purpose| choose_or(options, purpose, embedded).unwrap().1;
        let maia = file(folder.path(), "Maia-1500.pb.gz");
        assert_eq!(system(&maia, Use::Play), System::ConvChess);
        assert_eq!(system(&maia, Use::Evaluate), System::BatchFirst);
        let searching = EngineOptions { algorithm: Some(Algorithm::Puct), ..maia };
        assert_eq!(system(&searching, Use::Play), System::BatchFirst);
        let leela = file(folder.path(), "leela.pb.gz");
        assert_eq!(system(&leela, Use::Play), System::BatchFirst);
        assert_eq!(algorithm(&leela, &choose(&leela).unwrap().0), Algorithm::Puct);
        let ours = EngineOptions::default();
        assert_eq!(algorithm(&ours, &choose(&ours).unwrap().0), Algorithm::KBest);
    }

    #[test]
    fn a_maia_chooses_in_f32_unless_a_format_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = file(folder.path(), "maia.pb.gz");
        let maia = choose(&options).unwrap().0;
        assert_eq!(without_search_on(&maia, &options).precision, Some(Precision::F32));
        options.precision = Some(Precision::Bf16);
        assert_eq!(without_search_on(&maia, &options).precision, Some(Precision::Bf16));
        options.precision = None;
        let selectors = embedded(System::ConvChess).unwrap();
        assert_eq!(without_search_on(&selectors, &options).precision, None);
    }

    #[test]
    fn leelas_networks_play_in_every_search_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let alone = file(folder.path(), "maia.pb.gz");
        let mut players = vec![alone.clone()];
        players.extend(
            Algorithm::ALL
                .map(|algorithm| EngineOptions { algorithm: Some(algorithm), ..alone.clone() }),
        );
        for options in players {
            let mut engine = build(&options).unwrap();
            let mut game = board::Game::default();
            for _ in 0..6 {
                let limits = search::Limits { nodes: Some(40), ..search::Limits::default() };
                let control = search::Control::default();
                let found = engine.search.search(&game, &limits, &control, &mut |_| {}).unwrap();
                game.play(found.best.unwrap());
            }
        }
    }
}
