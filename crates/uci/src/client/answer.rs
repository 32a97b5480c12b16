//! The answer of another engine to `go`: the fields of `info` that callers use. Unreadable fields are
//! left out.

use std::time::Duration;

use board::{Move, Score};
use nets::Wdl;
use search::Bound;

/// An `info` line of another engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineInfo {
    pub depth: Option<u32>,
    pub seldepth: Option<u32>,
    /// From 1.
    pub multipv: usize,
    /// From the side to move.
    pub score: Option<Score>,
    /// `None` for an exact score.
    pub bound: Option<Bound>,
    pub wdl: Option<Wdl>,
    pub nodes: Option<u64>,
    pub time: Option<Duration>,
    /// As written; not checked.
    pub pv: Vec<String>,
}

/// The end of a search by another engine.
#[derive(Clone, Debug)]
pub struct Answer {
    /// `None` if the engine reports that there is no move.
    pub best: Option<Move>,
    pub ponder: Option<String>,
    /// The last scored line of each rank, best first.
    pub lines: Vec<EngineInfo>,
    /// From sending `go` to reading `bestmove`.
    pub elapsed: Duration,
}

impl Answer {
    /// The score of the best line.
    #[must_use]
    pub fn score(&self) -> Option<Score> {
        self.lines.first().and_then(|line| line.score)
    }
}

impl EngineInfo {
    /// Reads an `info` line; `None` for other lines and for `info string`.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        if words.next()? != "info" {
            return None;
        }
        let mut info = Self { multipv: 1, ..Self::default() };
        while let Some(word) = words.next() {
            match word {
                "string" => return None,
                "depth" => info.depth = number(words.next()),
                "seldepth" => info.seldepth = number(words.next()),
                "multipv" => info.multipv = number(words.next()).unwrap_or(1).max(1),
                "nodes" => info.nodes = number(words.next()),
                "time" => info.time = number(words.next()).map(Duration::from_millis),
                "lowerbound" => info.bound = Some(Bound::Lower),
                "upperbound" => info.bound = Some(Bound::Upper),
                "score" => {
                    info.score = match (words.next(), number(words.next())) {
                        (Some("cp"), Some(value)) => Some(Score::Centipawns(value)),
                        (Some("mate"), Some(moves)) => Some(Score::Mate(moves)),
                        _ => None,
                    }
                }
                "wdl" => {
                    info.wdl =
                        match (number(words.next()), number(words.next()), number(words.next())) {
                            (Some(win), Some(draw), Some(loss)) => Some(Wdl { win, draw, loss }),
                            _ => None,
                        }
                }
                "pv" => {
                    info.pv = words.by_ref().map(str::to_owned).collect();
                }
                _ => {}
            }
        }
        Some(info)
    }
}

fn number<T: std::str::FromStr>(word: Option<&str>) -> Option<T> {
    word?.parse().ok()
}

/// Stores a line under its rank. A line without a score is dropped, and a bound does not replace an
/// exact score.
pub(super) fn keep(lines: &mut Vec<EngineInfo>, info: EngineInfo) {
    /// Highest accepted `multipv`; no position has more legal moves.
    const MOST: usize = 256;
    if info.score.is_none() || info.multipv > MOST {
        return;
    }
    match lines.iter_mut().find(|line| line.multipv == info.multipv) {
        Some(line) if info.bound.is_none() || line.bound.is_some() => *line = info,
        Some(_) => {}
        None => {
            lines.push(info);
            lines.sort_by_key(|line| line.multipv);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn info_lines_are_parsed() {
        let info = EngineInfo::parse(
            "info depth 12 seldepth 17 multipv 2 score cp -31 upperbound wdl 20 900 80 nodes 5417 nps 1 \
             hashfull 3 tbhits 0 time 9 pv e7e5 g1f3",
        )
        .unwrap();
        assert_eq!((info.depth, info.multipv, info.nodes), (Some(12), 2, Some(5417)));
        assert_eq!(info.score, Some(Score::Centipawns(-31)));
        assert_eq!(info.bound, Some(Bound::Upper));
        assert_eq!(info.wdl, Some(Wdl { win: 20, draw: 900, loss: 80 }));
        assert_eq!(info.pv, ["e7e5", "g1f3"]);
        assert_eq!(EngineInfo::parse("info score mate -3").unwrap().score, Some(Score::Mate(-3)));
        assert_eq!(EngineInfo::parse("info string depth 3"), None);
        assert_eq!(EngineInfo::parse("bestmove e2e4"), None);
        assert_eq!(EngineInfo::parse("info depth x score cp").unwrap().score, None);
    }

    #[test]
    fn an_exact_score_is_kept_over_a_bound() {
        let mut lines = Vec::new();
        for text in [
            "info score cp 1",
            "info score cp 90 lowerbound",
            "info multipv 2 score cp 0",
            "info depth 3",
        ] {
            keep(&mut lines, EngineInfo::parse(text).unwrap());
        }
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].score, Some(Score::Centipawns(1)));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(line in "(info)?( (depth|score|cp|mate|pv|wdl|multipv|-?[0-9]{1,30}|\\PC*)){0,9}") {
            let mut lines = Vec::new();
            if let Some(info) = EngineInfo::parse(&line) {
                keep(&mut lines, info);
            }
        }
    }
}
