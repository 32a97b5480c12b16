//! Walks through the games of a text, move by move: the rules of reading PGN for every command.

use board::{BoardError, Move, Position, ReadFen, parse_san, shortened};

use super::{
    decoded,
    problem::{GameWarning, LeftOut, Unread, UnreadKind},
    tags::{TagSection, Tags, name_and_rest},
    texts::{GameText, LONGEST_GAME},
    tokens::{Token, Tokens, is_mark, result, without_symbols},
    variation::{Variation, read_variation, skip_variation},
};
use crate::castling_mode_of_variant;

/// The beginning of a game.
#[derive(Clone, Copy, Debug)]
pub struct GameStart<'a> {
    pub tags: &'a Tags<'a>,
    pub position: &'a Position,
    /// Number of its first line in the file, from 1.
    pub line: u64,
}

/// Takes what happens in the main line of games. Each game is either left out, or begins and ends.
pub trait GameVisitor {
    /// Are variations to be read? If not, they are passed over.
    const READS_VARIATIONS: bool;

    /// A game is not read.
    fn leave_out(&mut self, text: &[u8], line: u64, reason: LeftOut);

    fn begin(&mut self, start: GameStart<'_>);

    /// A legal move and the position after it.
    fn play(&mut self, mv: Move, after: &Position);

    /// A comment, its bytes as written, on `position`.
    fn comment(&mut self, text: &[u8], position: &Position);

    /// A numeric annotation glyph of the last move (1 to 6: `!`, `?`, `!!`, `??`, `!?`, `?!`).
    fn nag(&mut self, _nag: u16) {}

    /// Alternatives to the last move.
    fn variation(&mut self, _variation: Variation) {}

    fn warn(&mut self, warning: GameWarning);

    /// The game ends: its result as the tag `Result` says, or the end of the moves where the tag is
    /// missing or `*`; and the first text that was not understood, with all that follows it.
    fn end(&mut self, result: Option<&str>, unread: Option<(Unread, &[u8])>);
}

/// The tags that decide the start position.
const START_TAGS: [&str; 2] = ["FEN", "Variant"];

/// Walks through the games of a text.
pub fn walk(text: &GameText, visitor: &mut impl GameVisitor) {
    let section = TagSection::read(&text.text);
    let tokens = Tokens::new(&text.text[section.length..]);
    let start = match start(text, &section, &tokens) {
        Ok(start) => start,
        Err(reason) => return visitor.leave_out(&text.text, text.line, reason),
    };
    let broken = section.broken.iter().map(|line| shortened(decoded(line).trim()));
    let mut warnings: Vec<GameWarning> = broken.map(GameWarning::TagLine).collect();
    warnings.extend(start.warning.map(GameWarning::Start));
    let mut walk = Walk { text, tokens, visitor };
    let mut tags = section.tags;
    let mut position = start.position;
    let mut comments = section.comments;
    while walk.game(&tags, position, std::mem::take(&mut warnings), std::mem::take(&mut comments)) {
        tags = Tags::default();
        position = Position::default();
    }
}

/// The start position of a text's first game.
fn start(
    text: &GameText,
    section: &TagSection<'_>,
    tokens: &Tokens<'_>,
) -> Result<ReadFen, LeftOut> {
    let tags = &section.tags;
    for line in &section.broken {
        let name = name_and_rest(line).map_or(&b""[..], |(name, _)| name);
        if START_TAGS.iter().any(|tag| name.eq_ignore_ascii_case(tag.as_bytes())) {
            return Err(LeftOut::StartTag(shortened(decoded(line).trim())));
        }
    }
    for name in START_TAGS {
        let mut values = tags.all(name);
        if values.next().is_some_and(|first| values.any(|other| other != first)) {
            return Err(LeftOut::TwoStarts(name));
        }
    }
    let variant = tags.get("Variant");
    let Some(mode) = castling_mode_of_variant(variant.as_deref()) else {
        return Err(LeftOut::Variant(shortened(&variant.unwrap_or_default())));
    };
    if let Some(fen) = tags.get("FEN") {
        return Position::read_fen(&fen, mode).map_err(LeftOut::BadStart);
    }
    if tags.get("SetUp").is_some_and(|value| value.trim() == "1") {
        return Err(LeftOut::NoStart);
    }
    let position = Position::default();
    if tags.list.is_empty() && !begins_with_move(tokens.clone(), &position) {
        let words: String = decoded(&text.text).chars().take(200).collect();
        return Err(LeftOut::NoGame(shortened(words.trim())));
    }
    Ok(ReadFen { position, warning: None })
}

/// What a word among the moves is.
pub(super) enum ReadWord {
    /// A move, and the glyphs of the symbols behind it.
    Move(Move, Vec<u16>),
    /// It adds nothing to the moves.
    Mark,
    Unread(UnreadKind),
}

pub(super) fn read_word(position: &Position, word: &str) -> ReadWord {
    let (bare, nags) = without_symbols(word);
    match parse_san(position, bare) {
        Ok(mv) => ReadWord::Move(mv, nags),
        Err(_) if is_mark(word, position) => ReadWord::Mark,
        Err(BoardError::IllegalMove { .. }) => ReadWord::Unread(UnreadKind::IllegalMove),
        Err(_) => ReadWord::Unread(UnreadKind::NotUnderstood),
    }
}

struct Walk<'a, V> {
    text: &'a GameText,
    tokens: Tokens<'a>,
    visitor: &'a mut V,
}

