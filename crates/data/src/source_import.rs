//! Imports the records of one file: numbers and filters them, assigns each to a split, and puts
//! them into the buckets.

use std::ops::ControlFlow;

use board::mix64;

use crate::buckets::{Buckets, squares_hash};
use crate::error::DataError;
use crate::import_options::ImportOptions;
use crate::parsed::ParsedChunk;
use crate::record::{MATE_LABEL, NO_LABEL, Record};
use crate::skip::{SkipKind, Skipped};
use crate::split::Split;

/// Takes the chunks of one file in order: numbers, filters and splits their records.
pub(crate) struct SourceImport<'a> {
    options: &'a ImportOptions,
    buckets: &'a mut Buckets,
    /// Number of the file, from 0.
    source: u8,
    /// Games in the files before this one.
    first_game: u64,
    /// Games (of a list of positions: lines) read so far.
    pub(crate) games: u64,
    /// Positions read so far, labelled or not.
    pub(crate) positions: u64,
    /// Records put into the buckets so far.
    taken: u64,
    pub(crate) skipped: Skipped,
}

impl<'a> SourceImport<'a> {
    pub(crate) fn new(
        options: &'a ImportOptions,
        buckets: &'a mut Buckets,
        source: u8,
        first_game: u64,
    ) -> Self {
        Self {
            options,
            buckets,
            source,
            first_game,
            games: 0,
            positions: 0,
            taken: 0,
            skipped: Skipped::default(),
        }
    }

    /// Takes the next chunk; breaks after `max_positions` records.
    pub(crate) fn take(&mut self, parsed: ParsedChunk) -> Result<ControlFlow<()>, DataError> {
        self.positions += parsed.positions;
        self.skipped.merge(&parsed.skipped);
        for mut record in parsed.records {
            if self.options.max_positions.is_some_and(|most| self.taken >= most) {
                self.games += u64::from(parsed.games);
                return Ok(ControlFlow::Break(()));
            }
            self.drop_mates(&mut record);
            let labelled = record.value != NO_LABEL || record.played_value != NO_LABEL;
            let wanted = self.options.unlabelled && record.played != nets::PolicyIndex::MAX;
            if !labelled && !wanted {
                self.skipped.add(SkipKind::Unlabelled);
                continue;
            }
            let origin = parsed.origins.get(record.game as usize).copied().flatten();
            let game = self.games + u64::from(record.game);
            record.game = (self.first_game + game) as u32;
            record.source = self.source;
            let packed = record.pack();
            let split_key = if parsed.single_positions {
                squares_hash(&packed, mix64(self.options.seed))
            } else {
                /// Apart from the numbers of games in the file.
                const ORIGIN: u64 = 1 << 39;
                let number = origin.map_or(game, |origin| ORIGIN | u64::from(origin));
                mix64(mix64(self.options.seed) ^ mix64(u64::from(self.source) << 40 | number))
            };
            // The upper 53 bits as a number from 0 to below 1.
            let held_out =
                ((split_key >> 11) as f64 / (1_u64 << 53) as f64) < self.options.validation;
            let split = if held_out { Split::Validation } else { Split::Train };
            self.buckets.push(packed, squares_hash(&packed, 0), split)?;
            self.taken += 1;
        }
        self.games += u64::from(parsed.games);
        Ok(ControlFlow::Continue(()))
    }

    /// Removes mate labels from a record unless the options keep them.
    fn drop_mates(&mut self, record: &mut Record) {
        if self.options.mates {
            return;
        }
        for label in [&mut record.value, &mut record.played_value] {
            if *label != NO_LABEL && label.unsigned_abs() >= MATE_LABEL as u32 {
                *label = NO_LABEL;
                self.skipped.add(SkipKind::Mate);
            }
        }
    }
}
