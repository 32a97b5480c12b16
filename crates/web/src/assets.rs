//! The page's own files, embedded in the program. A path finds one of them or nothing; it never
//! reaches the disk.

use axum::{
    body::Body,
    extract::Path,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};

use board::hex;

use crate::access::plain_text;

#[derive(rust_embed::Embed)]
#[folder = "page"]
struct Files;

/// The page itself.
pub async fn front(headers: HeaderMap) -> Response {
    file("index.html", &headers)
}

/// A file of the page.
pub async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    file(&path, &headers)
}

fn file(path: &str, headers: &HeaderMap) -> Response {
    let Some(file) = Files::get(path) else {
        return plain_text(StatusCode::NOT_FOUND, "There is no such file.");
    };
    let tag = format!("\"{}\"", hex(&file.metadata.sha256_hash()[..8]));
    let is_known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(file.data) });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let kind = match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // The browser asks for every file each time, so that files of two versions are never mixed.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
