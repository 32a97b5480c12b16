//! The networks in the program, and which of them suits a machine.

use std::{ops::RangeInclusive, path::Path, sync::Arc};

use nets::{Network, System};

use crate::{
    EngineError, EngineOptions,
    speed::{self, evaluations_a_second},
};

/// Batch First's network for GPUs.
const LARGE: &[u8] = include_bytes!("../../../networks/batch-first.safetensors");

/// Batch First's network for processors and files of games: some 15 times as fast as the large one.
const FAST: &[u8] = include_bytes!("../../../networks/batch-first-fast.safetensors");

const COCKFISH: &[u8] = include_bytes!("../../../networks/cockfish.safetensors");

/// ConvChess's seven networks.
const CONVCHESS: &[u8] = include_bytes!("../../../networks/convchess.safetensors");

/// Batch First's networks by their names in options.
const NAMED: [(&str, &[u8]); 2] = [("large", LARGE), ("fast", FAST)];

/// A rating on the ladder (docs/5-arena.md) at fixed evaluations a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placing {
    /// Evaluations a move.
    pub evaluations: u32,
    /// Elo on the ladder's scale.
    pub elo: u32,
    /// Half of the 95 % confidence interval, in Elo.
    pub interval: u32,
    pub games: u32,
}

const fn placing(evaluations: u32, elo: u32, interval: u32, games: u32) -> Placing {
    Placing { evaluations, elo, interval, games }
}

/// docs/experiments/2026-11-ladder.md
const FAST_PLACINGS: &[Placing] = &[
    placing(30, 1002, 116, 100),
    placing(100, 1425, 73, 100),
    placing(300, 1757, 70, 100),
    placing(1_000, 1972, 69, 100),
    placing(3_000, 2224, 70, 100),
    placing(10_000, 2440, 63, 100),
];
const LARGE_PLACINGS: &[Placing] = &[
    placing(30, 1106, 75, 100),
    placing(100, 1435, 72, 100),
    placing(300, 1764, 73, 100),
    placing(1_000, 2078, 68, 100),
    placing(3_000, 2141, 80, 74),
];

/// The time for a move, in seconds, at which the networks are compared.
const SECONDS: f64 = 1.0;

/// The speed of one of Batch First's networks on this machine, and its rating at this speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkSpeed {
    /// `fast` or `large`.
    pub name: &'static str,
    /// Evaluations a second in a search.
    pub evaluations: f64,
    /// The rating on the ladder with this number of evaluations a move.
    pub rating: f64,
}

/// The rating at a number of evaluations a move: linear interpolation of measured ratings over the
/// logarithm of the number, and extrapolation from the nearest two beyond the ends.
fn rating(placings: &[Placing], evaluations: f64) -> f64 {
    let pair = placings.windows(2).find(|pair| evaluations <= f64::from(pair[1].evaluations));
    let Some(&[low, high]) = pair.or(placings.last_chunk::<2>().map(|last| &last[..])) else {
        return 0.0;
    };
    let [from, to] = [low, high].map(|placing| f64::from(placing.evaluations));
    let [least, most] = [low, high].map(|placing| f64::from(placing.elo));
    least + (most - least) * (evaluations / from).ln() / (to / from).ln()
}

/// The ratings of one of Batch First's networks in the program, the weakest first; none for any
/// other network, whatever its name.
#[must_use]
pub fn placings(network: &Network) -> &'static [Placing] {
    let is = |bytes| in_program(bytes).is_ok_and(|placed| placed == *network);
    match network.name.as_str() {
        "batch-first-fast" if is(FAST) => FAST_PLACINGS,
        "batch-first" if is(LARGE) => LARGE_PLACINGS,
        _ => &[],
    }
}

/// The ratings that [`evaluations_at`] reaches.
pub(crate) const RATINGS: RangeInclusive<u64> = 1000..=2400;

/// The evaluations a move with which the network `fast` reaches a rating of [`RATINGS`].
pub(crate) fn evaluations_at(wanted: u64) -> u64 {
    let (mut low, mut high) = (0.0, 1e6_f64.ln());
    while high - low > 1e-6 {
        let middle = f64::midpoint(low, high);
        let side =
            if rating(FAST_PLACINGS, middle.exp()) < wanted as f64 { &mut low } else { &mut high };
        *side = middle;
    }
    high.exp().round() as u64
}

/// The network of a file or with a name in the program; `None`: the large one.
///
/// # Errors
/// The file is not a network.
pub fn load_or_large(path: Option<&Path>) -> Result<Network, EngineError> {
    match path {
        Some(path) => load(path),
        None => embedded(System::BatchFirst),
    }
}

/// The network of a file or with a name in the program.
///
/// # Errors
/// The file is not a network.
pub fn load(path: &Path) -> Result<Network, EngineError> {
    match named(path) {
        Some(bytes) => in_program(bytes),
        None => Ok(Network::load(path)?),
    }
}

/// Is this the name of a network in the program, not a file?
#[must_use]
pub fn is_named(path: &Path) -> bool {
    named(path).is_some()
}

fn named(path: &Path) -> Option<&'static [u8]> {
    NAMED.iter().find(|(name, _)| path == Path::new(name)).map(|&(_, bytes)| bytes)
}

