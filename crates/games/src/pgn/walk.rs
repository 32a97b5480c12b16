//! Walks through the games of a text, move by move: the rules of reading PGN for every command.

use board::{BoardError, Color, Move, Position, ReadFen, parse_san, shortened};

use super::{
    decoded,
    game::parse_result,
    problem::{GameWarning, LeftOut, Unread, UnreadKind},
    tags::{Tags, name_and_rest, tag_line},
    texts::{GameText, LONGEST_GAME},
    tokens::{Token, Tokens, is_mark, without_symbol},
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
    let variant = tags.get("Variant");
    let Some(mode) = castling_mode_of_variant(variant.as_deref()) else {
        return Err(LeftOut::Variant(shortened(&variant.unwrap_or_default())));
    };
    for line in &section.broken {
        let name = name_and_rest(line).map_or(&b""[..], |(name, _)| name);
        if [&b"FEN"[..], b"Variant"].contains(&name) {
            return Err(LeftOut::StartTag(shortened(decoded(line).trim())));
        }
    }
    if let Some(fen) = tags.get("FEN") {
        return Position::read_fen(&fen, mode).map_err(LeftOut::BadStart);
    }
    let position = Position::default();
    if tags.list.is_empty() && !begins_with_move(tokens.clone(), &position) {
        let words: String = decoded(&text.text).chars().take(200).collect();
        return Err(LeftOut::NoGame(shortened(words.trim())));
    }
    Ok(ReadFen { position, warning: None })
}

/// The tags of a text.
#[derive(Default)]
struct TagSection<'a> {
    tags: Tags<'a>,
    /// Lines that begin like a tag and are none.
    broken: Vec<&'a [u8]>,
    /// What stands behind semicolons.
    comments: Vec<&'a [u8]>,
    /// Length of the section, in bytes.
    length: usize,
}

impl<'a> TagSection<'a> {
    fn read(text: &'a [u8]) -> Self {
        let mut section = Self::default();
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let bare = line.trim_ascii_start();
            let mut tag = tag_line(line);
            match (&tag, bare.first()) {
                (Some(_), _) => {}
                (None, None) => {}
                (None, Some(b';')) => section.comments.push(&bare[1..]),
                (None, Some(b'%')) if line[0] == b'%' => {}
                (None, Some(b'[')) if name_and_rest(line).is_some() => section.broken.push(line),
                _ => break,
            }
            while let Some(found) = tag {
                section.tags.list.push((found.name, found.value));
                tag = tag_line(found.rest);
            }
            section.length += line.len();
        }
        section
    }
}

/// What a word among the moves is.
pub(super) enum ReadWord {
    /// A move, and the glyph of the symbol behind it.
    Move(Move, Option<u16>),
    /// It adds nothing to the moves.
    Mark,
    Unread(UnreadKind),
}

pub(super) fn read_word(position: &Position, word: &str) -> ReadWord {
    let symbol = without_symbol(word);
    let (bare, nag) = symbol.map_or((word, None), |(bare, nag)| (bare, Some(nag)));
    match parse_san(position, bare) {
        Ok(mv) => ReadWord::Move(mv, nag),
        Err(_) if is_mark(word) => ReadWord::Mark,
        Err(BoardError::IllegalMove { .. }) => ReadWord::Unread(UnreadKind::IllegalMove),
        Err(_) => ReadWord::Unread(UnreadKind::NoMove),
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
    result: Option<&'static str>,
    unread: Option<Unread>,
    after_empty_line: bool,
}

impl Progress {
    fn number(&self) -> u32 {
        self.position.ply() / 2 + 1
    }

    fn break_off(&mut self, kind: UnreadKind, text: &str) {
        self.unread = Some(Unread::new(kind, text, self.number()));
    }

    /// Does this move number begin another game, one without tags?
    fn begins_another(&self, number: u32, is_white: bool) -> bool {
        let is_expected = self.number() == 1 && self.position.turn() == Color::Black;
        let is_behind = self.after_empty_line && self.plies > 0 && !is_expected;
        number == 1 && is_white && (self.result.is_some() || is_behind)
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
        let mut progress = Progress {
            position: start,
            before: None,
            plies: 0,
            result: None,
            unread: None,
            after_empty_line: false,
        };
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
        let tag = tags.get("Result").filter(|result| result != "*");
        let text = progress.result.filter(|result| *result != "*");
        if let (Some(tag), Some(text)) = (&tag, text)
            && parse_result(tag).is_some_and(|result| parse_result(text) != Some(result))
        {
            self.visitor.warn(GameWarning::Results { tag: tag.clone(), text: text.to_owned() });
        }
        self.visitor.end(tag.as_deref().or(text), progress.unread.map(|unread| (unread, rest)));
        another
    }

    /// Takes a token of the main line; true if it begins another game.
    fn token(&mut self, token: Token<'_>, progress: &mut Progress) -> bool {
        match token {
            Token::EmptyLine => {
                progress.after_empty_line = true;
                return false;
            }
            Token::Number { number, is_white } => {
                return progress.begins_another(number, is_white);
            }
            Token::Comment(text) => self.visitor.comment(text, &progress.position),
            Token::UnendingComment => progress.break_off(UnreadKind::UnendingComment, ""),
            Token::Nag(nag) => self.visitor.nag(nag),
            Token::Result(result) => progress.result = progress.result.or(Some(result)),
            Token::Open => self.variation(progress),
            Token::Close => progress.break_off(UnreadKind::NoMove, ")"),
            Token::Word(word) if progress.result.is_some() => {
                progress.break_off(UnreadKind::BehindResult, &word);
            }
            Token::Word(word) => self.word(&word, progress),
        }
        progress.after_empty_line = false;
        false
    }

    fn word(&mut self, word: &str, progress: &mut Progress) {
        match read_word(&progress.position, word) {
            ReadWord::Move(mv, nag) => {
                if V::READS_VARIATIONS {
                    progress.before = Some(progress.position.clone());
                }
                progress.position.play(mv);
                progress.plies += 1;
                self.visitor.play(mv, &progress.position);
                if let Some(nag) = nag {
                    self.visitor.nag(nag);
                }
            }
            ReadWord::Mark => {}
            ReadWord::Unread(kind) => progress.break_off(kind, word),
        }
    }

    fn variation(&mut self, progress: &mut Progress) {
        let visitor = &mut *self.visitor;
        let is_read = match &progress.before {
            _ if progress.plies == 0 => return progress.break_off(UnreadKind::NoMove, "("),
            Some(before) => {
                let warn = &mut |warning| visitor.warn(warning);
                let variation = read_variation(&mut self.tokens, before, 0, warn);
                variation.map(|variation| self.visitor.variation(variation)).is_some()
            }
            None => skip_variation(&mut self.tokens, 0).is_some(),
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
