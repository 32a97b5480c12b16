//! Hints and draw offers: in both the visitor asks a search of full strength about the position of
//! an open game, whatever the strength of the opponent.

use std::{future, sync::Arc};

use board::{Game, Position, Score, to_san, to_uci};
use search::{Control, Limits, Outcome};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{ApiError, Engines, search_slots::run_search};

/// Positions that the search evaluates.
const NODES: u64 = 1_000;
/// A draw offer is declined before this many plies: nobody agrees to a draw in the opening.
const MIN_DRAW_PLIES: usize = 20;
/// The engine takes a draw while its advantage is at most this, in centipawns.
const MAX_ADVANTAGE: i32 = 20;

/// What the visitor asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// A good move.
    Hint,
    /// Whether the engine takes a draw.
    Draw,
}

/// The answer about the present position.
#[derive(Debug)]
enum Answer {
    /// A good move in UCI notation and SAN.
    Hint(String, String),
    DrawDeclined,
    Failed(ApiError),
}

/// The question that is being answered; dropping it stops the search.
struct RunningSearch {
    question: Question,
    task: JoinHandle<Result<Outcome, ApiError>>,
}

impl Drop for RunningSearch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The questions of one open game, one at a time.
pub struct Adviser {
    engines: Arc<Engines>,
    running: Option<RunningSearch>,
    answer: Option<Answer>,
}

impl Adviser {
    /// An adviser without a question.
    pub fn new(engines: Arc<Engines>) -> Self {
        Self { engines, running: None, answer: None }
    }

    /// Starts the search for an answer; it replaces an earlier question.
    pub fn ask(&mut self, question: Question, game: Game) {
        self.withdraw();
        let engines = Arc::clone(&self.engines);
        let task = tokio::spawn(async move {
            let _slot = engines.slots.acquire().await?;
            let search = engines.build_adviser()?;
            let limits = Limits { nodes: Some(NODES), ..Limits::default() };
            Ok(run_search(search, game, limits, Control::default(), |_| {}).await?.1)
        });
        self.running = Some(RunningSearch { question, task });
    }

    /// Forgets question and answer: the position is another one, or the game is over.
    pub fn withdraw(&mut self) {
        self.running = None;
        self.answer = None;
    }

    /// Waits for the end of the search; pending while none runs.
    pub async fn finished(&mut self) -> Result<Outcome, ApiError> {
        match &mut self.running {
            None => future::pending().await,
            Some(running) => (&mut running.task).await.unwrap_or_else(|_| {
                Err(ApiError::new("The search stopped unexpectedly. Please report this."))
            }),
        }
    }

    /// Keeps the answer for the page; true if the engine takes the draw that was offered.
    pub fn answer(&mut self, result: Result<Outcome, ApiError>, game: &Game) -> bool {
        let Some(question) = self.running.take().map(|running| running.question) else {
            return false;
        };
        let takes = match (&result, question) {
            (Ok(outcome), Question::Draw) => takes_draw(outcome, game),
            _ => false,
        };
        self.answer = match result {
            Err(error) => Some(Answer::Failed(error)),
            Ok(outcome) => match question {
                Question::Hint => outcome.best.map(|best| hint(game.position(), best)),
                Question::Draw => (!takes).then_some(Answer::DrawDeclined),
            },
        };
        takes
    }

    /// The question and its answer, as the page shows them; null where there is none.
    pub fn to_json(&self) -> Value {
        match (&self.running, &self.answer) {
            (Some(RunningSearch { question: Question::Hint, .. }), _) => {
                json!({ "state": "hint_asked" })
            }
            (Some(RunningSearch { question: Question::Draw, .. }), _) => {
                json!({ "state": "draw_offered" })
            }
            (None, Some(Answer::Hint(uci, san))) => {
                json!({ "state": "hint", "uci": uci, "san": san })
            }
            (None, Some(Answer::DrawDeclined)) => json!({ "state": "draw_declined" }),
            (None, Some(Answer::Failed(error))) => {
                json!({ "state": "failed", "error": error.to_string() })
            }
            (None, None) => Value::Null,
        }
    }
}

fn hint(position: &Position, best: board::Move) -> Answer {
    Answer::Hint(to_uci(position, best), to_san(position, best))
}

/// Whether the engine takes a draw. The visitor is to move: the score is from the visitor's side.
fn takes_draw(outcome: &Outcome, game: &Game) -> bool {
    let score = outcome.lines.first().map(|line| line.score);
    game.moves().len() >= MIN_DRAW_PLIES
        && score.is_some_and(|score| score.order() >= Score::Centipawns(-MAX_ADVANTAGE).order())
}
