//! Who is not let in, and what nobody may do: each refusal on a real connection.

use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::visitor::{House, Wishes, serve};

#[tokio::test(flavor = "multi_thread")]
async fn foreign_host_names_are_refused() {
    let wishes = Wishes { names: vec!["chess.example".to_owned()], ..Wishes::default() };
    let house = serve(wishes).await;
    let port = house.address.port();
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
        "localhost".to_owned(),
        format!("chess.example:{port}"),
    ] {
        let answer = house.request("GET /", &[("Host", &host)]).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    // DNS rebinding: a hostile name that leads here.
    for host in [
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("chess.example.evil.example:{port}"),
        String::new(),
    ] {
        for path in ["/", "/page/app.js", "/socket", "/games/1.pgn", "/api/runs"] {
            let answer = house.request(&format!("GET {path}"), &[("Host", &host)]).await;
            assert_eq!(answer.status, 421, "{host} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_are_refused() {
    let house = serve(Wishes::default()).await;
    let cookie = format!("batch-first-visitor={}", house.visitor().await);
    for origin in [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        format!("http://{}.evil.example", house.address),
        // Another program on this machine is another site, too.
        format!("http://127.0.0.1:{}", house.address.port() ^ 1),
        format!("http://localhost:{}", house.address.port()),
    ] {
        let refused = house.socket(&[("origin", &origin), ("cookie", &cookie)]).await.err();
        assert_eq!(refused.map(|status| status.as_u16()), Some(403), "{origin}");
        let answer = house.request("GET /api/runs", &[("Origin", &origin)]).await;
        assert_eq!(answer.status, 403, "{origin}");
    }
    let refused = house.socket(&[("cookie", &cookie)]).await.err();
    assert_eq!(refused.map(|status| status.as_u16()), Some(403), "no origin");
    let refused = house.socket(&[("origin", &house.origin())]).await.err();
    assert_eq!(refused.map(|status| status.as_u16()), Some(403), "no visitor");
    for path in ["/games/all.pgn", "/api/runs", "/page/app.js"] {
        let answer =
            house.request(&format!("GET {path}"), &[("Sec-Fetch-Site", "cross-site")]).await;
        assert_eq!(answer.status, 403, "{path}");
    }
    // A link from elsewhere to the page itself is fine.
    assert_eq!(house.request("GET /", &[("Sec-Fetch-Site", "cross-site")]).await.status, 200);
    // Who comes by it stays who he is, for another 400 days: a fresh cookie would cost him his
    // games.
    let answer =
        house.request("GET /", &[("Sec-Fetch-Site", "cross-site"), ("Cookie", &cookie)]).await;
    let given =
        answer.cookie("batch-first-visitor").map(|value| format!("batch-first-visitor={value}"));
    assert_eq!((answer.status, given), (200, Some(cookie.clone())));
    assert!(house.socket(&[("origin", &house.origin()), ("cookie", &cookie)]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_get_is_answered_and_nothing_may_be_framed() {
    let house = serve(Wishes::default()).await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        for path in ["/", "/socket", "/api/runs"] {
            assert_eq!(
                house.request(&format!("{method} {path}"), &[]).await.status,
                405,
                "{method} {path}"
            );
        }
    }
    let head = house.get("/").await.head.to_lowercase();
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
async fn without_the_token_nothing_is_shown() {
    let house = serve(Wishes { token: Some("right-token"), ..Wishes::default() }).await;
    let visitor = format!("batch-first-visitor={}", "0".repeat(32));
    for path in [
        "/",
        "/?token=wrong-token",
        "/?token=",
        "/?token=right-toke",
        "/page/app.js",
        "/games/1.pgn",
    ] {
        assert_eq!(house.get(path).await.status, 401, "{path}");
    }
    for cookie in [visitor.clone(), format!("{visitor}; batch-first-token=wrong")] {
        let refused = house.socket(&[("origin", &house.origin()), ("cookie", &cookie)]).await.err();
        assert_eq!(refused.map(|status| status.as_u16()), Some(401));
    }
    let answer = house.get("/?token=right-token").await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.cookie("batch-first-token").as_deref(), Some("right-token"));
    let cookie = format!("{visitor}; batch-first-token=right-token");
    assert_eq!(house.request("GET /", &[("Cookie", &cookie)]).await.status, 200);
    assert!(house.socket(&[("origin", &house.origin()), ("cookie", &cookie)]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_to_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("run")).unwrap();
    std::fs::write(folder.path().join("run/metrics.jsonl"), "{}\n").unwrap();
    std::fs::write(folder.path().join("run/report.html"), "the report").unwrap();
    std::fs::write(folder.path().join("secret.html"), "secret").unwrap();
    let mut wishes = Wishes::default();
    wishes.lab.runs = Some(folder.path().to_owned());
    let house = serve(wishes).await;
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
        let answer = house.get(path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
    }
    // However its path is written.
    for path in ["run/report.html", "run/report%2ehtml", "r%75n%2freport.%68tml"] {
        let report = house.get(&format!("/reports/run/{path}")).await;
        assert_eq!((report.status, report.body.as_str()), (200, "the report"), "{path}");
        let head = report.head.to_lowercase();
        let policies = head.matches("content-security-policy:").count();
        assert_eq!(
            (policies, head.contains("content-security-policy: sandbox;")),
            (1, true),
            "{path}: {head}"
        );
    }
    assert_eq!(house.get("/api/run?name=run").await.status, 200);
    assert_eq!(house.get("/page/vendor/chessground/chessground.min.js").await.status, 200);
}

async fn greet(house: &House, cookie: &str) -> Option<u16> {
    let opened = house.socket(&[("origin", &house.origin()), ("cookie", cookie)]).await;
    opened.err().map(|status| status.as_u16())
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_and_giants_are_cut_off() {
    let house = serve(Wishes::default()).await;
    let visitor = house.visitor().await;
    // A message beyond 64 KiB.
    let mut page = house.page(&visitor).await;
    page.say(json!({ "type": "new_game", "pgn": "x".repeat(70_000) })).await;
    assert_eq!(page.hear().await, None);
    // Nonsense is answered, and does no harm.
    let mut page = house.page(&visitor).await;
    for text in
        ["", "{", "[]", "null", "{\"type\":\"format_disk\"}", "{\"type\":\"open\",\"game\":1e99}"]
    {
        page.text(text).await;
        page.expect("error").await;
    }
    page.text(&"[".repeat(60_000)).await;
    page.expect("error").await;
    // As many messages as a quick hand sends are answered; a flood ends the connection.
    for _ in 0..30 {
        page.say(json!({ "type": "games" })).await;
        page.expect("games").await;
    }
    for _ in 0..400 {
        page.say(json!({ "type": "games" })).await;
    }
    let mut answers = 0;
    while page.hear().await.is_some() {
        answers += 1;
    }
    assert!(answers < 400, "{answers}");
    // More pages than anybody needs; others still get in.
    let cookie = format!("batch-first-visitor={visitor}");
    let mut pages = Vec::new();
    for _ in 0..8 {
        pages.push(house.page(&visitor).await);
    }
    // Browsers tell a page why a connection was closed, not why it was not opened.
    let mut ninth =
        house.socket(&[("origin", &house.origin()), ("cookie", &cookie)]).await.unwrap();
    let (code, reason) = ninth.farewell().await.unwrap();
    assert_eq!(code, 1013);
    assert!(reason.contains("too many pages"), "{reason}");
    assert_eq!(
        greet(&house, &format!("batch-first-visitor={}", house.visitor().await)).await,
        None
    );
    drop(pages);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_ask_for_nothing_make_room() {
    let house = serve(Wishes::default()).await;
    let mut idle = Vec::new();
    for _ in 0..256 {
        idle.push(TcpStream::connect(house.address).await.unwrap());
    }
    // One of them says what it wants letter by letter.
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
        timeout(Duration::from_secs(2), house.get("/")).await.is_err(),
        "there is room for all"
    );
    assert_eq!(house.get("/").await.status, 200);
    timeout(Duration::from_secs(120), slow).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_a_sentence() {
    let house = serve(Wishes::default()).await;
    let address: SocketAddr = house.address;
    let options = web::Options {
        listen: address,
        token: None,
        names: Vec::new(),
        games: None,
        networks: Vec::new(),
        devices: eval::Devices::default(),
        cpu: eval::cpu::CpuOptions::default(),
        places: 1,
        lab: web::Lab::default(),
    };
    let error = web::Server::bind(options).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}")), "{error}");
}
