//! Names of openings by position, so that transpositions have their name as well. The table is
//! public domain (`openings/ORIGIN.txt`); it is read when a name is first wanted.

use std::{collections::HashMap, sync::OnceLock};

use board::{Position, parse_san};

/// ECO code, name and moves, one opening a line; a head line first.
const TABLE: &str = include_str!("../openings/openings.tsv");

/// The name of the opening that a position belongs to, with its ECO code: `B90 Sicilian Defense:
/// Najdorf Variation`. `None` for a position that no opening ends in.
pub fn opening_name(position: &Position) -> Option<&'static str> {
    static NAMES: OnceLock<HashMap<u64, String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        TABLE
            .lines()
            .skip(1)
            .filter_map(|line| Some((last_position(line)?.key(), name(line)?)))
            .collect()
    });
    // The deepest opening ends after 18 moves.
    (position.ply() <= 40).then(|| names.get(&position.key()).map(String::as_str)).flatten()
}

fn name(line: &str) -> Option<String> {
    let mut fields = line.split('\t');
    Some(format!("{} {}", fields.next()?, fields.next()?))
}

/// The position that an opening's moves lead to.
fn last_position(line: &str) -> Option<Position> {
    let mut position = Position::default();
    for word in line.split('\t').nth(2)?.split(' ') {
        if !word.ends_with('.') {
            let mv = parse_san(&position, word).ok()?;
            position.play(mv);
        }
    }
    Some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        for line in TABLE.lines().skip(1) {
            let position = last_position(line).unwrap_or_else(|| panic!("{line}"));
            assert!(position.ply() <= 40 && opening_name(&position).is_some(), "{line}");
        }
    }

    #[test]
    fn transpositions_have_the_same_name() {
        let after = |moves: &str| {
            let mut position = Position::default();
            for san in moves.split(' ') {
                let mv = parse_san(&position, san).unwrap();
                position.play(mv);
            }
            opening_name(&position)
        };
        let najdorf = Some("B90 Sicilian Defense: Najdorf Variation");
        assert_eq!(after("e4 c5 Nf3 d6 d4 cxd4 Nxd4 Nf6 Nc3 a6"), najdorf);
        assert_eq!(after("e4 c5 Nc3 d6 Nf3 a6 d4 cxd4 Nxd4 Nf6"), najdorf);
        assert_eq!(after("e4 e5 Ke2 Ke7 Ke1 Ke8"), None);
    }
}
