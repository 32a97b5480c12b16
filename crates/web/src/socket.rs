//! The web socket of an open page: receives its messages and sends it games and analyses.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension,
    body::Bytes,
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code},
    },
    http::StatusCode,
    response::Response,
};
use engine::has_search;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{self, MissedTickBehavior},
};

use crate::{
    Analysis, ApiError, GameCommand, GameHandle, GameReview, NewGameRequest, Opponent,
    access::{VisitorId, plain_text},
    message::{ClientMessage, MAX_MESSAGE, Refusal},
    new_game::RefusedGame,
    page_limit::{PagePermit, RateLimiter},
    server::AppState,
};

/// Time between two pings.
const PING_PERIOD: Duration = Duration::from_secs(30);
/// A page that sends nothing, or takes no message, for this long counts as gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest time that the page has to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens a page's web socket.
pub async fn connect(
    State(app): State<Arc<AppState>>,
    visitor: Option<Extension<VisitorId>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let Some(Extension(VisitorId(visitor))) = visitor else {
        return plain_text(StatusCode::FORBIDDEN, "Open the page first.");
    };
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    let reason = match app.page_limiter.acquire(&visitor) {
        Ok(permit) => {
            return upgrade
                .on_upgrade(|socket| PageConnection::new(app, visitor, permit).serve(socket));
        }
        Err(reason) => reason,
    };
    // Browsers tell a page why its web socket was closed only if the web socket was open.
    match Arc::clone(&app.refused_sockets).try_acquire_owned() {
        Ok(permit) => upgrade.on_upgrade(async move |socket| {
            close(socket, close_code::AGAIN, reason).await;
            drop(permit);
        }),
        Err(_) => plain_text(StatusCode::TOO_MANY_REQUESTS, reason),
    }
}

/// An open page.
struct PageConnection {
    app: Arc<AppState>,
    visitor: String,
    /// Counts the page until it is closed.
    _permit: PagePermit,
    /// The game that the page shows.
    game: Option<GameHandle>,
    analysis: Analysis,
    reports: watch::Receiver<Arc<str>>,
    review: GameReview,
    review_reports: watch::Receiver<Arc<str>>,
    rate_limiter: RateLimiter,
    /// When the page last sent something.
    heard: Instant,
}

/// Why the connection ends.
enum Ending {
    /// The page is gone or does not read.
    Disconnected,
    /// The server closes the connection: close code and reason.
    Refused(u16, &'static str),
}

impl PageConnection {
    fn new(app: Arc<AppState>, visitor: String, permit: PagePermit) -> Self {
        let (sender, reports) = watch::channel(Arc::from(""));
        let analysis = Analysis::new(Arc::clone(&app.engines), app.time.clone(), sender);
        let (sender, review_reports) = watch::channel(Arc::from(""));
        let review = GameReview::new(Arc::clone(&app.engines), app.time.clone(), sender);
        let rate_limiter = RateLimiter::new(app.time.now());
        let heard = Instant::now();
        let _permit = permit;
        Self {
            app,
            visitor,
            _permit,
            game: None,
            analysis,
            reports,
            review,
            review_reports,
            rate_limiter,
            heard,
        }
    }

    async fn serve(mut self, mut socket: WebSocket) {
        let ending = self.run(&mut socket).await;
        // The permit, the game and the analysis are released before the close handshake.
        drop(self);
        if let Err(Ending::Refused(code, reason)) = ending {
            close(socket, code, reason).await;
        }
    }

