//! The arguments of `go`. Every number is taken as given: 0 ms means "move at once", not "no limit".

use std::time::Duration;

use board::{Color, Move, Position, shortened};
use search::{Clock, Limits};

/// Longest accepted time, in milliseconds (about 30 years); it keeps sums of times within their types.
const LONGEST_MS: i64 = 1_000_000_000_000;

/// The arguments of `go` as written; numbers out of range are the nearest that fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Go {
    pub depth: Option<i64>,
    pub nodes: Option<i64>,
    /// Milliseconds, as all times here.
    pub movetime: Option<i64>,
    pub wtime: Option<i64>,
    pub btime: Option<i64>,
    pub winc: Option<i64>,
    pub binc: Option<i64>,
    pub movestogo: Option<i64>,
    pub mate: Option<i64>,
    pub perft: Option<i64>,
    pub infinite: bool,
    pub ponder: bool,
    /// Not yet checked.
    pub searchmoves: Vec<String>,
    /// Sentences about words that were not understood.
    pub complaints: Vec<String>,
    /// A limit was given that could not be read.
    pub unreadable_limit: bool,
}

const FLAGS: [&str; 2] = ["infinite", "ponder"];

/// Reads the words after `go`.
pub(crate) fn parse(words: &[&str]) -> Go {
    let mut go = Go::default();
    let mut words = words.iter().copied().peekable();
    while let Some(word) = words.next() {
        match word {
            "infinite" => go.infinite = true,
            "ponder" => go.ponder = true,
            "searchmoves" => {
                while let Some(mv) = words.next_if(|word| !is_keyword(word)) {
                    go.searchmoves.push(mv.to_owned());
                }
            }
            _ => {
                let Some(slot) = go.number(word) else {
                    go.complaints.push(format!("`go` does not know `{}`", shortened(word)));
                    continue;
                };
                let text = words.next_if(|word| !is_keyword(word));
                match text.and_then(number) {
                    Some(value) => *slot = Some(value),
                    None => {
                        go.complaints.push(match text {
                            Some(text) => {
                                format!("`go {word}` wants a number, not `{}`", shortened(text))
                            }
                            None => format!("`go {word}` wants a number"),
                        });
                        go.unreadable_limit = true;
                    }
                }
            }
        }
    }
    go
}

fn is_keyword(word: &str) -> bool {
    FLAGS.contains(&word) || word == "searchmoves" || Go::default().number(word).is_some()
}

/// A whole number, saturated to what fits; a fraction is cut off.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let whole = match digits.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => whole,
        Some(_) => return None,
        None => digits,
    };
    if whole.is_empty() || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = whole.bytes().fold(0_i64, |value, digit| {
        value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    });
    Some(if negative { -value } else { value })
}

impl Go {
    fn number(&mut self, word: &str) -> Option<&mut Option<i64>> {
        Some(match word {
            "depth" => &mut self.depth,
            "nodes" => &mut self.nodes,
            "movetime" => &mut self.movetime,
            "wtime" => &mut self.wtime,
            "btime" => &mut self.btime,
            "winc" => &mut self.winc,
            "binc" => &mut self.binc,
            "movestogo" => &mut self.movestogo,
            "mate" => &mut self.mate,
            "perft" => &mut self.perft,
            _ => return None,
        })
    }

    /// The limits for the side to move in `position`, and the complaints about the arguments.
    #[must_use]
    pub fn limits(&self, position: &Position) -> (Limits, Vec<String>) {
        let mut complaints = self.complaints.clone();
        let mut limits = Limits {
            depth: self.depth.map(|depth| depth.clamp(0, i64::from(u32::MAX)) as u32),
            nodes: self.nodes.map(|nodes| nodes.max(0) as u64),
            movetime: self.movetime.map(milliseconds),
            clock: self.clock(position.turn(), &mut complaints),
            mate: self.mate.map(|mate| mate.clamp(0, i64::from(u32::MAX)) as u32),
            search_moves: search_moves(position, &self.searchmoves, &mut complaints),
            infinite: self.infinite,
            ponder: self.ponder,
            analysis: false,
        };
        let unlimited = limits.depth.is_none()
            && limits.nodes.is_none()
            && limits.movetime.is_none()
            && limits.clock.is_none()
            && limits.mate.is_none();
        if self.unreadable_limit && unlimited && !self.infinite {
            // The sender of a limit expects an answer.
            complaints.push("no limit could be read: moving at once".to_owned());
            limits.movetime = Some(Duration::ZERO);
        }
        (limits, complaints)
    }

