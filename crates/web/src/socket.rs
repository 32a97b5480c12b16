//! One open page: its wishes come in over a web socket, games and analyses go out.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension,
    body::Bytes,
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code},
    },
    http::StatusCode,
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{self, MissedTickBehavior},
};

use crate::{
    Analysis, Proposal, Question, Refusal, Seat, Wish,
    guard::{Visitor, plain},
    levels::MEASURED,
    server::{App, Seats},
};

/// Bytes of a message: a PGN and what goes with it.
const LONGEST_MESSAGE: usize = 64 * 1024;

/// Messages that may come at once, and each second in the long run.
const BURST: f64 = 60.0;
const RATE: f64 = 20.0;

/// How often a page is asked whether it is still there, and how long it may be silent or not read
/// before it counts as gone: its seats and its memory are for others then.
const BEAT: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(90);
/// How long the other side has to answer a farewell.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a page may ask for.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Ask {
    NewGame(Proposal),
    Open {
        game: i64,
    },
    Close {},
    Move {
        game: i64,
        ply: usize,
        uci: String,
    },
    TakeBack {
        game: i64,
    },
    Resign {
        game: i64,
    },
    Games {},
    Delete {
        game: i64,
    },
    /// Show a position.
    Look(Question),
    /// Show it and think about it.
    Analyse(Question),
    Stop {},
}

impl Ask {
    /// The number of a question; a refusal carries it, so that the page can tell an old question's
    /// from the latest one's.
    fn tag(&self) -> Option<u32> {
        match self {
            Self::Look(question) | Self::Analyse(question) => Some(question.tag),
            _ => None,
        }
    }
}

/// Opens a page's connection.
pub async fn connect(
    State(app): State<Arc<App>>,
    visitor: Option<Extension<Visitor>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let Some(Extension(Visitor(visitor))) = visitor else {
        return plain(StatusCode::FORBIDDEN, "Open the page first.");
    };
    let upgrade = upgrade.max_message_size(LONGEST_MESSAGE).max_frame_size(LONGEST_MESSAGE);
    let why = match app.seats.take(&visitor) {
        Ok(seats) => {
            return upgrade.on_upgrade(|socket| Page::new(app, visitor, seats).serve(socket));
        }
        Err(why) => why,
    };
    // Only of a connection that was opened do browsers tell the page why it was closed.
    match Arc::clone(&app.turned_away).try_acquire_owned() {
        Ok(place) => upgrade.on_upgrade(async move |socket| {
            close(socket, close_code::AGAIN, why).await;
            drop(place);
        }),
        Err(_) => plain(StatusCode::TOO_MANY_REQUESTS, why),
    }
}

/// Counts messages.
struct Pace {
    left: f64,
    since: Instant,
}

impl Pace {
    fn allows_another(&mut self) -> bool {
        let now = Instant::now();
        let earned = now.duration_since(self.since).as_secs_f64() * RATE;
        self.left = (self.left + earned).min(BURST) - 1.0;
        self.since = now;
        self.left >= 0.0
    }
}

struct Page {
    app: Arc<App>,
    visitor: String,
    /// Counts this connection as long as it lives.
    _seats: Seats,
    seat: Option<Seat>,
    analysis: Analysis,
    answers: watch::Receiver<Arc<str>>,
    pace: Pace,
}

impl Page {
    fn new(app: Arc<App>, visitor: String, seats: Seats) -> Self {
        let (sender, answers) = watch::channel(Arc::from(""));
        let analysis = Analysis::new(Arc::clone(&app.engines), sender);
        let pace = Pace { left: BURST, since: Instant::now() };
        Self { app, visitor, _seats: seats, seat: None, analysis, answers, pace }
    }

    async fn serve(mut self, mut socket: WebSocket) {
        if send(&mut socket, &self.hello().to_string()).await.is_err() {
            return;
        }
        let mut heard = Instant::now();
        let mut beat = time::interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let result = tokio::select! {
                _ = beat.tick() => {
                    if heard.elapsed() > SILENCE {
                        return;
                    }
                    within_patience(socket.send(Message::Ping(Bytes::new()))).await
                }
                message = socket.recv() => match message {
                    Some(Ok(Message::Text(text))) => {
                        heard = Instant::now();
                        if !self.pace.allows_another() {
                            // Its seats are free at once.
                            drop(self);
                            close(socket, close_code::POLICY, "too many messages came at once.").await;
                            return;
                        }
                        match self.answer(&text).await {
                            None => Ok(()),
                            Some(value) => send(&mut socket, &value.to_string()).await,
                        }
                    }
                    Some(Ok(Message::Binary(_))) => {
                        drop(self);
                        close(socket, close_code::UNSUPPORTED, "only text is understood.").await;
                        return;
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                        heard = Instant::now();
                        Ok(())
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                },
                state = changed(&mut self.seat) => match state {
                    Some(state) => send(&mut socket, &state).await,
                    None => {
                        // Deleted, perhaps in another window.
                        self.seat = None;
                        send(&mut socket, &json!({ "type": "closed" }).to_string()).await
                    }
                },
                Ok(()) = self.answers.changed() => {
                    let answer = Arc::clone(&self.answers.borrow_and_update());
                    send(&mut socket, &answer).await
                }
            };
            if result.is_err() {
                return;
            }
        }
    }

