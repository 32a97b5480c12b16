//! Reads players and limits from text. A player is another program, this program, or a network that
//! is searched inside this process.

use std::{collections::HashMap, path::Path, time::Duration};

use anyhow::{Context, bail, ensure};
use arena::{PlayerKind, PlayerSpec, TimeControl};
use engine::{EngineBuilder, EngineOptions, NamedOptions, has_search, is_named};
use eval::EvaluationCache;
use nets::System;
use uci::client::EngineSpec;

use super::program;
use crate::engine_args::EngineArgs;

/// The player that searches, in this process, the embedded network that fits the device.
const INTERNAL: &str = "internal";

/// Memory of a search in this process, in MiB, without an option `Hash`. Each running game may have
/// two searches.
const HASH: u64 = 64;

/// The limit of every player without a limit of its own.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[group(multiple = false)]
pub struct LimitArgs {
    /// Time a move, as in `200ms` or `1s`.
    #[arg(long, value_name = "TIME", value_parser = movetime)]
    movetime: Option<Duration>,
    /// Nodes a move; our own searches count evaluated positions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    nodes: Option<u64>,
    /// Depth of each search.
    #[arg(long, value_name = "PLIES", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Seconds for the game and increment a move, as in `10+0.1`.
    #[arg(long, value_name = "BASE+INC", value_parser = clock)]
    clock: Option<TimeControl>,
}

impl LimitArgs {
    /// The given limit, if any.
    #[must_use]
    pub fn control(&self) -> Option<TimeControl> {
        None.or(self.movetime.map(TimeControl::MoveTime))
            .or(self.nodes.map(TimeControl::Nodes))
            .or(self.depth.map(TimeControl::Depth))
            .or(self.clock)
    }
}

/// Reads a time a move. Zero is refused: engines take it for no limit.
fn movetime(text: &str) -> Result<Duration, String> {
    board::parse_duration(text).and_then(|time| {
        if time.as_millis() == 0 { Err("a move needs some time".to_owned()) } else { Ok(time) }
    })
}

fn clock(text: &str) -> Result<TimeControl, String> {
    let (base, increment) = text.split_once('+').unwrap_or((text, "0"));
    let seconds = |text: &str| board::parse_duration(&format!("{text}s"));
    let explain = |_| "expected seconds and increment like `10+0.1`".to_owned();
    Ok(TimeControl::Clock {
        base: seconds(base).map_err(explain)?,
        increment: seconds(increment).map_err(explain)?,
    })
}

/// A program with its arguments, and its options in order.
type ProgramAndOptions<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// Splits `PROGRAM[; OPTION=VALUE]...`.
fn split_player(text: &str) -> anyhow::Result<ProgramAndOptions<'_>> {
    let (program, options) = program::without_options(text);
    let program = program.trim();
    ensure!(!program.is_empty(), "`{text}` names no engine");
    let options = options.split(';').map(str::trim).filter(|part| !part.is_empty()).map(|part| {
        let (option, value) = part.split_once('=').with_context(|| {
            format!("`{part}` in `{text}` is not an option (expected OPTION=VALUE)")
        })?;
        Ok((option.trim(), value.trim()))
    });
    Ok((program, options.collect::<anyhow::Result<_>>()?))
}

/// Reads `PROGRAM [ARGUMENT...][; OPTION=VALUE]...`, where the option `name` names the engine.
///
/// # Errors
/// The text names no program, or an option is malformed.
pub fn engine_spec(text: &str) -> anyhow::Result<EngineSpec> {
    let (program, mut options) = split_player(text)?;
    let name =
        options.iter().rfind(|(option, _)| *option == "name").map(|(_, name)| (*name).to_owned());
    options.retain(|(option, _)| *option != "name");
    Ok(EngineSpec { name, ..program_with(program, owned(&options))? })
}

fn owned(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(option, value)| ((*option).to_owned(), (*value).to_owned())).collect()
}

/// The evaluation caches that searches in this process share, by network, device and number format.
///
/// Opponents evaluate many equal positions. A search that is limited by nodes or depth counts a
/// cached evaluation like a new one, so the games are the same and take less time. A search that is
/// limited by time does not use these caches.
#[derive(Debug, Default)]
pub struct SharedCaches(HashMap<String, EvaluationCache>);

