//! The options by the names that users write, in UCI and in players of a match: their types, ranges
//! and values, and the errors for refused values.

use std::{path::Path, sync::Arc, time::Duration};

use board::{Book, Tablebases, memory_without_room_for, shortened};
use eval::{Precision, cpu::CpuPath};
use nets::System;
use search::{Tunable, tunables};

use crate::{
    Algorithm, EngineOptions, SEARCHES,
    networks::{RATINGS, evaluations_at},
};

/// Value of a `WeightsFile` that is not set: the embedded network.
const EMBEDDED: &str = "<embedded>";

/// Value of a file or folder that is not set.
const EMPTY: &str = "<empty>";

/// The options that have a name, with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedOptions {
    /// Network, evaluator and search.
    pub engine: EngineOptions,
    /// Opening book, used if `own_book` is set.
    pub book: Option<Arc<Book>>,
    pub own_book: bool,
    pub ponder: bool,
    /// Every search is an analysis, whatever its limits: the book is off and every reply of the
    /// opponent is searched.
    pub analyse_mode: bool,
    pub chess960: bool,
    pub show_wdl: bool,
    /// Play no better than `elo`.
    pub limit_strength: bool,
    /// A rating on the scale of docs/5-arena.md.
    pub elo: u64,
}

impl Default for NamedOptions {
    fn default() -> Self {
        Self {
            engine: EngineOptions::default(),
            book: None,
            own_book: false,
            ponder: false,
            analyse_mode: false,
            chess960: false,
            show_wdl: false,
            limit_strength: false,
            elo: *RATINGS.end(),
        }
    }
}

/// The kind of an option, with its range or values. The variants have the names of UCI's types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// A whole number.
    Spin { least: u64, most: u64 },
    /// True or false.
    Check,
    /// Any text.
    Text,
    /// One of these values, in any case.
    Combo(&'static [&'static str]),
    /// An action without a value.
    Button,
}

/// An option with its current value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedOption {
    pub name: &'static str,
    pub kind: OptionKind,
    pub value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionName {
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
    TopP,
    OpponentErrors,
    Device,
    Cpu,
    Precision,
    AnalyseMode,
    ShowWdl,
    ShowMovesLeft,
    Chess960,
    LimitStrength,
    Elo,
}

/// The value that leaves the choice to the engine.
const AUTOMATIC: &str = "auto";

/// `auto`, then the names of all searches.
const SEARCH_NAMES: [&str; SEARCHES.len() + 1] = {
    let mut names = [AUTOMATIC; SEARCHES.len() + 1];
    let mut index = 0;
    while index < SEARCHES.len() {
        names[index + 1] = SEARCHES[index].name;
        index += 1;
    }
    names
};

/// `auto`, then the names of all code paths.
const CPU_NAMES: [&str; CpuPath::ALL.len() + 1] = {
    let mut names = [AUTOMATIC; CpuPath::ALL.len() + 1];
    let mut index = 0;
    while index < CpuPath::ALL.len() {
        names[index + 1] = CpuPath::ALL[index].name();
        index += 1;
    }
    names
};

