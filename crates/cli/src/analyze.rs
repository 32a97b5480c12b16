//! `batch-first analyze`: analyses one position, for people or as JSON for programs, or files of games.

mod chances;
mod distribution;
mod files;
mod json;
mod screen;

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::bail;
use board::{CastlingMode, FenWarning, Game, Position};
use search::{Control, Limits, Outcome, SearchInfo};

use crate::{
    board_view::Charset,
    engine_args::{EngineArgs, processors},
    interrupt,
};

/// Analyse a position: score, chances and best lines as the search finds them.
///
/// Scores and chances are from White's side on the screen, from the side to move with --json.
/// Without a limit the search takes five seconds. Ctrl-C ends the search and shows its result. A
/// system without a search shows the chance of every legal move.
///
/// With files of games (PGN, EPD or FEN, plain or compressed) every position of every game is
/// searched, several games at once, and the games are written with evaluations, marks and better
/// lines. The same command resumes an interrupted run.
#[derive(Debug, clap::Args)]
pub struct AnalyzeArgs {
    /// Games to annotate; needs --out.
    #[arg(value_name = "FILE", requires = "out",
          conflicts_with_all = ["fen", "moves", "chess960", "mate", "infinite", "ascii"])]
    games: Vec<PathBuf>,
    #[command(flatten)]
    files: files::FileArgs,
    /// Position as a FEN (default: the start position).
    #[arg(long)]
    fen: Option<String>,
    /// Moves from there, as in `e2e4 e7e5` or `e4 e5`.
    #[arg(long, num_args = 1.., value_name = "MOVE")]
    moves: Vec<String>,
    /// The position is one of Chess960: castling is written as king takes rook.
    #[arg(long)]
    chess960: bool,
    /// Stop after this many evaluated positions.
    #[arg(long, value_name = "N")]
    nodes: Option<u64>,
    /// Stop after this depth, in plies.
    #[arg(long, value_name = "PLIES")]
    depth: Option<u32>,
    /// Stop after this time, as in `500ms` or `5s` (a number alone: milliseconds).
    #[arg(long, value_name = "TIME", value_parser = board::parse_duration)]
    movetime: Option<Duration>,
    /// Stop when a mate in at most this many moves is found.
    #[arg(long, value_name = "MOVES")]
    mate: Option<u32>,
    /// Search until Ctrl-C.
    #[arg(long)]
    infinite: bool,
    /// Number of best lines.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    multipv: u64,
    /// Print JSON, one object a line.
    #[arg(long)]
    json: bool,
    /// Use ASCII characters only.
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// The time of a search without a limit.
const DEFAULT_TIME: Duration = Duration::from_secs(5);

/// Shows an analysis.
trait AnalysisView {
    fn begin(&mut self, out: &mut dyn Write, game: &Game, engine: &str) -> io::Result<()>;
    fn info(&mut self, out: &mut dyn Write, game: &Game, info: &SearchInfo) -> io::Result<()>;
    fn end(&mut self, out: &mut dyn Write, game: &Game, outcome: &Outcome) -> io::Result<()>;
}

/// Runs the command.
///
/// # Errors
/// The position, a move or the network cannot be used, or the output cannot be written.
pub fn run(args: AnalyzeArgs) -> anyhow::Result<()> {
    if !args.games.is_empty() {
        return files::run(args);
    }
    let game = game(&args)?;
    let mut options = args.engine.options(processors())?;
    options.settings.multipv = args.multipv as usize;
    options.settings.move_overhead = Duration::ZERO;
    options.settings.show_moves_left = true;
    let mut built = engine::build(&options)?;
    if let Some(chances) = built.search.chances(&game) {
        let charset = if args.ascii { Charset::Ascii } else { Charset::of_locale() };
        return distribution::show(
            &mut io::stdout().lock(),
            &game,
            &chances?,
            &built.description,
            args.json,
            charset,
        );
    }
    let mut view: Box<dyn AnalysisView> = if args.json {
        Box::new(json::JsonView)
    } else {
        let charset = if args.ascii { Charset::Ascii } else { Charset::of_locale() };
        Box::new(screen::Screen::new(charset))
    };
    let mut out = io::stdout().lock();
    view.begin(&mut out, &game, &built.description)?;
    out.flush()?;
    let control = Control::default();
    interrupt::stop_search(&control)?;
    let outcome = if !game.position().has_legal_moves() {
        Outcome::default()
    } else {
        let mut written = Ok(());
        let outcome = built.search.search(&game, &limits(&args), &control, &mut |info| {
            if written.is_ok() {
                written = view.info(&mut out, &game, info).and_then(|()| out.flush());
            }
            if written.is_err() {
                control.stop();
            }
        })?;
        written?;
        outcome
    };
    view.end(&mut out, &game, &outcome)?;
    out.flush()?;
    Ok(())
}

fn game(args: &AnalyzeArgs) -> anyhow::Result<Game> {
    const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";
    let mode = CastlingMode::from_chess960(args.chess960);
    let read = Position::read_fen(args.fen.as_deref().unwrap_or(START), Some(mode))?;
    match read.warning {
        Some(warning @ FenWarning::Chess960Rights { .. }) => {
            tracing::warn!("{warning}; --chess960 keeps them");
        }
        Some(warning) => tracing::warn!("{warning}"),
        None => {}
    }
    let mut game = Game::new(read.position);
    for text in args.moves.iter().flat_map(|moves| moves.split([' ', ',', '\t', '\n'])) {
        let text = text.trim();
        // Copied games have move numbers; the zeros of castling are not one.
        let unnumbered = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let text =
            if unnumbered.starts_with('.') { unnumbered.trim_start_matches('.') } else { text };
        if text.is_empty() || unnumbered.is_empty() {
            continue;
        }
        let position = game.position();
        match board::parse_uci(position, text).or_else(|_| board::parse_san(position, text)) {
            Ok(mv) => game.play(mv),
            Err(error) => bail!("move {}: {error}", game.moves().len() + 1),
        }
    }
    Ok(game)
}

fn limits(args: &AnalyzeArgs) -> Limits {
    let limited =
        args.nodes.is_some() || args.depth.is_some() || args.mate.is_some() || args.infinite;
    Limits {
        depth: args.depth,
        nodes: args.nodes,
        movetime: args.movetime.or((!limited).then_some(DEFAULT_TIME)),
        mate: args.mate,
        infinite: args.infinite,
        analysis: true,
        ..Limits::default()
    }
}
