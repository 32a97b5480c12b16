//! Numbers of the searches that a tuner can vary without another build.
//!
//! Each has its meaning, its default and its range in one place, the table below. Built with the
//! feature `tuning`, a program lists them as UCI options, for matches between settings and for
//! tuners (SPSA). Without it they are what the table says.

/// A number that can be varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Its name, also as an option.
    pub name: &'static str,
    /// The smallest value that a search works with and a tuner may try.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

macro_rules! tunables {
    ($(
        $(#[doc = $meaning:literal])*
        $name:ident: $default:literal in $least:literal..=$most:literal;
    )+) => {
        /// Numbers of the searches, by default those that games chose.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Tuning {
            $($(#[doc = $meaning])* pub(crate) $name: i32,)+
        }

        impl Default for Tuning {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        const ALL: &[Tunable] =
            &[$(Tunable { name: stringify!($name), least: $least, most: $most },)+];

        impl Tuning {
            /// The number of this name.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<i32> {
                match name {
                    $(stringify!($name) => Some(self.$name),)+
                    _ => None,
                }
            }

            fn get_mut(&mut self, name: &str) -> Option<&mut i32> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

// What has no comment is what K-best-first has under the same name; `Selectivity` says more.
tunables! {
    /// Late-move reductions: ln(depth) x ln(rank) is divided by this, in hundredths.
    kbest_reduction_divisor: 140 in 60..=400;
    /// Late-move pruning: the log-chance at depth 1, in hundredths, negated.
    kbest_late_pruning: 300 in 100..=800;
    /// Late-move pruning: the same for each further ply.
    kbest_late_pruning_each: 60 in 0..=200;
    /// Delta pruning, in centipawns.
    kbest_delta_margin: 100 in 0..=400;
    /// Reverse futility pruning, in centipawns for each ply.
    kbest_static_margin: 100 in 20..=300;
    /// Razoring, in centipawns for each ply.
    kbest_razor_margin: 70 in 0..=300;
    /// Reverse futility pruning: largest depth, in plies.
    kbest_static_plies: 5 in 1..=10;
    /// Null move: least depth, in plies.
    kbest_null_move_plies: 2 in 1..=8;
    /// Null move: reduction, in sixteenths of a ply.
    kbest_null_move_base: 32 in 16..=80;
    /// Null move: the depth divided by this is the further reduction.
    kbest_null_move_divisor: 4 in 2..=12;
    /// Null move: a ply more for each of these centipawns above the bound.
    kbest_null_move_step: 150 in 40..=400;
    /// First moves that are never late.
    kbest_never_late: 1 in 1..=8;
    /// Part of the parent's static evaluation in a position's, in percent.
    kbest_parent_part: 25 in 0..=60;
    /// Correction history: the added part, in percent.
    kbest_correction: 50 in 0..=150;
    /// Cutoff history: the largest bonus, in hundredths of a log-chance.
    kbest_history: 120 in 0..=300;
    /// Checks: deeper by this, in sixteenths of a ply.
    kbest_check_extension: 8 in 0..=16;
    alphabeta_reduction_divisor: 200 in 60..=400;
    /// Late-move reductions: log-chance of a move reduced by rank alone, in hundredths, negated.
    alphabeta_reduction_likely: 200 in 50..=500;
    /// Late-move reductions: sixteenths of a ply for each unit of the log-chance.
    alphabeta_reduction_each: 8 in 0..=32;
    alphabeta_late_pruning: 300 in 100..=800;
    alphabeta_late_pruning_each: 60 in 0..=200;
    alphabeta_delta_margin: 100 in 0..=400;
    alphabeta_static_margin: 90 in 20..=300;
    alphabeta_razor_margin: 90 in 0..=300;
    alphabeta_static_plies: 6 in 1..=10;
    /// Reverse futility pruning: less margin where the evaluation improves, in centipawns.
    alphabeta_improving: 40 in 0..=120;
    alphabeta_null_move_plies: 2 in 1..=8;
    alphabeta_null_move_base: 48 in 16..=80;
    alphabeta_null_move_divisor: 4 in 2..=12;
    alphabeta_null_move_step: 150 in 40..=400;
    alphabeta_never_late: 3 in 1..=8;
}

/// The numbers that this build lets users vary: all with the feature `tuning`, none without.
#[must_use]
pub const fn tunables() -> &'static [Tunable] {
    if cfg!(feature = "tuning") { ALL } else { &[] }
}

impl Tuning {
    /// Sets a number. `false`: there is none of this name, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let fits = |tunable: &&Tunable| {
            tunable.name == name && (tunable.least..=tunable.most).contains(&value)
        };
        let is_known = ALL.iter().any(|tunable| fits(&tunable));
        match self.get_mut(name).filter(|_| is_known) {
            // The ranges of the table fit.
            Some(number) => *number = value as i32,
            None => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_can_be_set_within_its_range() {
        let mut tuning = Tuning::default();
        for &Tunable { name, least, most } in ALL {
            let default = tuning.get(name).unwrap();
            assert!((least..=most).contains(&(default as u64)), "{name}: the default is in range");
            for value in [least, most] {
                assert!(tuning.set(name, value), "{name}");
                assert_eq!(tuning.get(name), Some(value as i32));
            }
            assert!(!tuning.set(name, most + 1) && !tuning.set(name, u64::MAX));
            assert_eq!(tuning.get(name), Some(most as i32), "a refused value changes nothing");
            assert!(tuning.set(name, default as u64));
        }
        assert_eq!(tuning, Tuning::default());
        assert!(!tuning.set("kbest", 1) && tuning.get("kbest").is_none());
    }
}