/// A game under way.
struct Progress {
    position: Position,
    /// The position before the last move, where variations are read.
    before: Option<Position>,
    plies: usize,
    /// The first move number less that of the position: numbers may begin at 1 in a game from a
    /// later position.
    number_offset: Option<i64>,
    result: Option<&'static str>,
    unread: Option<Unread>,
}

impl Progress {
    fn new(position: Position) -> Self {
        Self { position, before: None, plies: 0, number_offset: None, result: None, unread: None }
    }

    fn number(&self) -> u32 {
        self.position.ply() / 2 + 1
    }

    fn break_off(&mut self, kind: UnreadKind, text: &str) {
        self.unread = Some(Unread::new(kind, text, self.number()));
    }

    /// Takes a move number; true if it begins another game, one without tags.
    fn take_number(&mut self, number: u32, points: usize) -> bool {
        // A number of points alone says nothing.
        if number == 0 {
            return false;
        }
        let offset = i64::from(number) - i64::from(self.number());
        let is_expected = *self.number_offset.get_or_insert(offset) == offset;
        if number == 1 && points < 2 && (self.result.is_some() || self.plies > 0 && !is_expected) {
            return true;
        }
        if self.result.is_some() {
            self.break_off(UnreadKind::BehindResult, &number.to_string());
        } else if !is_expected {
            self.break_off(UnreadKind::WrongNumber, &number.to_string());
        }
        false
    }
}

