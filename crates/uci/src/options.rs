//! The options of our engine: their names, ranges and values, and what to answer to a value that
//! does not fit.

use std::{path::Path, sync::Arc, time::Duration};

use board::{Book, Tablebases, memory_without_room_for};
use engine::{Algorithm, EngineOptions};
use eval::{Precision, cpu::CpuPath};
use nets::System;

use crate::command::shortened;

/// Shown for a `WeightsFile` that is not set: the network inside the binary.
pub const EMBEDDED: &str = "<embedded>";

/// Shown for a file or folder that is not set.
pub const EMPTY: &str = "<empty>";

/// Every option with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Network, evaluator and search.
    pub engine: EngineOptions,
    /// Opening book, used where `own_book` says so.
    pub book: Option<Arc<Book>>,
    pub own_book: bool,
    pub ponder: bool,
    /// Every search is an analysis, however it is limited: without a book, and every reply of the
    /// opponent is found.
    pub analyse_mode: bool,
    pub chess960: bool,
    pub show_wdl: bool,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Spin { least: u64, most: u64 },
    Check,
    Text,
    Combo(&'static [&'static str]),
    Button,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Hash,
    ClearHash,
    Threads,
    MultiPv,
    Ponder,
    MoveOverhead,
    Batch,
    Fill,
    WeightsFile,
    SyzygyPath,
    OwnBook,
    BookFile,
    System,
    Search,
    QuietLeaves,
    Temperature,
    OpponentErrors,
    Device,
    Cpu,
    Precision,
    AnalyseMode,
    ShowWdl,
    Chess960,
}

/// Leaves the choice to the engine.
const AUTOMATIC: &str = "auto";

const TABLE: [(&str, Name, Kind); 23] = [
    ("Hash", Name::Hash, Kind::Spin { least: 1, most: 65_536 }),
    ("Clear Hash", Name::ClearHash, Kind::Button),
    ("Threads", Name::Threads, Kind::Spin { least: 1, most: 256 }),
    ("MultiPV", Name::MultiPv, Kind::Spin { least: 1, most: 256 }),
    ("Ponder", Name::Ponder, Kind::Check),
    ("Move Overhead", Name::MoveOverhead, Kind::Spin { least: 0, most: 10_000 }),
    ("Batch", Name::Batch, Kind::Spin { least: 0, most: 16_384 }),
    ("Fill", Name::Fill, Kind::Spin { least: 0, most: 16_384 }),
    ("WeightsFile", Name::WeightsFile, Kind::Text),
    ("SyzygyPath", Name::SyzygyPath, Kind::Text),
    ("OwnBook", Name::OwnBook, Kind::Check),
    ("BookFile", Name::BookFile, Kind::Text),
    ("System", Name::System, Kind::Combo(&[AUTOMATIC, "batch-first", "cockfish", "convchess"])),
    (
        "Search",
        Name::Search,
        Kind::Combo(&[AUTOMATIC, "kbest", "kbest-classic", "alphabeta", "puct", "minimax"]),
    ),
    ("Quiet Leaves", Name::QuietLeaves, Kind::Check),
    ("Temperature", Name::Temperature, Kind::Spin { least: 0, most: 1000 }),
    ("Opponent Errors", Name::OpponentErrors, Kind::Spin { least: 0, most: 100 }),
    ("Device", Name::Device, Kind::Text),
    ("CPU", Name::Cpu, Kind::Combo(&[AUTOMATIC, "amx", "avx512", "avx2", "portable"])),
    ("Precision", Name::Precision, Kind::Combo(&[AUTOMATIC, "f16", "bf16", "f32", "int8"])),
    ("UCI_AnalyseMode", Name::AnalyseMode, Kind::Check),
    ("UCI_ShowWDL", Name::ShowWdl, Kind::Check),
    ("UCI_Chess960", Name::Chess960, Kind::Check),
];

/// What an accepted `setoption` makes necessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing until the next search.
    Value,
    /// Another network or system: whether it can be used is said before the next search.
    Network,
    /// Forget what was learned.
    ClearHash,
}

