//! The statistics of a match as data, for the JSON file and the HTML report.

use std::collections::BTreeMap;

use board::Game;
use serde::Serialize;

use crate::{
    EloEstimate, FaultRecord, GameRecord, PairingResults, Pentanomial, PlayerResults, Results,
    SprtRun, WinDrawLoss, rate,
};

/// The statistics of a match; the JSON names of its fields are part of `report.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub title: String,
    pub players: Vec<PlayerSummary>,
    #[serde(rename = "duels")]
    pub head_to_heads: Vec<HeadToHeadSummary>,
    pub sprt: Option<SprtRun>,
    /// The first player's results by opening.
    pub openings: Vec<OpeningSummary>,
    /// In a match of two players: the estimate after growing numbers of games.
    pub progress: Vec<ProgressPoint>,
    pub games: Vec<GameSummary>,
}

/// A player's results.
#[derive(Clone, Debug, Serialize)]
pub struct PlayerSummary {
    pub name: String,
    pub limit: String,
    pub tally: WinDrawLoss,
    pub as_white: WinDrawLoss,
    pub as_black: WinDrawLoss,
    /// Joint maximum-likelihood rating with the ends of its 95 % interval; the first player has 0.
    /// `None` if the rating is not finite.
    pub rating: Option<[f64; 3]>,
    /// Numbers of games lost by a fault, by kind.
    pub faults: BTreeMap<String, usize>,
}

/// The results of two players against each other.
#[derive(Clone, Debug, Serialize)]
pub struct HeadToHeadSummary {
    pub first: usize,
    pub second: usize,
    pub tally: WinDrawLoss,
    pub pairs: Pentanomial,
    pub estimate: Option<EloEstimate>,
}

/// The results from one opening.
#[derive(Clone, Debug, Serialize)]
pub struct OpeningSummary {
    /// The moves, or the FEN of the position.
    pub name: String,
    /// The results of White.
    pub white: WinDrawLoss,
    /// The results of the first player.
    pub first: WinDrawLoss,
}

/// The first player's Elo after a number of games.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ProgressPoint {
    pub games: u32,
    pub elo: f64,
    pub low: f64,
    pub high: f64,
}

/// A game without its moves.
#[derive(Clone, Debug, Serialize)]
pub struct GameSummary {
    pub number: usize,
    pub white: usize,
    pub black: usize,
    pub result: &'static str,
    pub ending: String,
    pub opening: usize,
    pub plies: usize,
    pub seconds: f64,
    pub fault: Option<FaultRecord>,
}

/// The players of a match with their limits, and its openings.
#[derive(Clone, Debug)]
pub struct MatchDescription<'a> {
    pub names: &'a [String],
    pub limits: &'a [String],
    pub openings: &'a [Game],
}

impl Summary {
    /// Computes the statistics of a match.
    #[must_use]
    pub fn new(
        title: String,
        description: &MatchDescription<'_>,
        results: &Results,
        sprt: Option<SprtRun>,
    ) -> Self {
        let count = description.names.len();
        let pairings = results.pairing_results(count);
        let head_to_heads = pairings
            .iter()
            .map(|games| {
                let found = results.head_to_head(games.first, games.second);
                HeadToHeadSummary {
                    first: games.first,
                    second: games.second,
                    tally: found.tally,
                    pairs: found.pairs,
                    estimate: found.estimate(),
                }
            })
            .collect();
        Self {
            title,
            players: players(description, results, &pairings),
            head_to_heads,
            sprt,
            openings: openings(description, results),
            progress: if count == 2 { progress(results) } else { Vec::new() },
            games: results.games().map(GameSummary::new).collect(),
        }
    }
}

impl GameSummary {
    fn new(game: &GameRecord) -> Self {
        Self {
            number: game.number,
            white: game.white,
            black: game.black,
            result: game.result(),
            ending: game.ending.clone(),
            opening: game.opening,
            plies: game.plies,
            seconds: game.seconds,
            fault: game.fault.clone(),
        }
    }
}

fn players(
    description: &MatchDescription<'_>,
    results: &Results,
    pairings: &[PairingResults],
) -> Vec<PlayerSummary> {
    let count = description.names.len();
    let ratings = rate(count, pairings, 0, 0.0);
    (0..count)
        .map(|player| PlayerSummary {
            name: description.names[player].clone(),
            limit: description.limits[player].clone(),
            tally: results.of(player).tally,
            as_white: coloured(results, player, true),
            as_black: coloured(results, player, false),
            rating: ratings[player].filter(|rating| rating.error.is_finite()).map(|rating| {
                let (low, high) = rating.interval();
                [rating.elo, low, high]
            }),
            faults: results
                .faults(player)
                .into_iter()
                .map(|(kind, count)| (kind.to_owned(), count))
                .collect(),
        })
        .collect()
}

/// The results of a player with one colour.
fn coloured(results: &Results, player: usize, white: bool) -> WinDrawLoss {
    let mut tally = WinDrawLoss::default();
    for game in results.games() {
        if player == if white { game.white } else { game.black } {
            tally.add(if white { game.white_half_points } else { 2 - game.white_half_points });
        }
    }
    tally
}

fn openings(description: &MatchDescription<'_>, results: &Results) -> Vec<OpeningSummary> {
    let mut found: BTreeMap<usize, OpeningSummary> = BTreeMap::new();
    for game in results.games() {
        let opening = found.entry(game.opening).or_insert_with(|| OpeningSummary {
            name: description.openings.get(game.opening).map_or_else(String::new, opening_name),
            white: WinDrawLoss::default(),
            first: WinDrawLoss::default(),
        });
        opening.white.add(game.white_half_points);
        if let Some(half_points) = game.half_points(0) {
            opening.first.add(half_points);
        }
    }
    found.into_values().collect()
}

/// The moves of an opening, or the FEN of its position.
fn opening_name(opening: &Game) -> String {
    if opening.moves().is_empty() {
        opening.start().fen()
    } else {
        board::san_line(opening.start(), opening.moves())
    }
}

/// Largest number of points.
const MAX_POINTS: usize = 200;

fn progress(results: &Results) -> Vec<ProgressPoint> {
    let step = results.len().div_ceil(MAX_POINTS).max(1);
    let mut so_far = Results::default();
    let mut points = Vec::new();
    for (index, game) in results.games().enumerate() {
        so_far.add(game.clone());
        if (index + 1) % step != 0 && index + 1 != results.len() {
            continue;
        }
        let found: PlayerResults = so_far.of(0);
        if let Some(estimate) = found.estimate() {
            let EloEstimate { elo, low, high, .. } = estimate;
            points.push(ProgressPoint { games: found.tally.games(), elo, low, high });
        }
    }
    points
}
