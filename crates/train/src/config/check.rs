//! Checks a configuration section by section; each error names the setting.

use nets::{Activation, Encoding, HeadKind};

use super::{
    BackendKind, COCKFISH, CONVCHESS, Config, DataSection, ModelSection, RESIDUAL, TrainingSection,
    sections::{default_shuffle, is_empty},
};
use crate::{Loss, Objective, backend::check_together};

/// Largest number of residual blocks.
const MAX_BLOCKS: usize = 256;

/// Largest number of channels of a trunk.
const MAX_FILTERS: usize = 4096;

/// Largest shuffle buffer in positions: about 2 GB.
const MAX_SHUFFLED: usize = 20_000_000;

/// Largest number of random moves of a position; the loss compares all pairs of moves of a batch.
const MAX_EXPLORED: usize = 15;

impl Config {
    pub(super) fn check(&self) -> Result<(), String> {
        self.training.check()?;
        if !(0.0..1.0).contains(&self.optimizer.dropout) {
            return Err(format!(
                "optimizer.dropout is {}; it must be at least 0 and below 1",
                self.optimizer.dropout
            ));
        }
        if !(0.0..1.0).contains(&self.optimizer.l2) {
            return Err(format!(
                "optimizer.l2 is {}; it must be at least 0 and below 1",
                self.optimizer.l2
            ));
        }
        for (name, value) in [("beta1", self.optimizer.beta1), ("beta2", self.optimizer.beta2)] {
            if !(0.0..1.0).contains(&value) {
                return Err(format!(
                    "optimizer.{name} is {value}; it must be at least 0 and below 1"
                ));
            }
        }
        if !(self.optimizer.epsilon > 0.0 && self.optimizer.epsilon.is_finite()) {
            return Err(format!(
                "optimizer.epsilon is {}; it must be above 0",
                self.optimizer.epsilon
            ));
        }
        self.model.check()?;
        self.data.check()?;
        self.check_objectives()?;
        if self.checkpoints.keep == 0 {
            return Err("checkpoints.keep must be at least 1".to_owned());
        }
        let name = &self.run.name;
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
            return Err(format!("run.name is `{name}`; use letters, digits, `-`, `_` and `.`"));
        }
        self.training.schedule.check()
    }

    /// Checks the heads and their losses, together and against the data.
    fn check_objectives(&self) -> Result<(), String> {
        let objectives = self.objectives();
        if self.data.stream.is_some() {
            if !matches!(objectives.as_slice(), [Objective { head: HeadKind::Value, .. }]) {
                return Err("data.stream has values of positions only: model.head must be `value`"
                    .to_owned());
            }
            if self.training.epochs.is_some() && self.data.max_positions.is_none() {
                return Err(
                    "with data.stream the length of an epoch is unknown: give training.samples or training.steps, \
                     or data.max_positions too"
                        .to_owned(),
                );
            }
        }
        for (index, objective) in objectives.iter().enumerate() {
            objective.check()?;
            if objectives[..index].iter().any(|other| other.head == objective.head) {
                return Err(format!("model.head names the {} head twice", objective.head.name()));
            }
        }
        if self.parts().is_empty() {
            check_together(&objectives)?;
        }
        if objectives.is_empty() {
            return Err("model.head names no head".to_owned());
        }
        let ordinal_moves = |objective: &Objective| {
            objective.head == HeadKind::Moves && objective.loss == Loss::Ordinal
        };
        if self.data.explored > 0
            && (self.data.teacher.is_none() || !objectives.iter().any(ordinal_moves))
        {
            return Err(
                "data.explored needs a move head with the ordinal loss and data.teacher, a value network"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

impl TrainingSection {
    fn check(&self) -> Result<(), String> {
        let lengths = [self.steps.is_some(), self.samples.is_some(), self.epochs.is_some()];
        if lengths.iter().filter(|&&given| given).count() != 1 {
            return Err("give exactly one of training.steps, training.samples and training.epochs"
                .to_owned());
        }
        if self.epochs.is_some_and(|epochs| !(epochs > 0.0 && epochs < 1e6)) {
            return Err("training.epochs must be above 0".to_owned());
        }
        let device: eval::Devices =
            self.device.parse().map_err(|why: String| format!("training.device: {why}"))?;
        if self.backend == BackendKind::Cpu
            && (device != eval::Devices::cpu() || self.mixed_precision)
        {
            return Err(
                "training.device and training.mixed_precision want training.backend = \"burn\"; the backend \
                        `cpu` is the processor in its own formats"
                    .to_owned(),
            );
        }
        if !(2..=1 << 20).contains(&self.batch) {
            return Err(format!("training.batch is {}; it must be at least 2", self.batch));
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return Err(format!(
                "training.learning_rate is {}; it must be above 0",
                self.learning_rate
            ));
        }
        if !(0.0..1.0).contains(&self.average) {
            return Err(format!(
                "training.average is {}; it must be at least 0 and below 1",
                self.average
            ));
        }
        if self.log_every == 0 {
            return Err("training.log_every must be at least 1".to_owned());
        }
        if self.max_minutes.is_some_and(|minutes| minutes.is_nan() || minutes <= 0.0) {
            return Err("training.max_minutes must be above 0".to_owned());
        }
        Ok(())
    }
}

impl ModelSection {
    fn check(&self) -> Result<(), String> {
        let (has_blocks, is_convchess) =
            ([RESIDUAL, COCKFISH].contains(&self.start.as_str()), self.start == CONVCHESS);
        if (self.blocks.is_some() && !has_blocks)
            || (self.filters.is_some() && !has_blocks && !is_convchess)
        {
            return Err(format!(
                "model.filters and model.blocks belong to model.start = \"{RESIDUAL}\" and \"{COCKFISH}\" (the former to \
                 \"{CONVCHESS}\" too)"
            ));
        }
        let is_ours =
            ["batch-first", "batch-first-shared", RESIDUAL].contains(&self.start.as_str());
        if !is_ours && self.input.is_some() {
            return Err(format!(
                "model.input belongs to model.start = \"batch-first\", \"batch-first-shared\" and \"{RESIDUAL}\""
            ));
        }
        if matches!(
            self.input,
            Some(Encoding::Cockfish13 | Encoding::ConvChess6 | Encoding::Leela(_))
        ) {
            return Err(
                "model.input must be `batch-first-15`, `attacks-21` or `attacks-21-king-right`"
                    .to_owned(),
            );
        }
        if (self.activation.is_some() || self.pooling.is_some()) && self.start != COCKFISH {
            return Err(format!(
                "model.activation and model.pooling belong to model.start = \"{COCKFISH}\""
            ));
        }
        let is_known = |activation: &Activation| {
            use Activation::{Gelu, LeakyRelu, Relu, Silu};
            matches!(activation, Relu | LeakyRelu | Gelu | Silu)
        };
        if !self.activation.as_ref().is_none_or(is_known) {
            return Err(
                "model.activation must be `relu`, `leaky-relu`, `gelu` or `silu`".to_owned()
            );
        }
        if let Some(filters) = self.filters.filter(|filters| !(1..=MAX_FILTERS).contains(filters)) {
            return Err(format!("model.filters is {filters}; it must be from 1 to {MAX_FILTERS}"));
        }
        if !is_convchess && [self.convolutions, self.pools, self.dense].iter().any(Option::is_some)
        {
            return Err(format!(
                "model.convolutions, model.pools and model.dense belong to model.start = \"{CONVCHESS}\""
            ));
        }
        if let Some(scale) = self.weight_scale.filter(|scale| !(scale.is_finite() && *scale > 0.0))
        {
            return Err(format!("model.weight_scale is {scale}; it must be above 0"));
        }
        if let Some(blocks) = self.blocks.filter(|&blocks| blocks > MAX_BLOCKS) {
            return Err(format!("model.blocks is {blocks}; it must be at most {MAX_BLOCKS}"));
        }
        Ok(())
    }
}

impl DataSection {
    fn check(&self) -> Result<(), String> {
        let streamed = self.stream.is_some();
        if streamed != is_empty(&self.directory) {
            return Err("give data.directory or data.stream, one of them".to_owned());
        }
        if !streamed
            && (self.max_positions.is_some() || !self.mates || self.shuffle != default_shuffle())
        {
            return Err(
                "data.shuffle, data.max_positions and data.mates belong to data.stream".to_owned()
            );
        }
        if streamed && !self.sources.is_empty() {
            return Err("data.sources belongs to data.directory".to_owned());
        }
        if !(1..=MAX_SHUFFLED).contains(&self.shuffle) {
            return Err(format!(
                "data.shuffle is {}; it must be from 1 to {MAX_SHUFFLED}",
                self.shuffle
            ));
        }
        if self.explored > MAX_EXPLORED {
            return Err(format!(
                "data.explored is {}; it must be at most {MAX_EXPLORED}",
                self.explored
            ));
        }
        if self.blunder_margin < 0 {
            return Err(format!(
                "data.blunder_margin is {}; it must be at least 0",
                self.blunder_margin
            ));
        }
        if self.max_positions == Some(0) {
            return Err("data.max_positions must be at least 1".to_owned());
        }
        Ok(())
    }
}
