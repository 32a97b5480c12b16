//! Connections: how many there are at once, and how long each may take to say what it wants.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    time::{sleep, timeout},
};

/// Connections at once, besides those of open pages; more wait until one ends.
const MOST: usize = 256;

/// How long the head of a request may take, or the next one be awaited; and all that is asked for
/// on one connection.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);

/// Bytes of the head of a request.
const LARGEST_HEAD: usize = 32 * 1024;

/// Answers whoever connects, for ever.
pub async fn serve(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(MOST));
    let service = TowerToHyperService::new(router);
    // The places are never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Perhaps this process may open no more files: some will be closed.
                tracing::warn!("a connection was lost: {error}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = service.clone();
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .max_header_size(LARGEST_HEAD)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            // Browsers break off as they like.
            let _ = timeout(LONGEST, connection).await;
            drop(place);
        });
    }
}