    fn clock(&self, turn: Color, complaints: &mut Vec<String>) -> Option<Clock> {
        let (own, other) = match turn {
            Color::White => ((self.wtime, self.winc), (self.btime, self.binc)),
            Color::Black => ((self.btime, self.binc), (self.wtime, self.winc)),
        };
        let remaining = match (own.0, other.0) {
            (Some(own), _) => own,
            (None, Some(other)) => {
                complaints.push(
                    "the time of the side to move is missing: taking the other side's".to_owned(),
                );
                other
            }
            // An increment alone is a clock that has run out.
            (None, None) if own.1.is_some() => 0,
            (None, None) => return None,
        };
        Some(Clock {
            remaining: milliseconds(remaining),
            increment: milliseconds(own.1.unwrap_or(0)),
            // `movestogo 0` is ignored; some user interfaces send it for sudden death.
            moves_to_go: self
                .movestogo
                .filter(|&moves| moves > 0)
                .map(|moves| moves.min(i64::from(u32::MAX)) as u32),
        })
    }
}

fn milliseconds(value: i64) -> Duration {
    Duration::from_millis(value.clamp(0, LONGEST_MS) as u64)
}

fn search_moves(position: &Position, texts: &[String], complaints: &mut Vec<String>) -> Vec<Move> {
    let mut moves = Vec::new();
    for text in texts {
        match board::parse_uci(position, text) {
            Ok(mv) if moves.contains(&mv) => {}
            Ok(mv) => moves.push(mv),
            Err(_) => {
                complaints
                    .push(format!("searchmoves: `{}` is not a legal move here", shortened(text)));
            }
        }
    }
    if moves.is_empty() && !texts.is_empty() {
        complaints.push("searchmoves: no legal move among them, searching all moves".to_owned());
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(line: &str) -> (Limits, Vec<String>) {
        let words: Vec<&str> = line.split_whitespace().collect();
        parse(&words).limits(&Position::default())
    }

    #[test]
    fn zero_and_negative_limits_are_kept() {
        assert_eq!(limits("movetime 0").0.movetime, Some(Duration::ZERO));
        assert_eq!(limits("movetime -5").0.movetime, Some(Duration::ZERO));
        assert_eq!(limits("nodes 0").0.nodes, Some(0));
        assert_eq!(limits("depth -3").0.depth, Some(0));
        let clock = limits("wtime -100 btime 5 movestogo 0").0.clock.unwrap();
        assert_eq!((clock.remaining, clock.moves_to_go), (Duration::ZERO, None));
        assert_eq!(limits("winc 50 binc 50").0.clock.unwrap().remaining, Duration::ZERO);
    }

    #[test]
    fn numbers_saturate() {
        assert_eq!(limits("depth 99999999999999999999").0.depth, Some(u32::MAX));
        assert_eq!(limits("nodes 99999999999999999999").0.nodes, Some(i64::MAX as u64));
        assert_eq!(limits("movetime 1500.7").0.movetime, Some(Duration::from_millis(1500)));
        assert!(
            limits("movetime 99999999999999999999").0.movetime.unwrap()
                < Duration::from_secs(2_000_000_000)
        );
    }

    #[test]
    fn an_unreadable_limit_moves_at_once() {
        for line in ["movetime abc", "movetime", "depth infinity", "nodes 1e6"] {
            let (limits, complaints) = limits(line);
            assert_eq!(limits.movetime, Some(Duration::ZERO), "{line}");
            assert_eq!(complaints.len(), 2, "{line}");
        }
        let (limits, complaints) = limits("movetime x depth 3");
        assert_eq!((limits.movetime, limits.depth, complaints.len()), (None, Some(3), 1));
    }

    #[test]
    fn search_moves_end_at_the_next_word() {
        let (limits, complaints) = limits("searchmoves e2e4 e2e5 d2d4 d2d4 depth 2 joho");
        assert_eq!(limits.search_moves.len(), 2);
        assert_eq!(limits.depth, Some(2));
        assert_eq!(complaints.len(), 2);
    }

    #[test]
    fn the_other_clock_replaces_a_missing_own_clock() {
        let (limits, complaints) = limits("btime 1000 binc 10");
        let clock = limits.clock.unwrap();
        assert_eq!((clock.remaining, clock.increment), (Duration::from_secs(1), Duration::ZERO));
        assert_eq!(complaints.len(), 1);
    }
}
