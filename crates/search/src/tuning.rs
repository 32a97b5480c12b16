//! Numbers of the search that a match can vary without another build.
//!
//! Built with the feature `tuning`, a program reads `BATCH_FIRST_TUNING`, as in
//! `null_move_base=64,static_plies=6`, and every search that has the number uses it; a name that no
//! search has ends the program, because a match would compare a search with itself. Without the
//! feature every number is its default and costs nothing.

/// The number of this name.
#[cfg(not(feature = "tuning"))]
#[inline]
pub(crate) const fn number(_name: &str, default: i32) -> i32 {
    default
}

/// The names of all numbers.
#[cfg(feature = "tuning")]
const NAMES: [&str; 20] = [
    "check_extension",
    "correction",
    "deepening",
    "delta_margin",
    "history",
    "improving",
    "late_pruning",
    "late_pruning_each",
    "never_late",
    "null_move",
    "null_move_base",
    "null_move_divisor",
    "null_move_step",
    "parent_part",
    "razor_margin",
    "reduction_divisor",
    "reduction_each",
    "reduction_likely",
    "static_margin",
    "static_plies",
];

/// The number of this name: that of the environment, or its default.
#[cfg(feature = "tuning")]
pub(crate) fn number(name: &str, default: i32) -> i32 {
    static NUMBERS: std::sync::OnceLock<Vec<(String, i32)>> = std::sync::OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        let text = std::env::var("BATCH_FIRST_TUNING").unwrap_or_default();
        let parse = |entry: &str| {
            let (name, number) = entry.split_once('=')?;
            let name = name.trim();
            NAMES.contains(&name).then_some((name.to_owned(), number.trim().parse().ok()?))
        };
        let entries = text.split(',').filter(|entry| !entry.trim().is_empty());
        let pair = |entry| {
            parse(entry).unwrap_or_else(|| {
                panic!("BATCH_FIRST_TUNING: `{entry}` is not NAME=NUMBER with one of {NAMES:?}")
            })
        };
        entries.map(pair).collect()
    });
    debug_assert!(NAMES.contains(&name), "{name} is not in the list");
    numbers.iter().find(|(known, _)| known == name).map_or(default, |&(_, number)| number)
}