impl SharedCaches {
    /// In MiB: room for the evaluations of both players of two running games over several moves.
    const SIZE: usize = 128;

    fn of(&mut self, network: &str, options: &EngineOptions) -> &EvaluationCache {
        let EngineOptions { devices, path, precision, .. } = options;
        self.0
            .entry(format!("{network} {devices:?} {path:?} {precision:?}"))
            .or_insert_with(|| EvaluationCache::new(Self::SIZE))
    }
}

/// Reads `PLAYER[; OPTION=VALUE]...`. `limit` is the default limit, `system` the default system of a
/// search in this process. Players with the same `caches` share evaluations.
///
/// # Errors
/// The text names no player or no limit, an option is malformed, or a network cannot be used.
pub fn player(
    text: &str,
    limit: Option<TimeControl>,
    system: Option<System>,
    caches: Option<&mut SharedCaches>,
) -> anyhow::Result<PlayerSpec> {
    let (program, given) = split_player(text)?;
    let (mut name, mut control) = (None, limit);
    let mut options: Vec<(&str, &str)> = Vec::new();
    for (option, value) in given {
        let limit = limit_option(option, value).map_err(|reason| {
            anyhow::anyhow!("`{option}={value}` in `{text}` is not a limit: {reason}")
        })?;
        match limit {
            Some(limit) => control = Some(limit),
            None if option == "name" => name = Some(value.to_owned()),
            None => options.push((option, value)),
        }
    }
    let Some(control) = control else {
        bail!(
            "`{text}` has no limit: give --movetime, --nodes, --depth or --clock, or one of them as an option"
        );
    };
    let own = options.iter().any(|(option, _)| option.eq_ignore_ascii_case("system"));
    let network = program::unquoted(program);
    if let Some(system) = system.filter(|_| is_internal(network) && !own) {
        options.push(("System", system.name()));
    }
    let shown: Vec<String> =
        options.iter().map(|(option, value)| format!("{option}={value}")).collect();
    let shown = shown.join(" ");
    let (kind, called, identity) = if is_internal(network) {
        let caches =
            caches.filter(|_| matches!(control, TimeControl::Nodes(_) | TimeControl::Depth(_)));
        let (builder, found) =
            in_process(network, &options, caches).with_context(|| format!("`{text}`"))?;
        let stem =
            Path::new(network).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let called = format!("{stem} {shown}").trim().to_owned();
        let ours = program::contents(&program::own()?);
        (
            PlayerKind::Search(Box::new(builder)),
            Some(called),
            format!("{network} {found}, this program ({ours})"),
        )
    } else {
        let spec = program_with(program, owned(&options))?;
        let identity = format!("{program} ({})", program::contents(&spec.program));
        (PlayerKind::Engine(spec), None, identity)
    };
    Ok(PlayerSpec {
        identity: format!("{identity}; {shown}; {}", control),
        name: name.or(called),
        kind,
        control,
    })
}

/// The limit in an option of the match; `None` for any other option.
fn limit_option(option: &str, value: &str) -> Result<Option<TimeControl>, String> {
    let number = || match value.parse::<u64>() {
        Ok(number) if number >= 1 => Ok(number),
        _ => Err("expected a whole number from 1".to_owned()),
    };
    Ok(Some(match option {
        "nodes" => TimeControl::Nodes(number()?),
        "depth" => TimeControl::Depth(u32::try_from(number()?).map_err(|error| error.to_string())?),
        "movetime" => TimeControl::MoveTime(movetime(value)?),
        "clock" => clock(value)?,
        _ => return Ok(None),
    }))
}

/// Is the player a search in this process?
#[must_use]
pub fn is_internal(program: &str) -> bool {
    program == INTERNAL
        || Path::new(program)
            .extension()
            .is_some_and(|ending| ending.eq_ignore_ascii_case("safetensors"))
}

fn program_with(program: &str, options: Vec<(String, String)>) -> anyhow::Result<EngineSpec> {
    let (program, arguments) = program::command(program)?;
    Ok(EngineSpec { program, arguments, options, name: None })
}

