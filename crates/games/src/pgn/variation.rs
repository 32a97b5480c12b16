//! Variations of a game, kept as people wrote them.

use std::borrow::Cow;

use board::{Position, to_san};

use super::{
    decoded,
    problem::{GameWarning, Unread, UnreadKind},
    tokens::{Token, Tokens, without_symbols},
    walk::{ReadWord, read_word},
};

/// Alternatives to a move.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Variation {
    pub items: Vec<VariationItem>,
}

/// A part of a variation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum VariationItem {
    /// In SAN; `--` for a null move.
    Move(String),
    /// A numeric annotation glyph.
    Nag(u16),
    Comment(String),
    /// Alternatives to the last move.
    Variation(Variation),
}

/// Variations nested more deeply are not read.
const DEEPEST: usize = 40;

impl Variation {
    /// The moves, without those of nested variations.
    pub fn moves(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| match item {
            VariationItem::Move(san) => Some(san.as_str()),
            _ => None,
        })
    }

    /// Without moves, as in `(=)`, it says something of the last move.
    pub(super) fn has_moves(&self) -> bool {
        self.moves().next().is_some()
    }
}

/// Reads a variation up to its closing parenthesis; the opening one has been read. `None`: it is
/// never closed.
pub(super) fn read_variation(
    tokens: &mut Tokens<'_>,
    before: &Position,
    depth: usize,
    warn: &mut dyn FnMut(GameWarning),
) -> Option<Variation> {
    let mut items = Vec::new();
    let mut position = before.clone();
    let mut last = None;
    loop {
        let from = tokens.rest();
        let unread = match tokens.next()? {
            Token::UnendingComment => return None,
            Token::Close => return Some(Variation { items }),
            Token::EmptyLine | Token::Number { .. } => continue,
            Token::Nag(nag) => {
                items.push(VariationItem::Nag(nag));
                continue;
            }
            Token::Comment(text) => {
                items.push(VariationItem::Comment(one_line(&decoded(text))));
                continue;
            }
            Token::Result(result) => {
                items.push(VariationItem::Comment(result.to_owned()));
                continue;
            }
            Token::Open => match last.as_ref().filter(|_| depth < DEEPEST) {
                Some(before) => {
                    let nested = read_variation(tokens, before, depth + 1, warn)?;
                    if nested.has_moves() {
                        items.push(VariationItem::Variation(nested));
                    } else {
                        items.extend(nested.items);
                    }
                    continue;
                }
                None => (UnreadKind::NotUnderstood, Cow::Borrowed("(")),
            },
            Token::Word(word) if is_null_move(&word) => match position.after_null_move() {
                Some(after) => {
                    items.push(VariationItem::Move("--".to_owned()));
                    items.extend(without_symbols(&word).1.into_iter().map(VariationItem::Nag));
                    last = Some(std::mem::replace(&mut position, after));
                    continue;
                }
                None => (UnreadKind::IllegalMove, word),
            },
            Token::Word(word) => match read_word(&position, &word) {
                ReadWord::Move(mv, nags) => {
                    items.push(VariationItem::Move(to_san(&position, mv)));
                    items.extend(nags.into_iter().map(VariationItem::Nag));
                    let after = position.after(mv);
                    last = Some(std::mem::replace(&mut position, after));
                    continue;
                }
                ReadWord::Mark => continue,
                ReadWord::Unread(kind) => (kind, word),
            },
        };
        // The rest is kept as a comment.
        let (kind, word) = unread;
        let open = 1 + usize::from(*word == *"(");
        warn(GameWarning::Variation(Unread::new(kind, &word, position.ply() / 2 + 1)));
        let length = skip_variation(tokens, open).map(|()| from.len() - tokens.rest().len() - 1)?;
        let text = one_line(&decoded(&from[..length]));
        items.push(VariationItem::Comment(text));
        return Some(Variation { items });
    }
}

/// Passes over text until so many open parentheses are closed; `None`: they never are.
pub(super) fn skip_variation(tokens: &mut Tokens<'_>, mut open: usize) -> Option<()> {
    while open > 0 {
        match tokens.next()? {
            Token::Open => open += 1,
            Token::Close => open -= 1,
            Token::UnendingComment => return None,
            _ => {}
        }
    }
    Some(())
}

/// A null move, as ChessBase, Chess Assistant, SCID and UCI write it.
fn is_null_move(word: &str) -> bool {
    matches!(without_symbols(word).0, "--" | "Z0" | "@@@@" | "0000" | "null" | "pass")
}

/// A text with single blanks in place of line breaks.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