fn in_program(bytes: &[u8]) -> Result<Network, EngineError> {
    Network::from_bytes(bytes, "the embedded network").map_err(EngineError::Damaged)
}

/// The network of a system in the program; Batch First's large one.
///
/// # Errors
/// The program is damaged.
pub fn embedded(system: System) -> Result<Network, EngineError> {
    in_program(match system {
        System::BatchFirst => LARGE,
        System::Cockfish => COCKFISH,
        System::ConvChess => CONVCHESS,
    })
}

/// The network of a system in the program for files of games; Batch First's fast one, which is
/// nearer to the truth at equal time (docs/experiments/2026-11-annotation-error.md).
pub(crate) fn for_files(system: System) -> Result<Network, EngineError> {
    match system {
        System::BatchFirst => in_program(FAST),
        other => embedded(other),
    }
}

/// Speeds and ratings of Batch First's networks on this processor, the stronger first; `known` is
/// the file of the speeds that were measured before.
fn compare_with(
    options: &EngineOptions,
    known: Option<&Path>,
) -> Result<[NetworkSpeed; 2], EngineError> {
    let speed = |name, placings| {
        let network = Arc::new(load(Path::new(name))?);
        let evaluations = evaluations_a_second(&network, options, known)?;
        let rating = rating(placings, evaluations * SECONDS);
        Ok::<_, EngineError>(NetworkSpeed { name, evaluations, rating })
    };
    let (fast, large) = (speed("fast", FAST_PLACINGS)?, speed("large", LARGE_PLACINGS)?);
    Ok(if fast.rating > large.rating { [fast, large] } else { [large, fast] })
}

/// Speeds and ratings of Batch First's networks on this processor, the stronger first. A first call
/// with these options measures for some milliseconds.
///
/// # Errors
/// The program is damaged, or no code path of the processor fits the options.
pub fn compare(options: &EngineOptions) -> Result<[NetworkSpeed; 2], EngineError> {
    compare_with(options, speed::file().as_deref())
}

/// The network of a system in the program that plays better where these options evaluate it. Of
/// Batch First's two that is the stronger one on a processor ([`compare`]), the large one on GPUs.
///
/// # Errors
/// The program is damaged, or no code path of the processor fits the options.
pub fn fitting(system: System, options: &EngineOptions) -> Result<Network, EngineError> {
    if system != System::BatchFirst || !options.devices.is_cpu() {
        return embedded(system);
    }
    let [stronger, _] = compare(options)?;
    load(Path::new(stronger.name))
}

#[cfg(test)]
mod tests {
    use eval::Devices;

    use super::*;

    #[test]
    fn ratings_are_linear_in_the_logarithm() {
        let placings = [(1_000, 1500), (10_000, 1900), (100_000, 2100)]
            .map(|(evaluations, elo)| placing(evaluations, elo, 0, 0));
        let ratings =
            [1e2, 1e3, 1e3 * 10_f64.sqrt(), 1e4, 1e5, 1e6].map(|at| rating(&placings, at));
        assert_eq!(ratings.map(f64::round), [1100.0, 1500.0, 1700.0, 1900.0, 2100.0, 2300.0]);
    }

    #[test]
    fn a_rating_has_its_evaluations() {
        for placing in FAST_PLACINGS {
            let found = evaluations_at(placing.elo.into()) as f64;
            assert!(
                (found / f64::from(placing.evaluations) - 1.0).abs() < 0.01,
                "{placing:?}: {found}"
            );
        }
        let [least, most] = [RATINGS.start(), RATINGS.end()].map(|&wanted| evaluations_at(wanted));
        assert!(least < 100 && most < 40_000, "{least} to {most}");
    }

    /// A network trained on keeps its name, not its rating.
    #[test]
    fn only_networks_in_the_program_are_placed() {
        for (name, bytes) in NAMED {
            let mut network = in_program(bytes).unwrap();
            let found = placings(&network);
            assert!(found.len() > 3 && found.is_sorted_by_key(|placing| placing.elo), "{name}");
            let tensor = network.tensors.values_mut().next().unwrap();
            tensor.data[0] += 1.0;
            assert!(placings(&network).is_empty(), "{name}");
        }
    }

    #[test]
    fn the_faster_network_must_be_fast_enough() {
        // One has sixteen times the evaluations on processors of today; as many would not do where
        // they are few.
        let leads = |fast, large| rating(FAST_PLACINGS, fast) > rating(LARGE_PLACINGS, large);
        assert!(leads(136_342.0, 8_670.0) && leads(53_000.0, 3_555.0));
        assert!(!leads(1_000.0, 1_000.0));
    }

    #[test]
    fn the_stronger_network_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let options = EngineOptions { devices: Devices::cpu(), ..EngineOptions::default() };
        let known = folder.path().join("speeds.json");
        let [one, other] = compare_with(&options, Some(&known)).unwrap();
        assert!(one.rating >= other.rating && one.name != other.name);
        let on_card = EngineOptions { devices: "cuda:0".parse().unwrap(), ..options };
        assert_eq!(fitting(System::BatchFirst, &on_card).unwrap().name, "batch-first");
    }
}