/// A search over a network with the options of our UCI engine, and the identity of the network: its
/// fingerprint, and the hash of its file, which also holds calibration and ranges.
fn in_process(
    program: &str,
    options: &[(&str, &str)],
    caches: Option<&mut SharedCaches>,
) -> anyhow::Result<(EngineBuilder, String)> {
    let defaults = EngineArgs { hash: Some(HASH), ..EngineArgs::default() };
    let mut given = NamedOptions { engine: defaults.options(1)?, ..NamedOptions::default() };
    if program != INTERNAL {
        given.engine.network = Some(program.into());
    }
    for (option, value) in options {
        given.set(option, Some(value))?;
    }
    ensure!(
        !given.own_book,
        "a search in this process plays without a book; name the program `self` for one"
    );
    // The network is loaded once: an error is reported before the first game, and the file may change
    // later.
    let builder = EngineBuilder::new(given.engine)?;
    let file = builder.options().network.as_deref().filter(|path| !is_named(path));
    let file = file.map(|path| format!(", {}", program::file_contents(path)));
    let identity = builder.network().fingerprint() + &file.unwrap_or_default();
    let caches = caches.filter(|_| has_search(builder.system()));
    let cache = caches.map(|caches| caches.of(&identity, builder.options()).clone());
    let builder = match cache {
        Some(cache) => builder.with_cache(cache),
        None => builder,
    };
    Ok((builder, identity))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use board::Game;
    use search::{Control, Limits, Outcome};

    use super::*;

    fn player(
        text: &str,
        limit: Option<TimeControl>,
        system: Option<System>,
    ) -> anyhow::Result<PlayerSpec> {
        super::player(text, limit, system, None)
    }

    #[test]
    fn engines_from_text() {
        let spec = engine_spec("stockfish --x; UCI_Elo = 1350;name=level 1350;").unwrap();
        assert_eq!(spec.program, PathBuf::from("stockfish"));
        assert_eq!(spec.arguments, ["--x"]);
        assert_eq!(spec.options, [("UCI_Elo".to_owned(), "1350".to_owned())]);
        assert_eq!(spec.name.as_deref(), Some("level 1350"));
        assert!(engine_spec("self").unwrap().program.is_absolute());
        let named =
            player("stockfish; name=level 1350", Some(TimeControl::Depth(1)), None).unwrap();
        assert_eq!(named.name.as_deref(), Some("level 1350"));
        assert!(matches!(named.kind, PlayerKind::Engine(spec) if spec.options.is_empty()));
        let network =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../networks/batch-first.safetensors");
        let quoted = player(&format!("\"{network}\""), Some(TimeControl::Depth(1)), None).unwrap();
        assert!(matches!(quoted.kind, PlayerKind::Search(_)));
        for bad in [
            "",
            " ; a=b",
            "sf; Elo",
            "sf; nodes=0",
            "sf; nodes=x",
            "sf; clock=x",
            "sf; movetime=0",
            "missing.safetensors",
        ] {
            assert!(player(bad, Some(TimeControl::Depth(1)), None).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_players_own_limit_comes_first() {
        let control =
            |text| player(text, Some(TimeControl::Depth(1)), None).map(|spec| spec.control).ok();
        assert_eq!(control("x"), Some(TimeControl::Depth(1)));
        assert_eq!(control("x; nodes=500"), Some(TimeControl::Nodes(500)));
        assert_eq!(control("x; movetime=2s"), Some(TimeControl::MoveTime(Duration::from_secs(2))));
        assert!(player("x", None, None).is_err());
        assert!(player("x; depth=3", None, None).is_ok());
    }

    #[test]
    fn searches_in_this_process() {
        let spec =
            player("internal; Batch=8; Hash=16", Some(TimeControl::Nodes(10)), None).unwrap();
        assert_eq!(spec.name.as_deref(), Some("internal Batch=8 Hash=16"));
        assert!(matches!(spec.kind, PlayerKind::Search(_)));
        let other =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../networks/batch-first-residual.safetensors");
        let other =
            player(&format!("internal; WeightsFile={other}"), Some(TimeControl::Nodes(10)), None);
        let networks = [player("internal", Some(TimeControl::Nodes(10)), None), other];
        let [embedded, other] = networks.map(|spec| spec.unwrap().identity);
        let network = |identity: &str| identity.split(';').next().map(str::to_owned);
        assert_ne!(
            network(&embedded),
            network(&other),
            "a match is resumed with the same networks only"
        );
        let named =
            player("internal; WeightsFile=fast", Some(TimeControl::Nodes(10)), None).unwrap();
        let of_network =
            network(&named.identity).unwrap().split(", this program").next().map(str::to_owned);
        assert!(
            !of_network.unwrap().contains("file"),
            "a file of that name does not matter: {}",
            named.identity
        );
        assert!(player("internal; Batch=x", Some(TimeControl::Nodes(10)), None).is_err());
        assert!(player("internal; Contempt=1", Some(TimeControl::Nodes(10)), None).is_err());
    }

    #[test]
    fn a_network_is_its_calibration_too() {
        let folder = tempfile::tempdir().unwrap();
        let text = |name: &str| folder.path().join(name).display().to_string();
        let mut network = engine::embedded(System::BatchFirst).unwrap();
        let identity = |name| player(name, Some(TimeControl::Nodes(10)), None).unwrap().identity;
        let [one, other] = [text("one.safetensors"), text("other.safetensors")];
        network.save(Path::new(&one)).unwrap();
        let before = identity(&one);
        network.calibration = nets::Calibration::default();
        network.save(Path::new(&one)).unwrap();
        network.save(Path::new(&other)).unwrap();
        assert_ne!(identity(&one), before);
        let of_file = |identity: &str| identity.split(", ").nth(1).map(str::to_owned);
        assert_eq!(of_file(&identity(&one)), of_file(&identity(&other)));
    }

    #[test]
    fn a_network_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("net.safetensors");
        engine::embedded(System::BatchFirst).unwrap().save(&file).unwrap();
        let spec = player(&file.display().to_string(), Some(TimeControl::Nodes(10)), None).unwrap();
        std::fs::write(&file, "another").unwrap();
        let PlayerKind::Search(builder) = spec.kind else { panic!("a search in this process") };
        assert!(builder.build().is_ok(), "the network was read before the file changed");
    }

    #[test]
    fn a_cached_evaluation_counts_like_a_new_one() {
        let mut caches = SharedCaches::default();
        let think = |text: &str, caches: Option<&mut SharedCaches>| -> Outcome {
            let spec = super::player(text, Some(TimeControl::Nodes(300)), None, caches).unwrap();
            let PlayerKind::Search(builder) = spec.kind else { panic!("a search in this process") };
            let limits = Limits { nodes: Some(300), ..Limits::default() };
            builder
                .build()
                .unwrap()
                .search
                .search(&Game::default(), &limits, &Control::default(), &mut |_| {})
                .unwrap()
        };
        let misses = |caches: &SharedCaches| -> u64 {
            caches.0.values().map(|cache| cache.counts().value_misses).sum()
        };
        think("internal; Search=puct; Batch=8; Hash=1; Threads=1", Some(&mut caches));
        let both = think("internal; Batch=8; Hash=1; Threads=1", Some(&mut caches));
        assert!((301..600).contains(&misses(&caches)), "{}", misses(&caches));
        let known = think("internal; Batch=8; Hash=1; Threads=1", Some(&mut caches));
        let alone = think("internal; Batch=8; Hash=1; Threads=1", None);
        let said = |outcome: &Outcome| {
            let lines = outcome.lines.iter().map(|line| (line.depth, line.score, line.pv.clone()));
            (outcome.best, outcome.nodes, lines.collect::<Vec<_>>())
        };
        assert_eq!(said(&both), said(&alone));
        assert_eq!(said(&known), said(&alone));
        assert_eq!(caches.0.len(), 1);
        think("internal; Precision=f32; Hash=1", Some(&mut caches));
        assert_eq!(caches.0.len(), 2, "another number format");
        let timed = Some(TimeControl::MoveTime(Duration::from_millis(5)));
        let mut caches = SharedCaches::default();
        super::player("internal; Hash=1", timed, None, Some(&mut caches)).unwrap();
        assert!(caches.0.is_empty(), "a search limited by time has no shared cache");
    }

    #[test]
    fn clocks_from_text() {
        let second = Duration::from_secs(1);
        assert_eq!(
            clock("10+0.1"),
            Ok(TimeControl::Clock { base: 10 * second, increment: second / 10 })
        );
        assert_eq!(clock("1"), Ok(TimeControl::Clock { base: second, increment: Duration::ZERO }));
        assert!(clock("x+1").is_err() && clock("1+").is_err() && clock("-1+0").is_err());
    }
}
