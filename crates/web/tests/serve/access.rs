//! Requests that are refused, each on a real connection.

use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::test_server::{TestOptions, TestServer, serve};

#[tokio::test(flavor = "multi_thread")]
async fn foreign_host_names_are_refused() {
    let options = TestOptions { names: vec!["chess.example".to_owned()], ..TestOptions::default() };
    let server = serve(options).await;
    let port = server.address.port();
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
        "localhost".to_owned(),
        format!("chess.example:{port}"),
    ] {
        let answer = server.request("GET /", &[("Host", &host)]).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    // DNS rebinding: a hostile name that resolves to this machine.
    for host in [
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("chess.example.evil.example:{port}"),
        String::new(),
    ] {
        for path in ["/", "/page/app.js", "/socket", "/games/1.pgn", "/api/runs"] {
            let answer = server.request(&format!("GET {path}"), &[("Host", &host)]).await;
            assert_eq!(answer.status, 421, "{host} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_are_refused() {
    let server = serve(TestOptions::default()).await;
    let cookie = format!("batch-first-visitor={}", server.visitor().await);
    for origin in [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        format!("http://{}.evil.example", server.address),
        // Another server on this machine is another site.
        format!("http://127.0.0.1:{}", server.address.port() ^ 1),
        format!("http://localhost:{}", server.address.port()),
    ] {
        let error = server.socket(&[("origin", &origin), ("cookie", &cookie)]).await.err();
        assert_eq!(error.map(|status| status.as_u16()), Some(403), "{origin}");
        let answer = server.request("GET /api/runs", &[("Origin", &origin)]).await;
        assert_eq!(answer.status, 403, "{origin}");
    }
    let error = server.socket(&[("cookie", &cookie)]).await.err();
    assert_eq!(error.map(|status| status.as_u16()), Some(403), "no origin");
    let error = server.socket(&[("origin", &server.origin())]).await.err();
    assert_eq!(error.map(|status| status.as_u16()), Some(403), "no visitor");
    for path in ["/games/all.pgn", "/api/runs", "/page/app.js"] {
        let answer =
            server.request(&format!("GET {path}"), &[("Sec-Fetch-Site", "cross-site")]).await;
        assert_eq!(answer.status, 403, "{path}");
    }
    // A link from another site to the page itself works.
    assert_eq!(server.request("GET /", &[("Sec-Fetch-Site", "cross-site")]).await.status, 200);
    // A visitor who follows such a link keeps the id: a new one would cost the visitor's games.
    let answer =
        server.request("GET /", &[("Sec-Fetch-Site", "cross-site"), ("Cookie", &cookie)]).await;
    let given =
        answer.cookie("batch-first-visitor").map(|value| format!("batch-first-visitor={value}"));
    assert_eq!((answer.status, given), (200, Some(cookie.clone())));
    assert!(server.socket(&[("origin", &server.origin()), ("cookie", &cookie)]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_are_refused_and_framing_is_forbidden() {
    let server = serve(TestOptions::default()).await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        for path in ["/", "/socket", "/api/runs"] {
            assert_eq!(
                server.request(&format!("{method} {path}"), &[]).await.status,
                405,
                "{method} {path}"
            );
        }
    }
    let head = server.get("/").await.head.to_lowercase();
    for part in [
        "x-frame-options: deny",
        "frame-ancestors 'none'",
        "default-src 'none'",
        "script-src 'self'",
        "x-content-type-options: nosniff",
        "samesite=lax",
        "httponly",
    ] {
        assert!(head.contains(part), "{part}: {head}");
    }
    assert!(!head.contains("access-control"));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_the_token_are_refused() {
    let server = serve(TestOptions { token: Some("right-token"), ..TestOptions::default() }).await;
    let visitor = format!("batch-first-visitor={}", "0".repeat(32));
    for path in [
        "/",
        "/?token=wrong-token",
        "/?token=",
        "/?token=right-toke",
        "/page/app.js",
        "/games/1.pgn",
    ] {
        assert_eq!(server.get(path).await.status, 401, "{path}");
    }
    for cookie in [visitor.clone(), format!("{visitor}; batch-first-token=wrong")] {
        let error = server.socket(&[("origin", &server.origin()), ("cookie", &cookie)]).await.err();
        assert_eq!(error.map(|status| status.as_u16()), Some(401));
    }
    let answer = server.get("/?token=right-token").await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.cookie("batch-first-token").as_deref(), Some("right-token"));
    let cookie = format!("{visitor}; batch-first-token=right-token");
    assert_eq!(server.request("GET /", &[("Cookie", &cookie)]).await.status, 200);
    assert!(server.socket(&[("origin", &server.origin()), ("cookie", &cookie)]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_outside_the_listed_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("run")).unwrap();
    std::fs::write(folder.path().join("run/metrics.jsonl"), "{}\n").unwrap();
    std::fs::write(folder.path().join("run/report.html"), "the report").unwrap();
    std::fs::write(folder.path().join("secret.html"), "secret").unwrap();
    let mut options = TestOptions::default();
    options.lab.runs = Some(folder.path().to_owned());
    let server = serve(options).await;
    for path in [
        "/page/../Cargo.toml",
        "/page/..%2fCargo.toml",
        "/page/%2e%2e/Cargo.toml",
        "/page/....//Cargo.toml",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/page/",
        "/page/vendor",
        "/../../etc/passwd",
        "/reports/run/../secret.html",
        "/reports/run/%2e%2e/report.html",
        "/reports/run/run/../report.html",
        "/reports/run/run/metrics.jsonl",
        "/reports/run/run%2f..%2f..%2fsecret.html",
        "/reports/match/run/report.html",
        "/reports/other/run/report.html",
        "/api/run?name=..",
        "/api/run?name=%2fetc",
        "/api/run?name=run%2f..%2frun",
        "/games/..%2f1.pgn",
        "/games/1%00.pgn",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
    }
    // Reports are served with their own content policy, however the path is escaped.
    for path in ["run/report.html", "run/report%2ehtml", "r%75n%2freport.%68tml"] {
        let report = server.get(&format!("/reports/run/{path}")).await;
        assert_eq!((report.status, report.body.as_str()), (200, "the report"), "{path}");
        let head = report.head.to_lowercase();
        let policies = head.matches("content-security-policy:").count();
        assert_eq!(
            (policies, head.contains("content-security-policy: sandbox;")),
            (1, true),
            "{path}: {head}"
        );
    }
    assert_eq!(server.get("/api/run?name=run").await.status, 200);
    assert_eq!(server.get("/page/vendor/chessground/chessground.min.js").await.status, 200);
}

/// The status with which a web socket is refused; `None` if it is opened.
async fn socket_refusal(server: &TestServer, cookie: &str) -> Option<u16> {
    let opened = server.socket(&[("origin", &server.origin()), ("cookie", cookie)]).await;
    opened.err().map(|status| status.as_u16())
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_and_large_messages_close_the_connection() {
    let server = serve(TestOptions::default()).await;
    let visitor = server.visitor().await;
    // A message of more than 2,112 KiB.
    let mut page = server.page(&visitor).await;
    page.send(json!({ "type": "new_game", "pgn": "x".repeat(2_200_000) })).await;
    assert_eq!(page.receive().await, None);
    // An invalid message is answered with an error.
    let mut page = server.page(&visitor).await;
    for text in
        ["", "{", "[]", "null", "{\"type\":\"format_disk\"}", "{\"type\":\"open\",\"game\":1e99}"]
    {
        page.send_text(text).await;
        page.expect("error").await;
    }
    page.send_text(&"[".repeat(60_000)).await;
    page.expect("error").await;
    // 30 messages at once are answered; a flood closes the connection.
    for _ in 0..30 {
        page.send(json!({ "type": "games" })).await;
        page.expect("games").await;
    }
    for _ in 0..400 {
        page.send(json!({ "type": "games" })).await;
    }
    let mut answers = 0;
    while page.receive().await.is_some() {
        answers += 1;
    }
    assert!(answers < 400, "{answers}");
    // A visitor has at most eight pages; other visitors are still served.
    let cookie = format!("batch-first-visitor={visitor}");
    let mut pages = Vec::new();
    for _ in 0..8 {
        pages.push(server.page(&visitor).await);
    }
    // Browsers tell a page why a web socket was closed, but not why it was not opened.
    let mut ninth =
        server.socket(&[("origin", &server.origin()), ("cookie", &cookie)]).await.unwrap();
    let (code, reason) = ninth.close_reason().await.unwrap();
    assert_eq!(code, 1013);
    assert!(reason.contains("too many pages"), "{reason}");
    assert_eq!(
        socket_refusal(&server, &format!("batch-first-visitor={}", server.visitor().await)).await,
        None
    );
    drop(pages);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_and_slow_connections_time_out() {
    let server = serve(TestOptions::default()).await;
    let mut idle = Vec::new();
    for _ in 0..256 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    // One of them sends the head of its request byte by byte.
    let mut slow = idle.pop().unwrap();
    let slow = tokio::spawn(async move {
        for byte in b"GET / HTTP/1.1\r\nX-Slow: ".iter().chain(std::iter::repeat(&b'x')) {
            if slow.write_all(&[*byte]).await.is_err() {
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
    });
    assert!(
        timeout(Duration::from_secs(2), server.get("/")).await.is_err(),
        "more than 256 connections are served"
    );
    // Time stands still until here: the connections time out only now.
    server.let_time_pass();
    assert_eq!(server.get("/").await.status, 200);
    timeout(Duration::from_secs(120), slow).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_reported() {
    let server = serve(TestOptions::default()).await;
    let address: SocketAddr = server.address;
    let options = web::Options {
        listen: address,
        token: None,
        names: Vec::new(),
        games: None,
        networks: Vec::new(),
        engine: engine::EngineOptions::default(),
        search_slots: 1,
        lab: web::LabFolders::default(),
        time: web::TimeSource::System,
    };
    let error = web::Server::bind(options).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_sent_compressed_to_browsers_that_take_it() {
    let server = serve(TestOptions::default()).await;
    let style = "/page/vendor/chessground/chessground.cburnett.css";
    let get = async |path: &str, headers: &[(&str, &str)]| {
        let answer = server.request(&format!("GET {path}"), headers).await;
        let header = |name: &str| {
            let lines = answer.head.lines();
            lines
                .filter_map(|line| line.split_once(": "))
                .find(|(found, _)| *found == name)
                .map(|(_, value)| value.to_owned())
        };
        let (coding, tag) = (header("content-encoding"), header("etag").unwrap());
        assert_eq!(header("vary").as_deref(), Some("accept-encoding"), "{path}");
        (
            answer.status,
            coding,
            tag,
            header("content-length").map_or(0, |size| size.parse::<usize>().unwrap()),
        )
    };
    for path in ["/", "/page/style.css", "/page/app.js", style] {
        let (_, coding, plain_tag, plain_size) = get(path, &[]).await;
        assert_eq!(coding, None, "{path}");
        let accepts = ("Accept-Encoding", "br;q=1.0, gzip, deflate");
        let (status, coding, tag, size) = get(path, &[accepts]).await;
        assert_eq!((status, coding.as_deref()), (200, Some("gzip")), "{path}");
        assert!(size * 3 < plain_size * 2, "{path}: {size} of {plain_size} bytes");
        assert_ne!(tag, plain_tag, "{path}");
        let (status, ..) = get(path, &[accepts, ("If-None-Match", &tag)]).await;
        assert_eq!(status, 304, "{path}");
        let (_, coding, ..) = get(path, &[("Accept-Encoding", "gzip;q=0, identity")]).await;
        assert_eq!(coding, None, "{path}");
    }
}
