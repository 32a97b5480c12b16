//! The server: its options, its routes and its shutdown.

use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderValue, StatusCode, header},
    middleware,
    response::Response,
    routing::get,
};
use engine::EngineOptions;
use nets::Network;
use serde::Deserialize;
use serde_json::Value;
use tokio::{net::TcpListener, sync::Semaphore, task, time};

use crate::{
    AccessPolicy, ApiError, Engines, GameRegistry, GameState, GameStore, LabFolders, Opponent,
    TimeSource, WebError,
    access::{REPORT_CONTENT_POLICY, VisitorId, enforce, plain_text},
    assets, connections,
    page_limit::PageLimiter,
    socket,
};

/// The most web sockets at once that are opened only to tell the page that there are too many.
const MAX_REFUSED_SOCKETS: usize = 32;

/// The longest time that the shutdown waits for the disk.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The content and the visitors of the page.
#[derive(Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// The token that every visitor needs, if any.
    pub token: Option<String>,
    /// Host names of the server, besides `localhost` and addresses.
    pub names: Vec<String>,
    /// The file of games; `None` keeps them in memory only.
    pub games: Option<PathBuf>,
    /// The opponents with their networks, the default first.
    pub networks: Vec<(Opponent, Network)>,
    /// Devices, threads and number format of the evaluators.
    pub engine: EngineOptions,
    /// The most searches at once.
    pub search_slots: usize,
    pub lab: LabFolders,
    /// The time source of games, analyses and connections.
    pub time: TimeSource,
}

/// The state that all requests share.
#[derive(Debug)]
pub struct AppState {
    pub engines: Arc<Engines>,
    pub store: GameStore,
    pub registry: Arc<GameRegistry>,
    pub lab: LabFolders,
    pub time: TimeSource,
    pub page_limiter: PageLimiter,
    /// Permits for web sockets that are opened only to tell the page why it is refused.
    pub refused_sockets: Arc<Semaphore>,
}

/// A server that is bound to its address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    registry: Arc<GameRegistry>,
    router: Router,
    time: TimeSource,
}

impl Server {
    /// Opens the games, checks the networks and listens.
    ///
    /// # Errors
    /// The address, the games or a network cannot be used.
    pub async fn bind(options: Options) -> Result<Self, WebError> {
        let engines =
            Arc::new(Engines::new(options.networks, &options.engine, options.search_slots)?);
        assets::prepare();
        let store = GameStore::open(options.games.as_deref())?;
        let time = options.time;
        let registry =
            Arc::new(GameRegistry::new(Arc::clone(&engines), store.clone(), time.clone()));
        let app = Arc::new(AppState {
            engines,
            store,
            registry: Arc::clone(&registry),
            lab: options.lab,
            time: time.clone(),
            page_limiter: PageLimiter::default(),
            refused_sockets: Arc::new(Semaphore::new(MAX_REFUSED_SOCKETS)),
        });
        let router = Router::new()
            .route("/", get(assets::front))
            .route("/page/{*path}", get(assets::asset))
            .route("/socket", get(socket::connect))
            .route("/games/{file}", get(game_file))
            .route("/api/runs", get(list_runs))
            .route("/api/run", get(show_run))
            .route("/api/matches", get(list_matches))
            .route("/api/match", get(show_match))
            .route("/reports/{kind}/{*path}", get(report))
            .fallback(async || plain_text(StatusCode::NOT_FOUND, "There is no such page."))
            .with_state(app)
            .layer(middleware::from_fn_with_state(
                AccessPolicy::new(options.token, options.names),
                enforce,
            ));
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(|source| WebError::Listen { address: options.listen, source })?;
        Ok(Self { listener, registry, router, time })
    }

    /// The address that the server listens on.
    ///
    /// # Errors
    /// The system call failed.
    pub fn address(&self) -> Result<SocketAddr, WebError> {
        self.listener.local_addr().map_err(WebError::Serve)
    }