    /// Serves the page until the connection ends.
    async fn run(&mut self, socket: &mut WebSocket) -> Result<(), Ending> {
        send(socket, &self.hello().to_string()).await?;
        self.heard = Instant::now();
        let mut ping = time::interval(PING_PERIOD);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ping.tick() => {
                    if self.heard.elapsed() > SILENCE_TIMEOUT {
                        return Err(Ending::Disconnected);
                    }
                    within_timeout(socket.send(Message::Ping(Bytes::new()))).await?;
                }
                message = socket.recv() => {
                    let Some(Ok(message)) = message else { return Err(Ending::Disconnected) };
                    if let Some(answer) = self.receive(message).await? {
                        send(socket, &answer.to_string()).await?;
                    }
                }
                state = next_state(&mut self.game) => match state {
                    Some(state) => send(socket, &state).await?,
                    None => {
                        // The game was deleted, perhaps in another window.
                        self.game = None;
                        send(socket, &json!({ "type": "closed" }).to_string()).await?;
                    }
                },
                Ok(()) = self.reports.changed() => {
                    let report = Arc::clone(&self.reports.borrow_and_update());
                    send(socket, &report).await?;
                }
                Ok(()) = self.review_reports.changed() => {
                    let report = Arc::clone(&self.review_reports.borrow_and_update());
                    send(socket, &report).await?;
                }
            }
        }
    }

    fn hello(&self) -> Value {
        let (mut systems, mut engines, mut maia_ratings) = (Vec::new(), Vec::new(), Vec::new());
        for (opponent, network) in self.app.engines.opponents() {
            let shown = json!({ "name": opponent.name(), "network": network.name });
            match opponent {
                Opponent::Maia(rating) => maia_ratings.push(rating),
                Opponent::System(_) => systems.push(shown.clone()),
                Opponent::Large => {}
            }
            if has_search(opponent.system()) {
                engines.push(shown);
            }
        }
        json!({
            "type": "hello",
            "version": env!("CARGO_PKG_VERSION"),
            "systems": systems,
            "engines": engines,
            "threads": self.app.engines.max_threads(),
            "maia_ratings": maia_ratings,
            "levels": self.app.engines.rated_levels(),
            "runs": self.app.lab.has_runs(),
            "matches": self.app.lab.has_matches(),
        })
    }

    /// Handles a message; the answer is for this page alone.
    async fn receive(&mut self, message: Message) -> Result<Option<Value>, Ending> {
        match message {
            Message::Text(text) => {
                self.heard = Instant::now();
                if !self.rate_limiter.try_take(self.app.time.now()) {
                    let reason = "Too many messages came at once.";
                    return Err(Ending::Refused(close_code::POLICY, reason));
                }
                Ok(self.answer(text).await)
            }
            Message::Binary(_) => {
                Err(Ending::Refused(close_code::UNSUPPORTED, "Only text is understood."))
            }
            Message::Ping(_) | Message::Pong(_) => {
                self.heard = Instant::now();
                Ok(None)
            }
            Message::Close(_) => Err(Ending::Disconnected),
        }
    }

    /// The answer to a message. States of games and reports of analyses are sent separately.
    async fn answer(&mut self, text: Utf8Bytes) -> Option<Value> {
        let error = |tag, error| json!({ "type": "error", "tag": tag, "error": error });
        let message = match ClientMessage::read(text).await {
            Ok(message) => message,
            Err(Refusal { tag, error: ApiError(text) }) => return Some(error(tag, text)),
        };
        let tag = message.tag();
        self.handle(message).await.unwrap_or_else(|ApiError(text)| Some(error(tag, text)))
    }

    async fn handle(&mut self, message: ClientMessage) -> Result<Option<Value>, ApiError> {
        use ClientMessage as M;
        match message {
            M::NewGame(request) => return self.new_game(request).await.map(Some),
            M::Open { game } => self.open_game(game).await?,
            M::Close {} => self.game = None,
            M::Move { game, ply, uci } => {
                self.execute(game, GameCommand::Move { ply, uci }).await?;
            }
            M::TakeBack { game } => self.execute(game, GameCommand::TakeBack).await?,
            M::Resign { game } => self.execute(game, GameCommand::Resign).await?,
            M::Hint { game } => self.execute(game, GameCommand::Hint).await?,
            M::OfferDraw { game } => self.execute(game, GameCommand::OfferDraw).await?,
            M::Games {} => return self.list_games().await.map(Some),
            M::Delete { game } => {
                self.app.registry.delete(&self.visitor, game).await?;
                return self.list_games().await.map(Some);
            }
            M::ShowPosition(request) => {
                let task = request.check(&self.app.engines)?;
                self.analysis.stop().await;
                return Ok(Some(task.position_json()));
            }
            M::Analyse(request) => {
                let task = request.check(&self.app.engines)?;
                let position = task.position_json();
                self.analysis.start(task).await;
                return Ok(Some(position));
            }
            M::Stop {} => self.analysis.stop().await,
            M::Tree(request) => return request.answer().await.map(Some),
            M::Review(request) => {
                let task = request.check(&self.app.engines).await?;
                self.review.start(task);
            }
            M::StopReview {} => self.review.stop(),
        }
        Ok(None)
    }

    /// The answer says what was corrected, or which field of the request is wrong.
    async fn new_game(&mut self, request: NewGameRequest) -> Result<Value, ApiError> {
        let correction = request.correction();
        Ok(match self.start_game(request).await {
            Ok(()) => json!({ "type": "correction", "correction": correction }),
            Err(RefusedGame { field, error: ApiError(text) }) => {
                json!({ "type": "error", "field": field, "error": text })
            }
        })
    }

    async fn start_game(&mut self, request: NewGameRequest) -> Result<(), RefusedGame> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| ApiError(error.to_string()))?;
        let game = request.into_game(u64::from_le_bytes(bytes), &self.app.engines)?;
        let id = self.app.store.create(self.visitor.clone(), game.to_stored()).await?;
        if let Err(error) = self.open_game(id).await {
            // The visitor has not seen the game: it is deleted again.
            self.app.store.delete(self.visitor.clone(), id).await?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Shows another game on this page.
    async fn open_game(&mut self, id: i64) -> Result<(), ApiError> {
        self.game = None;
        let mut game = self.app.registry.open(&self.visitor, id).await?;
        // The present state is sent at once.
        game.states.mark_changed();
        self.game = Some(game);
        Ok(())
    }

    async fn execute(&self, id: i64, command: GameCommand) -> Result<(), ApiError> {
        match &self.game {
            Some(game) if game.id == id => game.execute(command).await,
            _ => Err(ApiError::new(format!("Game {id} is not open on this page."))),
        }
    }

    async fn list_games(&self) -> Result<Value, ApiError> {
        let games = self.app.store.list(self.visitor.clone()).await?;
        Ok(json!({ "type": "games", "games": games }))
    }
}

/// The next state of the open game; `None` when its session has ended.
async fn next_state(game: &mut Option<GameHandle>) -> Option<Arc<str>> {
    match game {
        None => std::future::pending().await,
        Some(game) => {
            game.states.changed().await.ok()?;
            Some(Arc::clone(&game.states.borrow_and_update()))
        }
    }
}

async fn within_timeout<T>(
    sending: impl Future<Output = Result<T, axum::Error>>,
) -> Result<T, Ending> {
    let sent = time::timeout(SILENCE_TIMEOUT, sending).await.map_err(|_| Ending::Disconnected)?;
    sent.map_err(|_| Ending::Disconnected)
}

async fn send(socket: &mut WebSocket, text: &str) -> Result<(), Ending> {
    within_timeout(socket.send(Message::Text(text.into()))).await
}

/// Closes a web socket and tells the page why.
async fn close(mut socket: WebSocket, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    // The server reads on until the page has answered: unread messages would make the system reset
    // the connection, and the reason would be lost.
    if within_timeout(socket.send(Message::Close(Some(frame)))).await.is_ok() {
        let _ =
            time::timeout(CLOSE_TIMEOUT, async { while let Some(Ok(_)) = socket.recv().await {} })
                .await;
    }
}
