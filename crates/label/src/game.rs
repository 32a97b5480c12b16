//! Labels one game: the engine evaluates each position of a given game, plays a game against
//! itself, or evaluates positions of the trees of another search's game.

use board::{Game, GameEnd, Score};
use games::{LABELLED_EVENT, PgnGame, PgnWriter, parse_result, white_score_text};
use uci::client::ClientError;

use crate::{
    LabelError, SelfPlaySettings, TreeSettings,
    labeller::Labeller,
    self_play::{self, Judged, Labels},
    trees::TreeSampler,
};

/// The job that makes one game of the output. A number selects the random stream.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "most jobs of files are games, each moved once")]
pub(crate) enum LabelJob<'a> {
    /// All positions of a game of a file are evaluated.
    Game(PgnGame),
    /// A game or line that is not read.
    LeftOut { is_broken: bool },
    /// A position and the position after the engine's best move are evaluated.
    Position(Game),
    /// The engine plays a game against itself.
    SelfPlay(&'a SelfPlaySettings, u64),
    /// A search plays a game against itself, and each position sampled from its trees is a
    /// `Position`.
    Trees(&'a TreeSettings, u64),
}

/// Labelled games as PGN: one, or one a position of a job `Trees`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelledGame {
    pub(crate) pgn: String,
    pub(crate) positions: u64,
    /// The game's text was not understood to its end.
    pub(crate) is_broken: bool,
}

/// Labels one game, after `ucinewgame`. `trees` is the search of the jobs `Trees`, made when the
/// first of them needs it.
///
/// # Errors
/// The engine or the search failed.
pub(crate) fn label_game(
    labeller: &mut Labeller<'_>,
    trees: &mut Option<TreeSampler>,
    job: &LabelJob<'_>,
    number: u64,
) -> Result<LabelledGame, LabelError> {
    labeller.new_game()?;
    let mut labeller = GameLabeller { labeller, labelled: LabelledGame::default() };
    match job {
        LabelJob::Game(source) => {
            let (game, labels) = labeller.replay(&source.game)?;
            labeller.add(&game, &labels, source.tags.clone(), number);
            labeller.labelled.is_broken = source.unread.is_some();
        }
        LabelJob::LeftOut { is_broken } => labeller.labelled.is_broken = *is_broken,
        LabelJob::Position(start) => labeller.one_move(start, number)?,
        LabelJob::SelfPlay(how, stream) => {
            let (game, labels) =
                self_play::play(how, *stream, &mut |game| labeller.evaluate(game))?;
            labeller.add(&game, &labels, Vec::new(), number);
        }
        LabelJob::Trees(how, stream) => {
            let sampler = match trees {
                Some(sampler) => sampler,
                None => trees.insert(TreeSampler::new(how)?),
            };
            for position in sampler.game(how, *stream)? {
                labeller.one_move(&Game::new(position), number)?;
            }
        }
    }
    Ok(labeller.labelled)
}

struct GameLabeller<'a, 'n> {
    labeller: &'a mut Labeller<'n>,
    labelled: LabelledGame,
}

impl GameLabeller<'_, '_> {
    fn evaluate(&mut self, game: &Game) -> Result<Judged, ClientError> {
        if !game.position().has_legal_moves() {
            return Ok((None, None));
        }
        let judged = self.labeller.evaluate(game)?;
        self.labelled.positions += 1;
        Ok(judged)
    }

    /// Evaluates all positions of a game.
    fn replay(&mut self, source: &Game) -> Result<(Game, Labels), ClientError> {
        let mut game = Game::new(source.start().clone());
        let mut labels = vec![self.evaluate(&game)?.0];
        for &mv in source.moves() {
            game.play(mv);
            labels.push(self.evaluate(&game)?.0);
        }
        Ok((game, labels))
    }

    /// Adds a game of a position and the best move, both evaluated.
    fn one_move(&mut self, start: &Game, number: u64) -> Result<(), ClientError> {
        let mut game = start.clone();
        let (score, best) = self.evaluate(&game)?;
        let mut labels = vec![score];
        if let Some(best) = best {
            game.play(best);
            labels.push(self.evaluate(&game)?.0);
        }
        self.add(&game, &labels, Vec::new(), number);
        Ok(())
    }

    /// Adds a game to the output.
    fn add(&mut self, game: &Game, labels: &Labels, tags: Vec<(String, String)>, number: u64) {
        let (name, annotator) = (self.labeller.name(), self.labeller.annotator());
        self.labelled.pgn += &to_pgn(game, labels, tags, number, &annotator, name);
    }
}

fn to_pgn(
    game: &Game,
    labels: &Labels,
    mut tags: Vec<(String, String)>,
    number: u64,
    annotator: &str,
    player: &str,
) -> String {
    let winner =
        match tags.iter().find(|(name, _)| name == "Result").map(|(_, value)| value.as_str()) {
            Some(result) => parse_result(result),
            None => game.end().map(|end| match end {
                GameEnd::Checkmate { winner } => Some(winner),
                _ => None,
            }),
        };
    tags.retain(|(name, _)| name != "Result" && name != "Annotator");
    if tags.is_empty() {
        let add = [
            ("Event", LABELLED_EVENT.to_owned()),
            ("Round", (number + 1).to_string()),
            ("White", player.to_owned()),
            ("Black", player.to_owned()),
        ];
        tags.extend(add.map(|(name, value)| (name.to_owned(), value)));
    }
    tags.push(("Annotator".to_owned(), annotator.to_owned()));
    let tags: Vec<(&str, String)> =
        tags.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let mut text = PgnWriter::new(game.start(), &tags, winner);
    let mut turn = game.start().turn();
    let comment = |label: Option<Score>, turn| {
        label.map(|score| format!("[%eval {}]", white_score_text(score, turn)))
    };
    let mut labels = labels.iter().copied();
    if let Some(comment) = comment(labels.next().flatten(), turn) {
        text.comment(&comment);
    }
    for &mv in game.moves() {
        turn = !turn;
        text.play(mv, comment(labels.next().flatten(), turn).as_deref());
    }
    text.finish()
}