/// A `setoption` that is refused; each message is one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    #[error("there is no option `{0}`")]
    Unknown(String),
    #[error(
        "option {name} wants a whole number from {least} to {most}, not `{value}`; it stays {kept}"
    )]
    Number { name: &'static str, least: u64, most: u64, value: String, kept: String },
    #[error(
        "option {name} wants less than the {machine} MiB of memory that this machine has; it stays {kept}"
    )]
    Memory { name: &'static str, machine: u64, kept: String },
    #[error("option {name} wants `true` or `false`, not `{value}`; it stays {kept}")]
    Check { name: &'static str, value: String, kept: String },
    #[error("option {name} wants one of {values}, not `{value}`; it stays {kept}")]
    Combo { name: &'static str, values: String, value: String, kept: String },
    #[error("{reason}; option {name} stays {kept}")]
    File { name: &'static str, reason: String, kept: String },
}

impl Options {
    /// Sets an option from its name (in any case) and value as text.
    ///
    /// # Errors
    /// There is no such option or the value does not fit; nothing is changed.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<Change, OptionError> {
        let (label, option, kind) = *TABLE
            .iter()
            .find(|(label, ..)| label.eq_ignore_ascii_case(name))
            .ok_or_else(|| OptionError::Unknown(shortened(name)))?;
        let value = value.unwrap_or_default();
        match kind {
            Kind::Spin { least, most } => {
                let number = self.number(label, option, (least, most), value)?;
                self.set_number(option, number);
                Ok(Change::Value)
            }
            Kind::Check => self.set_check(label, option, value),
            Kind::Text => self.set_text(label, option, value),
            Kind::Combo(values) => self.set_combo(label, option, values, value),
            Kind::Button => Ok(Change::ClearHash),
        }
    }

    /// The number of a spin option.
    fn number(
        &self,
        name: &'static str,
        option: Name,
        (least, most): (u64, u64),
        value: &str,
    ) -> Result<u64, OptionError> {
        let number = value.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        let Some(number) = number else {
            let (value, kept) = (shortened(value), self.value(option));
            return Err(OptionError::Number { name, least, most, value, kept });
        };
        match memory_without_room_for(number) {
            Some(machine) if option == Name::Hash => {
                Err(OptionError::Memory { name, machine, kept: self.value(option) })
            }
            _ => Ok(number),
        }
    }

    fn set_check(
        &mut self,
        name: &'static str,
        option: Name,
        value: &str,
    ) -> Result<Change, OptionError> {
        let on = match value.to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => {
                let (value, kept) = (shortened(value), self.value(option));
                return Err(OptionError::Check { name, value, kept });
            }
        };
        match option {
            Name::OwnBook => self.own_book = on,
            Name::Ponder => self.ponder = on,
            Name::QuietLeaves => self.engine.settings.quiet_leaves = on,
            Name::AnalyseMode => self.analyse_mode = on,
            Name::ShowWdl => self.show_wdl = on,
            _ => self.chess960 = on,
        }
        Ok(Change::Value)
    }

    fn set_text(
        &mut self,
        name: &'static str,
        option: Name,
        value: &str,
    ) -> Result<Change, OptionError> {
        let given = !value.is_empty() && value != EMBEDDED && value != EMPTY;
        let path = given.then(|| Path::new(value));
        let kept = self.value(option);
        let refuse = |reason: String| OptionError::File { name, reason, kept };
        match option {
            Name::SyzygyPath => {
                let tables = &mut self.engine.settings.tables;
                // A GUI sets the option before every game: tables that are open stay open.
                if path != tables.as_ref().map(|tables| tables.path()) {
                    let opened = path.map(Tablebases::open).transpose();
                    *tables = opened.map_err(|error| refuse(error.to_string()))?.map(Arc::new);
                }
            }
            Name::BookFile => {
                let opened = path.map(Book::open).transpose();
                self.book = opened.map_err(|error| refuse(error.to_string()))?.map(Arc::new);
            }
            Name::Device => self.engine.devices = value.parse().map_err(refuse)?,
            _ => {
                let path = path.map(Path::to_owned);
                if path != self.engine.network {
                    self.engine.network = path;
                    return Ok(Change::Network);
                }
            }
        }
        Ok(Change::Value)
    }

    fn set_combo(
        &mut self,
        name: &'static str,
        option: Name,
        values: &'static [&'static str],
        value: &str,
    ) -> Result<Change, OptionError> {
        let Some(chosen) = values.iter().find(|known| known.eq_ignore_ascii_case(value)) else {
            let (values, value) = (values.join(", "), shortened(value));
            return Err(OptionError::Combo { name, values, value, kept: self.value(option) });
        };
        // `auto` parses as nothing and so leaves the choice open.
        match option {
            Name::System => {
                let system = chosen.parse().ok();
                if system != self.engine.system {
                    self.engine.system = system;
                    return Ok(Change::Network);
                }
            }
            Name::Search => self.engine.algorithm = chosen.parse().ok(),
            Name::Cpu => self.engine.path = chosen.parse().ok(),
            _ => self.engine.precision = chosen.parse().ok(),
        }
        Ok(Change::Value)
    }

    fn set_number(&mut self, option: Name, number: u64) {
        // The ranges of the table fit every integer type used here.
        match option {
            Name::Hash => self.engine.settings.hash_mib = number as usize,
            Name::Threads => self.engine.threads = number as usize,
            Name::MultiPv => self.engine.settings.multipv = number as usize,
            Name::Batch => self.engine.settings.batch = number as usize,
            Name::Fill => self.engine.settings.fill = number as usize,
            Name::Temperature => self.engine.settings.temperature = number as u32,
            Name::OpponentErrors => self.engine.settings.opponent_errors = number as i32,
            _ => self.engine.settings.move_overhead = Duration::from_millis(number),
        }
    }

    fn value(&self, option: Name) -> String {
        match option {
            Name::Hash => self.engine.settings.hash_mib.to_string(),
            Name::ClearHash => String::new(),
            Name::Threads => self.engine.threads.to_string(),
            Name::MultiPv => self.engine.settings.multipv.to_string(),
            Name::Ponder => self.ponder.to_string(),
            Name::MoveOverhead => self.engine.settings.move_overhead.as_millis().to_string(),
            Name::Batch => self.engine.settings.batch.to_string(),
            Name::Fill => self.engine.settings.fill.to_string(),
            Name::WeightsFile => match &self.engine.network {
                Some(path) => path.display().to_string(),
                None => EMBEDDED.to_owned(),
            },
            Name::SyzygyPath => {
                let tables = self.engine.settings.tables.as_ref();
                tables.map_or(EMPTY.to_owned(), |tables| tables.path().display().to_string())
            }
            Name::OwnBook => self.own_book.to_string(),
            Name::BookFile => self.book.as_ref().map_or(EMPTY, |book| book.name()).to_owned(),
            Name::System => self.engine.system.map_or(AUTOMATIC, System::name).to_owned(),
            Name::Search => self.engine.algorithm.map_or(AUTOMATIC, Algorithm::name).to_owned(),
            Name::QuietLeaves => self.engine.settings.quiet_leaves.to_string(),
            Name::Temperature => self.engine.settings.temperature.to_string(),
            Name::OpponentErrors => self.engine.settings.opponent_errors.to_string(),
            Name::Device => self.engine.devices.to_string(),
            Name::Cpu => self.engine.path.map_or(AUTOMATIC, CpuPath::name).to_owned(),
            Name::Precision => self.engine.precision.map_or(AUTOMATIC, Precision::name).to_owned(),
            Name::AnalyseMode => self.analyse_mode.to_string(),
            Name::ShowWdl => self.show_wdl.to_string(),
            Name::Chess960 => self.chess960.to_string(),
        }
    }

    /// The `option` lines of the handshake, with the present values as defaults.
    #[must_use]
    pub fn declare(&self) -> Vec<String> {
        TABLE
            .iter()
            .map(|&(label, option, kind)| {
                let value = self.value(option);
                match kind {
                    Kind::Spin { least, most } => {
                        format!(
                            "option name {label} type spin default {value} min {least} max {most}"
                        )
                    }
                    Kind::Check => format!("option name {label} type check default {value}"),
                    Kind::Text => format!("option name {label} type string default {value}"),
                    Kind::Combo(values) => {
                        let values: String =
                            values.iter().map(|value| format!(" var {value}")).collect();
                        format!("option name {label} type combo default {value}{values}")
                    }
                    Kind::Button => format!("option name {label} type button"),
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn values_are_kept_within_their_ranges() {
        let mut options = Options::default();
        assert_eq!(options.set("hash", Some("64")), Ok(Change::Value));
        assert_eq!(options.engine.settings.hash_mib, 64);
        for bad in ["0", "-1", "65537", "99999999999999999999", "many", "", "1.5"] {
            assert!(
                matches!(options.set("Hash", Some(bad)), Err(OptionError::Number { .. })),
                "{bad}"
            );
        }
        if memory_without_room_for(65_536).is_some() {
            assert!(matches!(options.set("Hash", Some("65536")), Err(OptionError::Memory { .. })));
        }
        assert_eq!(options.engine.settings.hash_mib, 64);
        assert!(matches!(options.set("Ponder", Some("maybe")), Err(OptionError::Check { .. })));
        assert!(matches!(options.set("Contempt", Some("3")), Err(OptionError::Unknown(_))));
        assert_eq!(options.set("precision", Some("INT8")), Ok(Change::Value));
        assert_eq!(options.engine.precision, Some(Precision::Int8));
        assert!(matches!(options.set("Precision", Some("int4")), Err(OptionError::Combo { .. })));
        assert_eq!(options.set("Search", Some("PUCT")), Ok(Change::Value));
        assert_eq!(options.engine.algorithm, Some(Algorithm::Puct));
        assert_eq!(options.set("system", Some("Cockfish")), Ok(Change::Network));
        assert_eq!(options.set("System", Some("cockfish")), Ok(Change::Value));
        assert_eq!(options.engine.system, Some(System::Cockfish));
        assert_eq!(options.set("System", Some("auto")), Ok(Change::Network));
        assert_eq!(options.set("cpu", Some("avx2")), Ok(Change::Value));
        assert_eq!(
            (options.engine.path, options.engine.precision),
            (Some(CpuPath::Avx2), Some(Precision::Int8))
        );
        assert_eq!(options.set("Clear Hash", None), Ok(Change::ClearHash));
        assert_eq!(options.set("WeightsFile", Some("a b.safetensors")), Ok(Change::Network));
        assert_eq!(options.engine.network, Some(PathBuf::from("a b.safetensors")));
        assert_eq!(options.set("WeightsFile", Some("a b.safetensors")), Ok(Change::Value));
        assert_eq!(options.set("WeightsFile", Some(EMBEDDED)), Ok(Change::Network));
    }

    #[test]
    fn files_that_cannot_be_used_change_nothing() {
        let mut options = Options::default();
        for (name, good) in
            [("SyzygyPath", "../board/tests/tables"), ("bookfile", "../board/tests/book/small.bin")]
        {
            assert_eq!(options.set(name, Some(good)), Ok(Change::Value));
            for bad in ["missing", "src", "Cargo.toml"] {
                let text = options.set(name, Some(bad)).unwrap_err().to_string();
                assert!(
                    text.contains(&format!("`{bad}`")) && text.ends_with(&format!("stays {good}")),
                    "{text}"
                );
            }
        }
        assert!(
            options.engine.settings.tables.is_some() && options.book.is_some() && !options.own_book
        );
        assert_eq!(options.set("OwnBook", Some("true")), Ok(Change::Value));
        assert_eq!(options.set("SyzygyPath", Some(EMPTY)), Ok(Change::Value));
        assert_eq!(options.set("BookFile", Some("")), Ok(Change::Value));
        assert_eq!(options, Options { own_book: true, ..Options::default() });
    }

    #[test]
    fn every_option_is_declared_and_can_be_set_to_its_default() {
        let mut options = Options::default();
        assert_eq!(options.declare().len(), TABLE.len());
        for (label, option, kind) in TABLE {
            if kind != Kind::Button {
                let value = options.value(option);
                assert_eq!(options.set(label, Some(&value)), Ok(Change::Value), "{label}");
            }
        }
        assert_eq!(options, Options::default());
    }
}