    fn hello(&self) -> Value {
        let systems: Vec<Value> = self
            .app
            .engines
            .systems()
            .map(|(system, network)| json!({ "name": system.name(), "network": network.name }))
            .collect();
        json!({
            "type": "hello",
            "version": env!("CARGO_PKG_VERSION"),
            "systems": systems,
            "levels": MEASURED,
            "runs": self.app.lab.has_runs(),
            "matches": self.app.lab.has_matches(),
        })
    }

    /// An answer for this page alone; games and analyses answer by themselves.
    async fn answer(&mut self, text: &str) -> Option<Value> {
        let error = |tag, error| json!({ "type": "error", "tag": tag, "error": error });
        let ask = match serde_json::from_str::<Ask>(text) {
            Ok(ask) => ask,
            Err(problem) => return Some(error(None, format!("not understood: {problem}"))),
        };
        let tag = ask.tag();
        self.fulfil(ask).await.unwrap_or_else(|Refusal(words)| Some(error(tag, words)))
    }

    async fn fulfil(&mut self, ask: Ask) -> Result<Option<Value>, Refusal> {
        match ask {
            Ask::NewGame(proposal) => {
                let engines = &self.app.engines;
                let name = |system| {
                    engines
                        .systems()
                        .find(|(other, _)| *other == system)
                        .map(|(_, network)| network.name.clone())
                };
                let mut bytes = [0; 8];
                getrandom::fill(&mut bytes).map_err(|error| Refusal(error.to_string()))?;
                let contest = proposal.accept(u64::from_le_bytes(bytes), name)?;
                let id = self.app.store.create(self.visitor.clone(), contest.to_stored()).await?;
                self.seat = None;
                match self.app.tables.sit(&self.visitor, id).await {
                    Ok(seat) => self.seat = Some(seat),
                    Err(refusal) => {
                        // Nobody has seen it: it is not kept.
                        self.app.store.delete(self.visitor.clone(), id).await?;
                        return Err(refusal);
                    }
                }
                self.show_now()
            }
            Ask::Open { game } => {
                self.seat = None;
                self.seat = Some(self.app.tables.sit(&self.visitor, game).await?);
                self.show_now()
            }
            Ask::Close {} => {
                self.seat = None;
                Ok(None)
            }
            Ask::Move { game, ply, uci } => self.wish(game, Wish::Move { ply, uci }).await,
            Ask::TakeBack { game } => self.wish(game, Wish::TakeBack).await,
            Ask::Resign { game } => self.wish(game, Wish::Resign).await,
            Ask::Games {} => {
                let games = self.app.store.list(self.visitor.clone()).await?;
                Ok(Some(json!({ "type": "games", "games": games })))
            }
            Ask::Delete { game } => {
                self.app.tables.delete(&self.visitor, game).await?;
                let games = self.app.store.list(self.visitor.clone()).await?;
                Ok(Some(json!({ "type": "games", "games": games })))
            }
            Ask::Look(question) => {
                let subject = question.check(&self.app.engines)?;
                self.analysis.stop().await;
                Ok(Some(subject.position()))
            }
            Ask::Analyse(question) => {
                let subject = question.check(&self.app.engines)?;
                let position = subject.position();
                self.analysis.begin(subject).await;
                Ok(Some(position))
            }
            Ask::Stop {} => {
                self.analysis.stop().await;
                Ok(None)
            }
        }
    }

    fn show_now(&mut self) -> Result<Option<Value>, Refusal> {
        if let Some(seat) = &mut self.seat {
            seat.states.mark_changed();
        }
        Ok(None)
    }

    async fn wish(&self, game: i64, wish: Wish) -> Result<Option<Value>, Refusal> {
        match &self.seat {
            Some(seat) if seat.id == game => seat.wish(wish).await.map(|()| None),
            _ => Err(Refusal::new(format!("game {game} is not open on this page"))),
        }
    }
}

/// The next state of the open game; none when it was closed.
async fn changed(seat: &mut Option<Seat>) -> Option<Arc<str>> {
    match seat {
        None => std::future::pending().await,
        Some(seat) => {
            seat.states.changed().await.ok()?;
            Some(Arc::clone(&seat.states.borrow_and_update()))
        }
    }
}

/// The page is gone, or does not read.
struct Gone;

async fn within_patience<T>(
    sending: impl Future<Output = Result<T, axum::Error>>,
) -> Result<T, Gone> {
    time::timeout(SILENCE, sending).await.map_err(|_| Gone)?.map_err(|_| Gone)
}

async fn send(socket: &mut WebSocket, text: &str) -> Result<(), Gone> {
    within_patience(socket.send(Message::Text(text.into()))).await
}

async fn close(mut socket: WebSocket, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    // The other side may be gone already. Were it not heard to the end, the system would reset the
    // connection, and the reason would be lost.
    if within_patience(socket.send(Message::Close(Some(frame)))).await.is_ok() {
        let _ =
            time::timeout(FAREWELL, async { while let Some(Ok(_)) = socket.recv().await {} }).await;
    }
}
