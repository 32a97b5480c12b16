//! The server: what it is made of, its routes, and its end.

use std::{
    collections::HashMap,
    future::Future,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderValue, StatusCode, header},
    middleware,
    response::Response,
    routing::get,
};
use eval::{Devices, cpu::CpuOptions};
use nets::{Network, System};
use serde::Deserialize;
use serde_json::Value;
use tokio::{net::TcpListener, sync::Semaphore, task, time};

use crate::{
    Contest, Engines, Guard, Lab, Refusal, Store, Tables, WebError, assets, connections,
    guard::{REPORT_POLICY, Visitor, plain, stand},
    socket,
};

/// Pages that one visitor, and all together, may have open.
const MOST_PAGES_OF_ONE: usize = 8;
const MOST_PAGES: usize = 128;

/// Connections at once that are opened only to say that there are too many.
const MOST_TURNED_AWAY: usize = 32;

/// How long the program's end may wait for the disk.
const FAREWELL: Duration = Duration::from_secs(5);

/// What is served, and to whom.
#[derive(Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// Asked of every visitor, if there is one.
    pub token: Option<String>,
    /// Host names under which the server is reached, besides `localhost` and plain addresses.
    pub names: Vec<String>,
    /// Where games are kept; `None`: in memory only.
    pub games: Option<PathBuf>,
    /// Who plays, the default first.
    pub networks: Vec<(System, Network)>,
    /// Of the evaluators.
    pub cpu: CpuOptions,
    /// Where networks are evaluated; of `cpu` only the precision counts where that is no processor.
    pub devices: Devices,
    /// Searches at once.
    pub places: usize,
    pub lab: Lab,
}

/// Everything that requests share.
#[derive(Debug)]
pub struct App {
    pub engines: Arc<Engines>,
    pub store: Store,
    pub tables: Arc<Tables>,
    pub lab: Lab,
    pub seats: SeatCounter,
    /// Places of those who are told why there is no seat for them.
    pub turned_away: Arc<Semaphore>,
}

/// Counts open pages by visitor.
#[derive(Clone, Debug, Default)]
pub struct SeatCounter(Arc<Mutex<HashMap<String, usize>>>);

/// One open page; counted until dropped.
#[derive(Debug)]
pub struct Seats {
    counter: SeatCounter,
    visitor: String,
}

impl SeatCounter {
    /// Another page for a visitor.
    ///
    /// # Errors
    /// There may be none, in words.
    pub fn take(&self, visitor: &str) -> Result<Seats, &'static str> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.get(visitor).copied().unwrap_or(0);
        if own >= MOST_PAGES_OF_ONE {
            return Err("you have too many pages open; close one.");
        }
        if counts.values().sum::<usize>() >= MOST_PAGES {
            return Err("too many visitors are here; please wait.");
        }
        counts.insert(visitor.to_owned(), own + 1);
        Ok(Seats { counter: self.clone(), visitor: visitor.to_owned() })
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        let mut counts = self.counter.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.visitor) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.visitor);
            }
        }
    }
}

/// Bound to its address, ready to serve.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tables: Arc<Tables>,
    router: Router,
}