impl<V: GameVisitor> Walk<'_, V> {
    /// Walks through one game; true if another one, without tags, follows it in the text.
    fn game(
        &mut self,
        tags: &Tags<'_>,
        start: Position,
        warnings: Vec<GameWarning>,
        comments: Vec<&[u8]>,
    ) -> bool {
        self.visitor.begin(GameStart { tags, position: &start, line: self.text.line });
        warnings.into_iter().for_each(|warning| self.visitor.warn(warning));
        comments.into_iter().for_each(|text| self.visitor.comment(text, &start));
        let mut progress = Progress::new(start);
        let mut another = false;
        let mut rest = self.tokens.rest();
        while progress.unread.is_none() && !another {
            rest = self.tokens.rest();
            let Some(token) = self.tokens.next() else { break };
            another = self.token(token, &mut progress);
        }
        if progress.unread.is_none() && !another && self.text.text.len() >= LONGEST_GAME - 1 {
            progress.break_off(UnreadKind::TooLong, "");
        }
        if progress.unread.is_some() {
            let left = self.skip_to_next_game();
            another = left.is_some();
            rest = &rest[..rest.len() - left.unwrap_or(0)];
        }
        self.end(tags, &progress, rest);
        another
    }

    /// Ends a game; `rest` begins with the text that was not understood.
    fn end(&mut self, tags: &Tags<'_>, progress: &Progress, rest: &[u8]) {
        let mut results: Vec<&str> = tags
            .all("Result")
            .filter_map(|tag| result(tag.trim().as_bytes()))
            .chain(progress.result)
            .filter(|result| *result != "*")
            .collect();
        results.dedup();
        if let [first, second, ..] = results[..] {
            let (tag, text) = (first.to_owned(), second.to_owned());
            self.visitor.warn(GameWarning::Results { tag, text });
        }
        let unread = progress.unread.clone().map(|unread| (unread, rest));
        self.visitor.end(results.first().copied(), unread);
    }

    /// Goes to the next game without tags behind one that was broken off, if there is one: behind
    /// its first move number. Returns the length of the text from that number on.
    fn skip_to_next_game(&mut self) -> Option<usize> {
        let (mut open, mut may_begin) = (0_usize, false);
        loop {
            let left = self.tokens.rest().len();
            match self.tokens.next()? {
                Token::Open => open += 1,
                Token::Close => open = open.saturating_sub(1),
                Token::EmptyLine | Token::Result(_) => may_begin = open == 0,
                Token::Number { number: 1, points: 0 | 1 } if may_begin => return Some(left),
                Token::Comment(_) => {}
                _ => may_begin = false,
            }
        }
    }

    /// Takes a token of the main line; true if it begins another game.
    fn token(&mut self, token: Token<'_>, progress: &mut Progress) -> bool {
        match token {
            Token::EmptyLine => {}
            Token::Number { number, points } => return progress.take_number(number, points),
            Token::Comment(text) => self.visitor.comment(text, &progress.position),
            Token::UnendingComment => progress.break_off(UnreadKind::UnendingComment, ""),
            Token::Nag(nag) => self.visitor.nag(nag),
            Token::Result(result) if progress.result.is_some_and(|known| known != result) => {
                progress.break_off(UnreadKind::BehindResult, result);
            }
            Token::Result(result) => progress.result = Some(result),
            Token::Open => self.variation(progress),
            Token::Close => progress.break_off(UnreadKind::NotUnderstood, ")"),
            Token::Word(word) if progress.result.is_some() => {
                progress.break_off(UnreadKind::BehindResult, &word);
            }
            Token::Word(word) => self.word(&word, progress),
        }
        false
    }

    fn word(&mut self, word: &str, progress: &mut Progress) {
        match read_word(&progress.position, word) {
            ReadWord::Move(mv, nags) => {
                if V::READS_VARIATIONS {
                    progress.before = Some(progress.position.clone());
                }
                progress.position.play(mv);
                progress.plies += 1;
                self.visitor.play(mv, &progress.position);
                nags.into_iter().for_each(|nag| self.visitor.nag(nag));
            }
            ReadWord::Mark => {}
            ReadWord::Unread(kind) => progress.break_off(kind, word),
        }
    }

    fn variation(&mut self, progress: &mut Progress) {
        let visitor = &mut *self.visitor;
        let is_read = match &progress.before {
            _ if progress.plies == 0 => return progress.break_off(UnreadKind::NotUnderstood, "("),
            Some(before) => {
                let warn = &mut |warning| visitor.warn(warning);
                let variation = read_variation(&mut self.tokens, before, 0, warn);
                variation.map(|variation| self.visitor.variation(variation)).is_some()
            }
            None => skip_variation(&mut self.tokens, 1).is_some(),
        };
        if !is_read {
            progress.break_off(UnreadKind::UnendingVariation, "");
        }
    }
}

/// Is the first word a move?
fn begins_with_move(tokens: Tokens<'_>, position: &Position) -> bool {
    for token in tokens {
        match token {
            Token::Comment(_) | Token::Number { .. } | Token::EmptyLine => {}
            Token::Word(word) => return matches!(read_word(position, &word), ReadWord::Move(..)),
            _ => return false,
        }
    }
    false
}