    /// Serves until `end`, then stores the clocks of open games as they stand.
    pub async fn run(self, end: impl Future<Output = ()> + Send + 'static) {
        // Open pages do not delay the end: every state that they were sent is stored.
        tokio::select! {
            () = connections::serve(self.listener, self.router, self.time) => {}
            () = end => {}
        }
        if time::timeout(SHUTDOWN_TIMEOUT, self.registry.save_clocks()).await.is_err() {
            tracing::warn!("the clocks of open games could not be stored in time");
        }
    }
}

/// A visitor's game, or all of them, as PGN.
async fn game_file(
    State(app): State<Arc<AppState>>,
    visitor: Option<Extension<VisitorId>>,
    Path(file): Path<String>,
) -> Response {
    let missing = || plain_text(StatusCode::NOT_FOUND, "You have no such game.");
    let Some(Extension(VisitorId(visitor))) = visitor else { return missing() };
    let text = match file.strip_suffix(".pgn") {
        Some("all") => all_games(&app.store, &visitor).await,
        Some(id) => match id.parse() {
            Ok(id) => match app.store.load(visitor.clone(), id).await {
                Ok(stored) => GameState::from_stored(&stored).map(|state| state.to_pgn()),
                Err(_) => return missing(),
            },
            Err(_) => return missing(),
        },
        None => return missing(),
    };
    let text = match text {
        Ok(text) if text.is_empty() => return missing(),
        Ok(text) => text,
        Err(error) => return plain_text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    };
    let mut response = uncached("application/x-chess-pgn; charset=utf-8", text);
    response
        .headers_mut()
        .insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    response
}

/// All games of a visitor as PGN. A game that cannot be read is logged and left out.
async fn all_games(store: &GameStore, visitor: &str) -> Result<String, ApiError> {
    let mut text = String::new();
    for id in store.ids(visitor.to_owned()).await? {
        let stored = store.load(visitor.to_owned(), id).await;
        match stored.and_then(|stored| GameState::from_stored(&stored)) {
            Ok(state) => text += &state.to_pgn(),
            Err(error) => tracing::warn!("game {id} is left out: {error}"),
        }
    }
    Ok(text)
}

/// Query with the name of a run or match.
#[derive(Debug, Deserialize)]
struct NameQuery {
    name: String,
}

async fn list_runs(State(app): State<Arc<AppState>>) -> Response {
    json(read_lab(&app, |lab| Some(lab.list_runs())).await)
}

async fn show_run(State(app): State<Arc<AppState>>, Query(query): Query<NameQuery>) -> Response {
    json(read_lab(&app, move |lab| lab.run(&query.name)).await)
}

async fn list_matches(State(app): State<Arc<AppState>>) -> Response {
    json(read_lab(&app, |lab| Some(lab.list_matches())).await)
}

async fn show_match(State(app): State<Arc<AppState>>, Query(query): Query<NameQuery>) -> Response {
    json(read_lab(&app, move |lab| lab.match_summary(&query.name)).await)
}

async fn report(
    State(app): State<Arc<AppState>>,
    Path((kind, path)): Path<(String, String)>,
) -> Response {
    let name = path.strip_suffix("/report.html").unwrap_or_default().to_owned();
    let found = match kind.as_str() {
        "run" => read_lab(&app, move |lab| lab.run_report(&name)).await,
        "match" => read_lab(&app, move |lab| lab.match_report(&name)).await,
        _ => None,
    };
    match found {
        Some(page) => {
            let mut response = uncached("text/html; charset=utf-8", page);
            let policy = HeaderValue::from_static(REPORT_CONTENT_POLICY);
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            response
        }
        None => plain_text(StatusCode::NOT_FOUND, "There is no such report."),
    }
}

/// Reads files of the lab on a blocking thread.
async fn read_lab<T: Send + 'static>(
    app: &AppState,
    read: impl FnOnce(&LabFolders) -> Option<T> + Send + 'static,
) -> Option<T> {
    let lab = app.lab.clone();
    task::spawn_blocking(move || read(&lab)).await.ok().flatten()
}

fn json(value: Option<Value>) -> Response {
    match value {
        Some(value) => uncached("application/json", value.to_string()),
        None => plain_text(StatusCode::NOT_FOUND, "There is no run or match of that name."),
    }
}

/// A response that browsers do not store.
fn uncached(content_type: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
