//! Reads games in PGN with `[%eval]` comments.
//!
//! A comment belongs to the position after the move that it follows (before the first move: to the
//! start position); its value is from White's side. The value of a move is minus the value of the
//! position that it leads to. A position in which the game is over gives no record, but the move
//! that mates or stalemates has its exact value. Comments inside variations are not read. Some
//! programs write values from the side of the player who moved; the sign then changes with every
//! move. The evaluations of such a game are dropped, see [`from_players_side`].

use board::{Color, Move, Position};
use games::{
    GameStart, GameTexts, GameVisitor, GameWarning, LABELLED_EVENT, LeftOut, Tags, Unread,
    UnreadKind, find_evaluation, is_possible_score, parse_result, walk,
};
use nets::policy_index;

use crate::filter::{GameFilter, GameSummary};
use crate::parsed::{ParsedChunk, WhiteValue, unlabelled};
use crate::record::{GameResult, NO_LABEL, Record, mate_label};
use crate::skip::SkipKind;

/// Reads the games of `text`, which begins with a game.
pub(crate) fn parse(text: &[u8], filter: &GameFilter) -> ParsedChunk {
    let mut games = RecordBuilder { filter: *filter, ..RecordBuilder::default() };
    // Text in memory can always be read.
    for game in GameTexts::new(text).map_while(Result::ok) {
        walk(&game, &mut games);
    }
    games.parsed
}

/// Builds the records of one game at a time.
#[derive(Default)]
struct RecordBuilder {
    filter: GameFilter,
    parsed: ParsedChunk,
    /// The current game, from its first position to its end.
    game: Option<GameInProgress>,
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

impl GameVisitor for RecordBuilder {
    const READS_VARIATIONS: bool = false;

    fn leave_out(&mut self, _: &[u8], _: u64, reason: LeftOut) {
        self.parsed.games += 1;
        self.parsed.origins.push(None);
        self.parsed.leave_out(match reason {
            LeftOut::Variant(_) => SkipKind::Variant,
            LeftOut::NoGame(_) => SkipKind::NoGame,
            _ => SkipKind::BadStart,
        });
    }

    fn begin(&mut self, start: GameStart<'_>) {
        let position = start.position.clone();
        let current = unlabelled(&position, self.parsed.games);
        self.parsed.games += 1;
        self.parsed.origins.push(origin(start.tags));
        self.parsed.positions += 1;
        self.game = Some(GameInProgress {
            position,
            current,
            first: self.parsed.records.len(),
            elo: ["WhiteElo", "BlackElo"].map(|name| rating(start.tags, name)),
        });
    }

    fn play(&mut self, mv: Move, after: &Position) {
        let Some(game) = &mut self.game else { return };
        game.current.played = policy_index(mv, game.position.turn());
        self.parsed.records.push(game.current);
        game.position = after.clone();
        game.current = unlabelled(after, self.parsed.games - 1);
        self.parsed.positions += 1;
    }

    fn comment(&mut self, text: &[u8], position: &Position) {
        let (Some(game), Some(found)) = (&mut self.game, find_evaluation(text)) else { return };
        match found.score.filter(|&score| is_possible_score(score, position)).map(WhiteValue::from)
        {
            Some(value) if game.current.value == NO_LABEL => {
                game.current.value = value.label(game.current.white_to_move);
            }
            Some(_) => {}
            None => self.parsed.skipped.add(SkipKind::BadEvaluation),
        }
    }

    fn warn(&mut self, warning: GameWarning) {
        match warning {
            GameWarning::Start(_) => self.parsed.skipped.add(SkipKind::CastlingRights),
            GameWarning::TagLine(_) => self.parsed.skipped.add(SkipKind::TagLine),
            GameWarning::Results { .. } => self.parsed.skipped.add(SkipKind::TwoResults),
            // Variations are not read here.
            GameWarning::Variation(_) => {}
        }
    }

    fn end(&mut self, result: Option<&str>, unread: Option<(Unread, &[u8])>) {
        if let Some((unread, _)) = &unread {
            self.parsed.skipped.add(match unread.kind {
                UnreadKind::IllegalMove => SkipKind::IllegalMove,
                _ => SkipKind::BadSyntax,
            });
        }
        let is_used = self.finish(result.and_then(parse_result));
        let count = match unread {
            _ if !is_used => &mut self.parsed.left_out,
            Some(_) => &mut self.parsed.broken,
            None => &mut self.parsed.whole,
        };
        *count += 1;
    }
}

impl RecordBuilder {
    /// Completes the current game: sets move values and results, and adds the last position. False
    /// if the filter rejects it. `result`: who won, `Some(None)` for a draw.
    fn finish(&mut self, result: Option<Option<Color>>) -> bool {
        let Some(GameInProgress { position, mut current, first, elo }) = self.game.take() else {
            return false;
        };
        let summary = GameSummary {
            elo,
            is_draw: result == Some(None),
            is_decisive: matches!(result, Some(Some(_))),
            plies: self.parsed.records.len() - first,
        };
        if let Some(reason) = self.filter.skip_reason(&summary) {
            self.parsed.skipped.add(reason);
            self.parsed.records.truncate(first);
            return false;
        }
        if from_players_side(self.parsed.records[first..].iter().chain([&current])) {
            self.parsed.skipped.add(SkipKind::PlayersSide);
            self.parsed.records[first..].iter_mut().for_each(|record| record.value = NO_LABEL);
            current.value = NO_LABEL;
        }
        let over = !position.has_legal_moves();
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
            record.result = result_for(result, record.white_to_move);
        }
        true
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

/// The game from which a labelled one comes: its search trees hold positions that differ by a move.
fn origin(tags: &Tags<'_>) -> Option<u32> {
    tags.get("Event").filter(|event| event == LABELLED_EVENT)?;
    tags.get("Round")?.trim().parse().ok()
}

/// The value of a rating tag; 0 when it is missing or not a number.
fn rating(tags: &Tags<'_>, name: &str) -> u32 {
    tags.get(name).and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

fn result_for(result: Option<Option<Color>>, white_to_move: bool) -> GameResult {
    match result {
        Some(None) => GameResult::Draw,
        Some(Some(winner)) if winner.is_white() == white_to_move => GameResult::Win,
        Some(Some(_)) => GameResult::Loss,
        None => GameResult::Unknown,
    }
}