const TABLE: [(&str, OptionName, OptionKind); 27] = [
    ("Hash", OptionName::Hash, OptionKind::Spin { least: 1, most: 65_536 }),
    ("Clear Hash", OptionName::ClearHash, OptionKind::Button),
    ("Threads", OptionName::Threads, OptionKind::Spin { least: 1, most: 256 }),
    ("MultiPV", OptionName::MultiPv, OptionKind::Spin { least: 1, most: 256 }),
    ("Ponder", OptionName::Ponder, OptionKind::Check),
    ("Move Overhead", OptionName::MoveOverhead, OptionKind::Spin { least: 0, most: 10_000 }),
    ("Batch", OptionName::Batch, OptionKind::Spin { least: 0, most: 16_384 }),
    ("Fill", OptionName::Fill, OptionKind::Spin { least: 0, most: 16_384 }),
    ("WeightsFile", OptionName::WeightsFile, OptionKind::Text),
    ("SyzygyPath", OptionName::SyzygyPath, OptionKind::Text),
    ("OwnBook", OptionName::OwnBook, OptionKind::Check),
    ("BookFile", OptionName::BookFile, OptionKind::Text),
    (
        "System",
        OptionName::System,
        OptionKind::Combo(&[AUTOMATIC, "batch-first", "cockfish", "convchess"]),
    ),
    ("Search", OptionName::Search, OptionKind::Combo(&SEARCH_NAMES)),
    ("Quiet Leaves", OptionName::QuietLeaves, OptionKind::Check),
    ("Temperature", OptionName::Temperature, OptionKind::Spin { least: 0, most: 1000 }),
    ("Top P", OptionName::TopP, OptionKind::Spin { least: 1, most: 100 }),
    ("Opponent Errors", OptionName::OpponentErrors, OptionKind::Spin { least: 0, most: 100 }),
    ("Device", OptionName::Device, OptionKind::Text),
    ("CPU", OptionName::Cpu, OptionKind::Combo(&CPU_NAMES)),
    (
        "Precision",
        OptionName::Precision,
        OptionKind::Combo(&[AUTOMATIC, "f16", "bf16", "f32", "int8"]),
    ),
    ("UCI_AnalyseMode", OptionName::AnalyseMode, OptionKind::Check),
    ("UCI_ShowWDL", OptionName::ShowWdl, OptionKind::Check),
    ("UCI_ShowMovesLeft", OptionName::ShowMovesLeft, OptionKind::Check),
    ("UCI_Chess960", OptionName::Chess960, OptionKind::Check),
    ("UCI_LimitStrength", OptionName::LimitStrength, OptionKind::Check),
    (
        "UCI_Elo",
        OptionName::Elo,
        OptionKind::Spin { least: *RATINGS.start(), most: *RATINGS.end() },
    ),
];

/// The consequence of a changed option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionChange {
    /// The next search uses the value.
    Value,
    /// The same, but a part of it cannot be used: a sentence says why.
    Partly(String),
    /// Another network or system, which may prove unusable.
    Network,
    /// The caches of the search are to be cleared.
    ClearHash,
}

/// A refused option; each message is one sentence.
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