impl Server {
    /// Opens the games, checks the networks and listens.
    ///
    /// # Errors
    /// The address, the games or a network cannot be used.
    pub async fn bind(options: Options) -> Result<Self, WebError> {
        let engines = Arc::new(Engines::new(
            options.networks,
            &options.devices,
            options.cpu,
            options.places,
        )?);
        let store = Store::open(options.games.as_deref())?;
        let tables = Arc::new(Tables::new(Arc::clone(&engines), store.clone()));
        let app = Arc::new(App {
            engines,
            store,
            tables: Arc::clone(&tables),
            lab: options.lab,
            seats: SeatCounter::default(),
            turned_away: Arc::new(Semaphore::new(MOST_TURNED_AWAY)),
        });
        let router = Router::new()
            .route("/", get(assets::front))
            .route("/page/{*path}", get(assets::asset))
            .route("/socket", get(socket::connect))
            .route("/games/{file}", get(game_file))
            .route("/api/runs", get(runs))
            .route("/api/run", get(run))
            .route("/api/matches", get(matches))
            .route("/api/match", get(a_match))
            .route("/reports/{kind}/{*path}", get(report))
            .fallback(async || plain(StatusCode::NOT_FOUND, "There is no such page."))
            .with_state(app)
            .layer(middleware::from_fn_with_state(Guard::new(options.token, options.names), stand));
        let listener = TcpListener::bind(options.listen)
            .await
            .map_err(|source| WebError::Listen { address: options.listen, source })?;
        Ok(Self { listener, tables, router })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> Result<SocketAddr, WebError> {
        self.listener.local_addr().map_err(WebError::Serve)
    }

    /// Serves until `end`; then the clocks of open games are kept as they stand.
    pub async fn run(self, end: impl Future<Output = ()> + Send + 'static) {
        // Open pages do not keep the program from ending: whatever they were told is stored.
        tokio::select! {
            () = connections::serve(self.listener, self.router) => {}
            () = end => {}
        }
        if time::timeout(FAREWELL, self.tables.close()).await.is_err() {
            tracing::warn!("the disk did not keep the clocks of all open games in time");
        }
    }
}

/// A game as PGN, for its visitor.
async fn game_file(
    State(app): State<Arc<App>>,
    visitor: Option<Extension<Visitor>>,
    Path(file): Path<String>,
) -> Response {
    let missing = || plain(StatusCode::NOT_FOUND, "You have no such game.");
    let Some(Extension(Visitor(visitor))) = visitor else { return missing() };
    let text = match file.strip_suffix(".pgn") {
        Some("all") => all_games(&app.store, &visitor).await,
        Some(id) => match id.parse() {
            Ok(id) => match app.store.load(visitor.clone(), id).await {
                Ok(stored) => Contest::from_stored(&stored).map(|contest| contest.pgn()),
                Err(_) => return missing(),
            },
            Err(_) => return missing(),
        },
        None => return missing(),
    };
    let text = match text {
        Ok(text) if text.is_empty() => return missing(),
        Ok(text) => text,
        Err(refusal) => return plain(StatusCode::INTERNAL_SERVER_ERROR, &refusal.to_string()),
    };
    let mut response = typed("application/x-chess-pgn; charset=utf-8", text);
    response
        .headers_mut()
        .insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    response
}

/// Every game of a visitor that can be read; one that cannot does not keep the others from being
/// saved.
async fn all_games(store: &Store, visitor: &str) -> Result<String, Refusal> {
    let mut text = String::new();
    for id in store.ids(visitor.to_owned()).await? {
        let stored = store.load(visitor.to_owned(), id).await;
        match stored.and_then(|stored| Contest::from_stored(&stored)) {
            Ok(contest) => text += &contest.pgn(),
            Err(refusal) => tracing::warn!("game {id} is left out: {refusal}"),
        }
    }
    Ok(text)
}

/// Which run or match.
#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

async fn runs(State(app): State<Arc<App>>) -> Response {
    json(look(&app, |lab| Some(lab.list_runs())).await)
}

async fn run(State(app): State<Arc<App>>, Query(named): Query<Named>) -> Response {
    json(look(&app, move |lab| lab.run(&named.name)).await)
}

async fn matches(State(app): State<Arc<App>>) -> Response {
    json(look(&app, |lab| Some(lab.list_matches())).await)
}

async fn a_match(State(app): State<Arc<App>>, Query(named): Query<Named>) -> Response {
    json(look(&app, move |lab| lab.a_match(&named.name)).await)
}

async fn report(
    State(app): State<Arc<App>>,
    Path((kind, path)): Path<(String, String)>,
) -> Response {
    let name = path.strip_suffix("/report.html").unwrap_or_default().to_owned();
    let found = match kind.as_str() {
        "run" => look(&app, move |lab| lab.report(false, &name)).await,
        "match" => look(&app, move |lab| lab.report(true, &name)).await,
        _ => None,
    };
    match found {
        Some(page) => {
            let mut response = typed("text/html; charset=utf-8", page);
            let policy = HeaderValue::from_static(REPORT_POLICY);
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            response
        }
        None => plain(StatusCode::NOT_FOUND, "There is no such report."),
    }
}

/// Reads files on a thread that may wait for them.
async fn look<T: Send + 'static>(
    app: &App,
    read: impl FnOnce(&Lab) -> Option<T> + Send + 'static,
) -> Option<T> {
    let lab = app.lab.clone();
    task::spawn_blocking(move || read(&lab)).await.ok().flatten()
}

fn json(value: Option<Value>) -> Response {
    match value {
        Some(value) => typed("application/json", value.to_string()),
        None => plain(StatusCode::NOT_FOUND, "There is nothing of that name."),
    }
}

fn typed(kind: &'static str, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
