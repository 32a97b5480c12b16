//! Reads games in PGN with `[%eval]` comments.
//!
//! A comment belongs to the position after the move that it follows (before the first move: to the
//! start position); its value is from White's side. The value of a move is minus the value of the
//! position that it leads to. A position in which the game is over gives no record, but the move
//! that mates or stalemates has its exact value. Comments inside variations are not read. Some
//! programs write values from the side of the player who moved; the sign then changes with every
//! move. The evaluations of such a game are dropped, see [`from_players_side`].

use std::ops::ControlFlow;

use board::{Position, Score};
use games::{castling_mode_of_variant, find_evaluation};
use nets::policy_index;
use pgn_reader::{KnownOutcome, Outcome, RawComment, RawTag, Reader, SanPlus, Visitor};

use crate::filter::{GameFilter, GameSummary};
use crate::parsed::{ParsedChunk, WhiteValue, unlabelled};
use crate::record::{GameResult, NO_LABEL, Record, mate_label};
use crate::skip::SkipKind;

/// Longer comments arrive in pieces, and an evaluation that is cut in two is lost.
const COMMENT_BYTES: usize = 2048;
const TAG_BYTES: usize = 1024;

/// Reads the games of `text`, which begins with a game.
pub(crate) fn parse(text: &[u8], filter: &GameFilter) -> ParsedChunk {
    let mut games = GameVisitor { filter: *filter, ..GameVisitor::default() };
    let mut reader = Reader::build(text)
        .set_supported_comment_length(COMMENT_BYTES)
        .set_supported_tag_line_length(TAG_BYTES)
        .finish();
    loop {
        match reader.read_game(&mut games) {
            Ok(None) => break,
            Ok(Some(())) => games.finish(),
            Err(_) => {
                games.parsed.skipped.add(SkipKind::BadSyntax);
                games.finish();
            }
        }
    }
    games.parsed
}

/// Builds the records of one game at a time.
#[derive(Default)]
struct GameVisitor {
    filter: GameFilter,
    parsed: ParsedChunk,
    /// The current game, from the end of its tags to its end.
    game: Option<GameInProgress>,
    result: Option<Outcome>,
}

struct GameInProgress {
    position: Position,
    /// The record of `position`.
    current: Record,
    /// Index of this game's first record in `ParsedChunk::records`.
    first: usize,
    /// Ratings of White and Black; 0 where unknown.
    elo: [u32; 2],
}

#[derive(Default)]
struct Tags {
    elo: [u32; 2],
    fen: Option<String>,
    variant: Option<String>,
}

impl Visitor for GameVisitor {
    type Tags = Tags;
    type Movetext = ();
    type Output = ();

    fn begin_tags(&mut self) -> ControlFlow<(), Tags> {
        self.game = None;
        self.result = None;
        ControlFlow::Continue(Tags::default())
    }