impl NamedOptions {
    /// Sets an option from its name (in any case) and value as text.
    ///
    /// # Errors
    /// There is no such option, or the value is refused; nothing is changed.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<OptionChange, OptionError> {
        if let Some(tunable) =
            tunables().iter().find(|tunable| tunable.name.eq_ignore_ascii_case(name))
        {
            return self.set_tunable(tunable, value.unwrap_or_default());
        }
        let (label, option, kind) = *TABLE
            .iter()
            .find(|(label, ..)| label.eq_ignore_ascii_case(name))
            .ok_or_else(|| OptionError::Unknown(shortened(name)))?;
        let value = value.unwrap_or_default();
        match kind {
            OptionKind::Spin { least, most } => {
                let number = self.number(label, option, (least, most), value)?;
                self.set_number(option, number);
                Ok(OptionChange::Value)
            }
            OptionKind::Check => self.set_check(label, option, value),
            OptionKind::Text => self.set_text(label, option, value),
            OptionKind::Combo(values) => self.set_combo(label, option, values, value),
            OptionKind::Button => Ok(OptionChange::ClearHash),
        }
    }

    /// The number of a spin option.
    fn number(
        &self,
        name: &'static str,
        option: OptionName,
        (least, most): (u64, u64),
        value: &str,
    ) -> Result<u64, OptionError> {
        let number = value.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        let Some(number) = number else {
            let (value, kept) = (shortened(value), self.value(option));
            return Err(OptionError::Number { name, least, most, value, kept });
        };
        if option == OptionName::Hash
            && let Some(machine) = memory_without_room_for(number)
        {
            return Err(OptionError::Memory { name, machine, kept: self.value(option) });
        }
        Ok(number)
    }

    fn set_tunable(
        &mut self,
        &Tunable { name, least, most }: &Tunable,
        value: &str,
    ) -> Result<OptionChange, OptionError> {
        let is_set = |number| self.engine.settings.tuning.set(name, number);
        if value.parse().is_ok_and(is_set) {
            return Ok(OptionChange::Value);
        }
        let kept = self.tunable(name);
        Err(OptionError::Number { name, least, most, value: shortened(value), kept })
    }

    /// The value of a number that can be varied.
    fn tunable(&self, name: &str) -> String {
        self.engine.settings.tuning.get(name).unwrap_or_default().to_string()
    }

    fn set_check(
        &mut self,
        name: &'static str,
        option: OptionName,
        value: &str,
    ) -> Result<OptionChange, OptionError> {
        let on = match value.to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            _ => {
                let (value, kept) = (shortened(value), self.value(option));
                return Err(OptionError::Check { name, value, kept });
            }
        };
        match option {
            OptionName::OwnBook => self.own_book = on,
            OptionName::Ponder => self.ponder = on,
            OptionName::QuietLeaves => self.engine.settings.quiet_leaves = on,
            OptionName::AnalyseMode => self.analyse_mode = on,
            OptionName::ShowWdl => self.show_wdl = on,
            OptionName::ShowMovesLeft => self.engine.settings.show_moves_left = on,
            OptionName::LimitStrength => {
                self.limit_strength = on;
                self.set_strength();
            }
            _ => self.chess960 = on,
        }
        Ok(OptionChange::Value)
    }

    fn set_text(
        &mut self,
        name: &'static str,
        option: OptionName,
        value: &str,
    ) -> Result<OptionChange, OptionError> {
        let given = !value.is_empty() && value != EMBEDDED && value != EMPTY;
        let path = given.then(|| Path::new(value));
        let kept = self.value(option);
        let refuse = |reason: String| OptionError::File { name, reason, kept };
        match option {
            OptionName::SyzygyPath => {
                let tables = &mut self.engine.settings.tables;
                // A GUI sets the option before every game: open tables stay open.
                if path != tables.as_ref().map(|tables| tables.path()) {
                    let opened = path.map(Tablebases::open).transpose();
                    *tables = opened.map_err(|error| refuse(error.to_string()))?.map(Arc::new);
                    let unusable = tables.iter().flat_map(|tables| tables.unusable());
                    let reasons: Vec<String> = unusable.map(ToString::to_string).collect();
                    if !reasons.is_empty() {
                        return Ok(OptionChange::Partly(reasons.join("; ")));
                    }
                }
            }
            OptionName::BookFile => {
                let opened = path.map(Book::open).transpose();
                self.book = opened.map_err(|error| refuse(error.to_string()))?.map(Arc::new);
            }
            OptionName::Device => self.engine.devices = value.parse().map_err(refuse)?,
            _ => {
                let path = path.map(Path::to_owned);
                if path != self.engine.network {
                    self.engine.network = path;
                    return Ok(OptionChange::Network);
                }
            }
        }
        Ok(OptionChange::Value)
    }

    fn set_combo(
        &mut self,
        name: &'static str,
        option: OptionName,
        values: &'static [&'static str],
        value: &str,
    ) -> Result<OptionChange, OptionError> {
        let Some(chosen) = values.iter().find(|known| known.eq_ignore_ascii_case(value)) else {
            let (values, value) = (values.join(", "), shortened(value));
            return Err(OptionError::Combo { name, values, value, kept: self.value(option) });
        };
        // `auto` does not parse, so it gives `None`.
        match option {
            OptionName::System => {
                let system = chosen.parse().ok();
                if system != self.engine.system {
                    self.engine.system = system;
                    return Ok(OptionChange::Network);
                }
            }
            OptionName::Search => self.engine.algorithm = chosen.parse().ok(),
            OptionName::Cpu => self.engine.path = chosen.parse().ok(),
            _ => self.engine.precision = chosen.parse().ok(),
        }
        Ok(OptionChange::Value)
    }

    fn set_number(&mut self, option: OptionName, number: u64) {
        // The ranges of the table fit every integer type used here.
        match option {
            OptionName::Hash => self.engine.settings.hash_mib = number as usize,
            OptionName::Threads => self.engine.threads = number as usize,
            OptionName::MultiPv => self.engine.settings.multipv = number as usize,
            OptionName::Batch => self.engine.settings.batch = number as usize,
            OptionName::Fill => self.engine.settings.fill = number as usize,
            OptionName::Temperature => self.engine.settings.temperature = number as u32,
            OptionName::TopP => self.engine.settings.top_p = number as u32,
            OptionName::OpponentErrors => self.engine.settings.opponent_errors = number as i32,
            OptionName::Elo => {
                self.elo = number;
                self.set_strength();
            }
            _ => self.engine.settings.move_overhead = Duration::from_millis(number),
        }
    }

    fn set_strength(&mut self) {
        let evaluations = self.limit_strength.then(|| evaluations_at(self.elo));
        self.engine.settings.evaluations = evaluations;
    }

    fn value(&self, option: OptionName) -> String {
        match option {
            OptionName::Hash => self.engine.settings.hash_mib.to_string(),
            OptionName::ClearHash => String::new(),
            OptionName::Threads => self.engine.threads.to_string(),
            OptionName::MultiPv => self.engine.settings.multipv.to_string(),
            OptionName::Ponder => self.ponder.to_string(),
            OptionName::MoveOverhead => self.engine.settings.move_overhead.as_millis().to_string(),
            OptionName::Batch => self.engine.settings.batch.to_string(),
            OptionName::Fill => self.engine.settings.fill.to_string(),
            OptionName::WeightsFile => match &self.engine.network {
                Some(path) => path.display().to_string(),
                None => EMBEDDED.to_owned(),
            },
            OptionName::SyzygyPath => {
                let tables = self.engine.settings.tables.as_ref();
                tables.map_or(EMPTY.to_owned(), |tables| tables.path().display().to_string())
            }
            OptionName::OwnBook => self.own_book.to_string(),
            OptionName::BookFile => self.book.as_ref().map_or(EMPTY, |book| book.name()).to_owned(),
            OptionName::System => self.engine.system.map_or(AUTOMATIC, System::name).to_owned(),
            OptionName::Search => {
                self.engine.algorithm.map_or(AUTOMATIC, Algorithm::name).to_owned()
            }
            OptionName::QuietLeaves => self.engine.settings.quiet_leaves.to_string(),
            OptionName::Temperature => self.engine.settings.temperature.to_string(),
            OptionName::TopP => self.engine.settings.top_p.to_string(),
            OptionName::OpponentErrors => self.engine.settings.opponent_errors.to_string(),
            OptionName::Device => self.engine.devices.to_string(),
            OptionName::Cpu => self.engine.path.map_or(AUTOMATIC, CpuPath::name).to_owned(),
            OptionName::Precision => {
                self.engine.precision.map_or(AUTOMATIC, Precision::name).to_owned()
            }
            OptionName::AnalyseMode => self.analyse_mode.to_string(),
            OptionName::ShowWdl => self.show_wdl.to_string(),
            OptionName::ShowMovesLeft => self.engine.settings.show_moves_left.to_string(),
            OptionName::Chess960 => self.chess960.to_string(),
            OptionName::LimitStrength => self.limit_strength.to_string(),
            OptionName::Elo => self.elo.to_string(),
        }
    }

    /// Every option in the order of the table, with its current value; then, in a build with the
    /// feature `tuning`, the numbers of the searches.
    pub fn list(&self) -> impl Iterator<Item = NamedOption> {
        let options = TABLE.iter().map(|&(name, option, kind)| NamedOption {
            name,
            kind,
            value: self.value(option),
        });
        options.chain(tunables().iter().map(|&Tunable { name, least, most }| NamedOption {
            name,
            kind: OptionKind::Spin { least, most },
            value: self.tunable(name),
        }))
    }
}

#[cfg(test)]
mod tests;
