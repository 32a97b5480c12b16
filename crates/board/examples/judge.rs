//! Plays seeded random games and writes the rules' verdict at every ply, for comparison with another
//! implementation (`scripts/judge_rules.py`).
//!
//! `judge FIRST COUNT` writes games FIRST to FIRST + COUNT - 1. Each game begins with a line `game
//! NUMBER MODE FEN` (MODE `standard`, `chess960:ARRAY` or `chess960`), followed by one line a
//! position: `FEN|flags|end|legal moves|SAN of the move played|the move played`. Flags: `c` check,
//! `r` third occurrence, `f` fifty moves, `i` insufficient material, `-` none of them. Moves are in
//! UCI notation and sorted; the last position of a game has `-` for both moves.

use std::io::{self, BufWriter, Write};

use board::{
    CastlingMode, Color, Game, GameEnd, Move, Position, Role, Setup, Square, to_san, to_uci,
};
use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

/// How the moves of a game are drawn.
#[derive(Clone, Copy)]
struct Style {
    plies: usize,
    /// Chance to prefer a move that is neither capture nor pawn move.
    quiet: f64,
    /// Chance to prefer taking back one's own last move.
    back: f64,
    /// Chance to prefer castling or an en-passant capture where legal (random games seldom have
    /// them).
    special: f64,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Some(Ok(first)), Some(Ok(count)), None) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err(io::Error::other("usage: judge FIRST COUNT"));
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for number in first..first + count {
        play(number, &mut out)?;
    }
    out.flush()
}

fn play(number: u64, out: &mut impl Write) -> io::Result<()> {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    // 7 has no factor in common with 960: all numbers are reached, spread over few games too.
    let array = ((number / 8 * 3 + number % 8 / 2) * 7 % 960) as u16;
    let (mode, start) = match number % 8 {
        1 | 3 | 5 => (format!("chess960:{array}"), Position::chess960(array).expect("below 960")),
        7 => ("chess960".to_owned(), few_pieces(&mut random, CastlingMode::Chess960)),
        6 => ("standard".to_owned(), few_pieces(&mut random, CastlingMode::Standard)),
        _ => ("standard".to_owned(), Position::default()),
    };
    let style = match random.random_range(0..4) {
        0 => Style { plies: 240, quiet: 0.0, back: 0.0, special: 0.5 },
        1 => Style { plies: 120, quiet: 0.3, back: 0.4, special: 0.5 },
        2 => Style { plies: 220, quiet: 0.97, back: 0.05, special: 0.3 },
        _ => Style { plies: 160, quiet: 0.6, back: 0.1, special: 0.1 },
    };
    writeln!(out, "game {number} {mode} {}", start.fen())?;

    let mut game = Game::new(start);
    loop {
        let position = game.position();
        let moves = position.legal_moves();
        let mut list: Vec<String> = moves.iter().map(|&mv| to_uci(position, mv)).collect();
        list.sort_unstable();
        // A game continues after a claim, but ends soon after the material is insufficient.
        let over = game.moves().len() >= style.plies
            || position.is_insufficient_material() && random.random_bool(0.05);
        let next = if over { None } else { choose(&game, &moves, style, &mut random) };
        writeln!(
            out,
            "{}|{}|{}|{}|{}|{}",
            position.fen(),
            flags(&game),
            end_name(game.end()),
            list.join(" "),
            next.map_or_else(|| "-".to_owned(), |mv| to_san(position, mv)),
            next.map_or_else(|| "-".to_owned(), |mv| to_uci(position, mv)),
        )?;
        match next {
            Some(mv) => game.play(mv),
            None => return Ok(()),
        }
    }
}

fn choose(game: &Game, moves: &[Move], style: Style, random: &mut ChaCha8Rng) -> Option<Move> {
    if random.random_bool(style.special)
        && let Some(&special) = moves.iter().find(|mv| mv.is_castle() || mv.is_en_passant())
    {
        return Some(special);
    }
    if random.random_bool(style.back)
        && let [.., own, _] = game.moves()
        && let Some(&back) = moves.iter().find(|mv| {
            Some(mv.to()) == own.from()
                && mv.from() == Some(own.to())
                && !mv.is_capture()
                && !mv.is_castle()
        })
    {
        return Some(back);
    }
    if random.random_bool(style.quiet) {
        let quiet: Vec<Move> = moves.iter().copied().filter(|mv| !mv.is_zeroing()).collect();
        if let Some(&mv) = quiet.choose(random) {
            return Some(mv);
        }
    }
    moves.choose(random).copied()
}

/// Two kings and up to six other pieces anywhere: promotions, bare kings and long quiet games.
fn few_pieces(random: &mut ChaCha8Rng, mode: CastlingMode) -> Position {
    loop {
        let mut setup = Setup::empty();
        setup.turn = if random.random_bool(0.5) { Color::White } else { Color::Black };
        setup.halfmoves = random.random_range(0..90);
        let others = random.random_range(0..=6);
        for index in 0..2 + others {
            let square = Square::new(random.random_range(0..64));
            let color = if index % 2 == 0 { Color::White } else { Color::Black };
            let role = match index {
                0 | 1 => Role::King,
                _ => *[Role::Pawn, Role::Pawn, Role::Knight, Role::Bishop, Role::Rook, Role::Queen]
                    .choose(random)
                    .expect("not empty"),
            };
            if setup.board.piece_at(square).is_none() {
                setup.board.set_piece_at(square, role.of(color));
            }
        }
        if let Ok(position) = Position::from_setup(setup, mode) {
            return position;
        }
    }
}

fn flags(game: &Game) -> String {
    let position = game.position();
    let mut flags = String::new();
    for (flag, holds) in [
        ('c', position.is_check()),
        ('r', game.occurrences() >= 3),
        ('f', position.halfmove_clock() >= 100 && !position.legal_moves().is_empty()),
        ('i', position.is_insufficient_material()),
    ] {
        if holds {
            flags.push(flag);
        }
    }
    if flags.is_empty() { "-".to_owned() } else { flags }
}

fn end_name(end: Option<GameEnd>) -> &'static str {
    match end {
        None => "-",
        Some(GameEnd::Checkmate { winner: Color::White }) => "white-mates",
        Some(GameEnd::Checkmate { winner: Color::Black }) => "black-mates",
        Some(GameEnd::Stalemate) => "stalemate",
        Some(GameEnd::InsufficientMaterial) => "insufficient",
        Some(GameEnd::Repetition) => "repetition",
        Some(GameEnd::FiftyMoves) => "fifty",
    }
}
