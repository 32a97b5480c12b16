//! A server for a test, with its own runtime and clock, and its clients: plain requests and web
//! sockets.

use std::{
    future::pending,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use nets::{Network, System};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::{Builder, Runtime},
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        http::{HeaderValue, StatusCode},
    },
};
use web::{LabFolders, ManualTime, Opponent, Options, Server, TimeSource, load_maias};

/// The longest real time that a test waits for a message or a response.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Options that tests change.
#[derive(Default)]
pub struct TestOptions {
    pub token: Option<&'static str>,
    pub names: Vec<String>,
    pub games: Option<PathBuf>,
    pub search_slots: Option<usize>,
    pub lab: LabFolders,
    pub maia: Option<PathBuf>,
}

impl TestOptions {
    /// Default options with a file of games.
    pub fn with_games(games: &Path) -> Self {
        Self { games: Some(games.to_owned()), ..Self::default() }
    }
}

/// A server on a free port. Dropping it ends all its tasks, as killing a process does.
pub struct TestServer {
    pub address: SocketAddr,
    /// The server's clock; it stands still unless the test moves it.
    pub time: ManualTime,
    end: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    runtime: Option<Runtime>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn network(name: &str) -> Network {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../networks").join(name);
    Network::load(&path).unwrap()
}

pub async fn serve(options: TestOptions) -> TestServer {
    let time = ManualTime::default();
    let mut networks = vec![
        (Opponent::System(System::BatchFirst), network("batch-first-fast.safetensors")),
        (Opponent::System(System::ConvChess), network("convchess.safetensors")),
        (Opponent::Large, network("batch-first.safetensors")),
    ];
    networks.extend(options.maia.into_iter().flat_map(|folder| load_maias(&folder).unwrap()));
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: options.token.map(str::to_owned),
        names: options.names,
        games: options.games,
        networks,
        engine: engine::EngineOptions::default(),
        search_slots: options.search_slots.unwrap_or(4),
        lab: options.lab,
        time: TimeSource::Manual(time.clone()),
    };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.spawn(Server::bind(options)).await.unwrap().unwrap();
    let address = server.address().unwrap();
    let (end, ended) = oneshot::channel();
    let running = runtime.spawn(async move {
        // A dropped test server does not shut down in order.
        server
            .run(async {
                if ended.await.is_err() {
                    pending().await
                }
            })
            .await;
    });
    TestServer { address, time, end: Some((end, running)), runtime: Some(runtime) }
}

/// A response to a plain request.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a cookie that the response sets.
    pub fn cookie(&self, name: &str) -> Option<String> {
        let start = self.head.find(&format!("{name}="))? + name.len() + 1;
        Some(self.head[start..].split(';').next().unwrap().to_owned())
    }
}

impl TestServer {
    /// Lets the server's clock run from now on, ten times as fast as real time.
    pub fn let_time_pass(&self) {
        let time = self.time.clone();
        self.runtime.as_ref().unwrap().spawn(async move {
            loop {
                time.advance(Duration::from_secs(1));
                sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Shuts the server down in order, as Ctrl-C does.
    pub async fn end(mut self) {
        let (end, running) = self.end.take().unwrap();
        end.send(()).unwrap();
        timeout(TIMEOUT, running).await.unwrap().unwrap();
    }

    /// Sends a request line and headers as given; adds `Host` if it is missing.
    pub async fn request(&self, line: &str, headers: &[(&str, &str)]) -> Answer {
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if headers.iter().all(|(name, _)| *name != "Host") {
            text += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), &[]).await
    }

    /// The id of a new visitor.
    pub async fn visitor(&self) -> String {
        self.get("/").await.cookie("batch-first-visitor").unwrap()
    }

    /// Opens a web socket with these headers.
    pub async fn socket(&self, headers: &[(&'static str, &str)]) -> Result<TestPage, StatusCode> {
        let mut request = format!("ws://{}/socket", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(TestPage { socket, latest: 0 }),
            Err(Error::Http(response)) => Err(response.status()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a page of a visitor and receives the server's hello.
    pub async fn page(&self, visitor: &str) -> TestPage {
        let cookie = format!("batch-first-visitor={visitor}");
        let mut page =
            self.socket(&[("origin", &self.origin()), ("cookie", &cookie)]).await.unwrap();
        page.expect("hello").await;
        page
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// An open page.
pub struct TestPage {
    socket: WebSocketStream<TcpStream>,
    /// Id of the newest game of this page.
    latest: i64,
}

impl TestPage {
    pub async fn send(&mut self, value: Value) {
        self.send_text(&value.to_string()).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        // The server may have closed the connection.
        let _ = self.socket.send(Message::text(text)).await;
    }

    /// The next message; `None` when the server has closed the connection.
    pub async fn receive(&mut self) -> Option<Value> {
        // Pings do not extend the time.
        timeout(TIMEOUT, async {
            loop {
                match self.socket.next().await? {
                    Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                    Ok(Message::Close(_)) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        })
        .await
        .unwrap()
    }

    /// Waits until the server closes the connection: close code and reason.
    pub async fn close_reason(&mut self) -> Option<(u16, String)> {
        timeout(TIMEOUT, async {
            loop {
                if let Message::Close(frame) = self.socket.next().await?.ok()? {
                    return frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
                }
            }
        })
        .await
        .unwrap()
    }

    /// The next message of a type; panics on an error before it.
    pub async fn expect(&mut self, kind: &str) -> Value {
        self.until(kind, |_| true).await
    }

    /// The next message of a type that fulfils a condition.
    pub async fn until(&mut self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.receive().await.expect("an open socket");
            assert!(kind == "error" || message["type"] != "error", "{message}");
            if message["type"] == kind && holds(&message) {
                return message;
            }
        }
    }

    /// The error text for a message that the server refuses.
    pub async fn error(&mut self, command: Value) -> String {
        self.send(command).await;
        self.expect("error").await["error"].as_str().unwrap().to_owned()
    }

    /// Starts a game against 20 evaluations a move; `changes` overrides fields of the request.
    pub async fn start_game(&mut self, changes: Value) -> Value {
        self.send(new_game(changes)).await;
        // States of the game before may still arrive.
        let before = self.latest;
        let state = self.until("game", |state| state["id"].as_i64() > Some(before)).await;
        self.latest = state["id"].as_i64().unwrap();
        state
    }
}

/// A request for a game against 20 evaluations a move, with other values for some fields.
pub fn new_game(changes: Value) -> Value {
    let request = json!({ "type": "new_game", "system": "batch-first", "side": "white",
        "level": { "kind": "nodes", "value": 20 } });
    with_changes(request, changes)
}

/// A message with other values for some fields.
pub fn with_changes(mut message: Value, changes: Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}