    fn tag(&mut self, tags: &mut Tags, name: &[u8], value: RawTag<'_>) -> ControlFlow<()> {
        match name {
            b"FEN" => tags.fen = Some(value.decode_utf8_lossy().into_owned()),
            b"Variant" => tags.variant = Some(value.decode_utf8_lossy().into_owned()),
            b"WhiteElo" => tags.elo[0] = rating(value),
            b"BlackElo" => tags.elo[1] = rating(value),
            b"Result" => self.result = Outcome::from_ascii(value.as_bytes()).ok(),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn begin_movetext(&mut self, tags: Tags) -> ControlFlow<(), ()> {
        self.parsed.games += 1;
        let Some(mode) = castling_mode_of_variant(tags.variant.as_deref()) else {
            self.parsed.skipped.add(SkipKind::Variant);
            return ControlFlow::Break(());
        };
        let position = match tags.fen {
            None => Position::default(),
            Some(fen) => match Position::read_fen(&fen, mode) {
                Ok(read) => {
                    let dropped = u64::from(read.warning.is_some());
                    self.parsed.skipped.add_many(SkipKind::CastlingRights, dropped);
                    read.position
                }
                Err(_) => {
                    self.parsed.skipped.add(SkipKind::BadStart);
                    return ControlFlow::Break(());
                }
            },
        };
        self.parsed.positions += 1;
        let current = unlabelled(&position, self.parsed.games - 1);
        self.game = Some(GameInProgress {
            position,
            current,
            first: self.parsed.records.len(),
            elo: tags.elo,
        });
        ControlFlow::Continue(())
    }

    fn san(&mut self, (): &mut (), san_plus: SanPlus) -> ControlFlow<()> {
        let Some(game) = &mut self.game else { return ControlFlow::Break(()) };
        let Ok(mv) = san_plus.san.to_move(game.position.chess()) else {
            self.parsed.skipped.add(SkipKind::IllegalMove);
            return ControlFlow::Break(());
        };
        game.current.played = policy_index(mv, game.position.turn());
        self.parsed.records.push(game.current);
        game.position.play(mv);
        game.current = unlabelled(&game.position, self.parsed.games - 1);
        self.parsed.positions += 1;
        ControlFlow::Continue(())
    }

    fn comment(&mut self, (): &mut (), comment: RawComment<'_>) -> ControlFlow<()> {
        let Some(game) = &mut self.game else { return ControlFlow::Break(()) };
        let Some(found) = find_evaluation(comment.as_bytes()) else {
            return ControlFlow::Continue(());
        };
        let value = match found.score {
            // Nobody is mated while there are moves.
            Some(Score::Mate(0)) if !game.position.legal_moves().is_empty() => None,
            score => score.map(WhiteValue::from),
        };
        match value {
            Some(value) if game.current.value == NO_LABEL => {
                game.current.value = value.label(game.current.white_to_move);
            }
            Some(_) => {}
            None => self.parsed.skipped.add(SkipKind::BadEvaluation),
        }
        ControlFlow::Continue(())
    }

    fn outcome(&mut self, (): &mut (), outcome: Outcome) -> ControlFlow<()> {
        if matches!(outcome, Outcome::Known(_)) {
            self.result = Some(outcome);
        }
        ControlFlow::Continue(())
    }

    fn end_game(&mut self, (): ()) {}
}

impl GameVisitor {
    /// Completes the current game: sets move values and results, and adds the last position.
    fn finish(&mut self) {
        let Some(GameInProgress { position, mut current, first, elo }) = self.game.take() else {
            return;
        };
        let summary = GameSummary {
            elo,
            is_draw: matches!(self.result, Some(Outcome::Known(KnownOutcome::Draw))),
            is_decisive: matches!(self.result, Some(Outcome::Known(KnownOutcome::Decisive { .. }))),
            plies: self.parsed.records.len() - first,
        };
        if let Some(reason) = self.filter.skip_reason(&summary) {
            self.parsed.skipped.add(reason);
            self.parsed.records.truncate(first);
            return;
        }
        if from_players_side(self.parsed.records[first..].iter().chain([&current])) {
            self.parsed.skipped.add(SkipKind::PlayersSide);
            self.parsed.records[first..].iter_mut().for_each(|record| record.value = NO_LABEL);
            current.value = NO_LABEL;
        }
        let over = position.legal_moves().is_empty();
        if over {
            current.value = if position.is_check() { mate_label(0) } else { 0 };
        }
        let mut next = current.value;
        for record in self.parsed.records[first..].iter_mut().rev() {
            record.played_value = if next == NO_LABEL { NO_LABEL } else { -next };
            next = record.value;
        }
        if over {
            self.parsed.skipped.add(SkipKind::GameOver);
        } else {
            self.parsed.records.push(current);
        }
        for record in &mut self.parsed.records[first..] {
            record.result = result_for(self.result, record.white_to_move);
        }
    }
}

/// True when more than three quarters of at least four pairs of consecutive evaluations, both
/// beyond 30 centipawns, change sides, which does not happen in a real game.
fn from_players_side<'a>(records: impl Iterator<Item = &'a Record>) -> bool {
    let (mut same, mut changed) = (0, 0);
    let mut last = 0;
    for record in records {
        let clear = record.value != NO_LABEL && record.value.abs() >= 30;
        // Labels are from the mover's side: while the same player is ahead, their sign alternates.
        match (clear, last) {
            (true, 0) => {}
            (true, last) if (record.value > 0) == (last > 0) => changed += 1,
            (true, _) => same += 1,
            (false, _) => {}
        }
        last = if clear { record.value } else { 0 };
    }
    same + changed >= 4 && changed > 3 * same
}

/// The value of a rating tag; 0 when it is not a number.
fn rating(value: RawTag<'_>) -> u32 {
    value.decode_utf8_lossy().trim().parse().unwrap_or(0)
}

fn result_for(outcome: Option<Outcome>, white_to_move: bool) -> GameResult {
    match outcome {
        Some(Outcome::Known(KnownOutcome::Draw)) => GameResult::Draw,
        Some(Outcome::Known(KnownOutcome::Decisive { winner }))
            if winner.is_white() == white_to_move =>
        {
            GameResult::Win
        }
        Some(Outcome::Known(KnownOutcome::Decisive { .. })) => GameResult::Loss,
        _ => GameResult::Unknown,
    }
}
