//! `serve` on the command line: access, and refused flags.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

/// A server that ends with the test, its link, and the folder of its games.
struct Served {
    child: Child,
    link: String,
    _games: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(arguments: &[&str]) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_batch-first"))
        .arg("serve")
        .arg("--games")
        .arg(folder.path().join("games.sqlite"))
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut link = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut link).unwrap();
    Served { child, link: link.trim().to_owned(), _games: folder }
}

/// The status line of an answer.
fn get(port: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

#[test]
fn on_this_machine_no_token_is_needed() {
    let served = serve(&["--listen", "127.0.0.1:0"]);
    let port = served
        .link
        .strip_prefix("http://127.0.0.1:")
        .and_then(|rest| rest.strip_suffix('/'))
        .unwrap();
    assert!(get(port, "/").contains("200"));
}

#[test]
fn beyond_this_machine_there_is_always_a_token() {
    let served = serve(&["--listen", "0.0.0.0:0"]);
    let (port, token) = served
        .link
        .strip_prefix("http://0.0.0.0:")
        .and_then(|rest| rest.split_once("/?token="))
        .unwrap();
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
    assert!(get(port, "/").contains("401"));
    assert!(get(port, "/?token=00000000000000000000000000000000").contains("401"));
    assert!(get(port, &format!("/?token={token}")).contains("303"));
}

#[test]
fn behind_a_proxy_there_is_a_token_too() {
    let served = serve(&["--listen", "127.0.0.1:0", "--name", "chess.example.org"]);
    let (port, token) = served
        .link
        .strip_prefix("http://127.0.0.1:")
        .and_then(|rest| rest.split_once("/?token="))
        .unwrap();
    assert!(get(port, "/").contains("401"));
    assert!(get(port, &format!("/?token={token}")).contains("303"));
}

#[test]
fn bad_arguments_are_a_sentence_and_exit_code_2() {
    for (arguments, words) in [
        (["--token", "short"], "--token needs at least 8"),
        (["--token", "has a space in it"], "--token needs at least 8"),
        (["--listen", "somewhere"], "--listen"),
        (["--runs", "/no/such/folder"], "is not a folder"),
        (["--net", "/no/such/file"], "/no/such/file"),
        (["--maia", "/no/such/folder"], "/no/such/folder"),
        (["--searches", "0"], "--searches"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_batch-first"))
            .arg("serve")
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text.starts_with("error: ") && text.lines().count() == 1 && text.contains(words),
            "{text}"
        );
    }
}
