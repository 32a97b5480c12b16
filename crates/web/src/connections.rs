//! TCP connections: how many there are at once, and how long a request may take to arrive.

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{net::TcpListener, sync::Semaphore, time::sleep};

use crate::TimeSource;

/// The most connections at once, open pages not counted; more wait until one ends.
const MAX_CONNECTIONS: usize = 256;

/// The longest time until the head of a request is complete, and between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time that a connection may be open.
const MAX_LIFETIME: Duration = Duration::from_secs(600);

/// The largest head of a request, in bytes.
const MAX_HEAD: usize = 32 * 1024;

/// Accepts and serves connections for ever.
pub async fn serve(listener: TcpListener, router: Router, time: TimeSource) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let service = TowerToHyperService::new(router);
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The process may have too many open files; some will be closed.
                tracing::warn!("a connection was lost: {error}");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = service.clone();
        let time = time.clone();
        let end = time.now() + MAX_LIFETIME;
        tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(time.clone())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_header_size(MAX_HEAD)
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            tokio::select! {
                // Browsers may close a connection at any time: its error is ignored.
                _ = connection => {}
                () = time.sleep_until(end) => {}
            }
            drop(permit);
        });
    }
}
