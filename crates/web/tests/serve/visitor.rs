//! A server of its own for a test, and browsers to visit it: plain requests and web sockets,
//! nothing in between.

use std::{
    future::pending,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use eval::{Devices, cpu::CpuOptions};
use futures_util::{SinkExt, StreamExt};
use nets::{Network, System};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::{Builder, Runtime},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        http::{HeaderValue, StatusCode},
    },
};
use web::{Lab, Options, Server};

/// Longer than anything takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a test wants to be different.
#[derive(Default)]
pub struct Wishes {
    pub token: Option<&'static str>,
    pub names: Vec<String>,
    pub games: Option<PathBuf>,
    pub places: Option<usize>,
    pub lab: Lab,
}

/// A server on a free port, with a runtime of its own: when it is dropped nothing of it goes on,
/// open games included, as when a process is killed.
pub struct House {
    pub address: SocketAddr,
    end: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    runtime: Option<Runtime>,
}

impl Drop for House {
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

pub async fn serve(wishes: Wishes) -> House {
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        token: wishes.token.map(str::to_owned),
        names: wishes.names,
        games: wishes.games,
        networks: vec![
            (System::BatchFirst, network("batch-first.safetensors")),
            (System::ConvChess, network("convchess.safetensors")),
        ],
        devices: Devices::default(),
        cpu: CpuOptions::default(),
        places: wishes.places.unwrap_or(4),
        lab: wishes.lab,
    };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.spawn(Server::bind(options)).await.unwrap().unwrap();
    let address = server.address().unwrap();
    let (end, ended) = oneshot::channel();
    let running = runtime.spawn(async move {
        // A house that is dropped does not end in good order.
        server
            .run(async {
                if ended.await.is_err() {
                    pending().await
                }
            })
            .await;
    });
    House { address, end: Some((end, running)), runtime: Some(runtime) }
}

/// An answer to a plain request.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a cookie that it sets.
    pub fn cookie(&self, name: &str) -> Option<String> {
        let start = self.head.find(&format!("{name}="))? + name.len() + 1;
        Some(self.head[start..].split(';').next().unwrap().to_owned())
    }
}

impl House {
    /// Ends the server in good order, as Ctrl-C does.
    pub async fn end(mut self) {
        let (end, running) = self.end.take().unwrap();
        end.send(()).unwrap();
        timeout(PATIENCE, running).await.unwrap().unwrap();
    }

    /// Sends a request as it is written; `Host` is added where the headers have none.
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
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request(&format!("GET {path}"), &[]).await
    }

    /// A new visitor's cookie.
    pub async fn visitor(&self) -> String {
        self.get("/").await.cookie("batch-first-visitor").unwrap()
    }

    /// Opens a socket with these headers.
    pub async fn socket(&self, headers: &[(&'static str, &str)]) -> Result<Page, StatusCode> {
        let mut request = format!("ws://{}/socket", self.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Page { socket, latest: 0 }),
            Err(Error::Http(response)) => Err(response.status()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens the page of a visitor, past the greeting.
    pub async fn page(&self, visitor: &str) -> Page {
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
pub struct Page {
    socket: WebSocketStream<TcpStream>,
    /// Number of the game that was begun last.
    latest: i64,
}

impl Page {
    pub async fn say(&mut self, value: Value) {
        self.text(&value.to_string()).await;
    }

    pub async fn text(&mut self, text: &str) {
        // A server that has had enough may close in the middle.
        let _ = self.socket.send(Message::text(text)).await;
    }

    /// The next message; none when the server has closed.
    pub async fn hear(&mut self) -> Option<Value> {
        // Pings do not make anybody wait longer.
        timeout(PATIENCE, async {
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

    /// Why the server has closed, once it has: a code and words.
    pub async fn farewell(&mut self) -> Option<(u16, String)> {
        timeout(PATIENCE, async {
            loop {
                if let Message::Close(frame) = self.socket.next().await?.ok()? {
                    return frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
                }
            }
        })
        .await
        .unwrap()
    }

    /// The next message of a type; refusals on the way are a failure.
    pub async fn expect(&mut self, kind: &str) -> Value {
        self.until(kind, |_| true).await
    }

    /// The next message of a type for which something holds.
    pub async fn until(&mut self, kind: &str, holds: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.hear().await.expect("an open socket");
            assert!(kind == "error" || message["type"] != "error", "{message}");
            if message["type"] == kind && holds(&message) {
                return message;
            }
        }
    }

    /// The words of the refusal of a wish.
    pub async fn refusal(&mut self, wish: Value) -> String {
        self.say(wish).await;
        self.expect("error").await["error"].as_str().unwrap().to_owned()
    }

    /// Begins a game against 20 evaluations a move; `changes` overrides.
    pub async fn begin(&mut self, changes: Value) -> Value {
        self.say(proposal(changes)).await;
        // The game before may still have something to say.
        let before = self.latest;
        let state = self.until("game", |state| state["id"].as_i64() > Some(before)).await;
        self.latest = state["id"].as_i64().unwrap();
        state
    }
}

pub fn proposal(changes: Value) -> Value {
    let mut proposal = json!({ "type": "new_game", "system": "batch-first", "side": "white",
        "level": { "kind": "nodes", "value": 20 } });
    for (name, value) in changes.as_object().unwrap() {
        proposal[name] = value.clone();
    }
    proposal
}
