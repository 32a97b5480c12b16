//! The page's own files, embedded in the program. A path finds one of them or nothing; it never
//! reaches the disk. Browsers get them compressed.

use std::{borrow::Cow, collections::HashMap, io::Write, sync::OnceLock};

use axum::{
    body::Body,
    extract::Path,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};

use board::hex;
use flate2::{Compression, write::GzEncoder};

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
    let packed = accepts_gzip(headers).then(|| packed(path)).flatten();
    let suffix = if packed.is_some() { "-gzip" } else { "" };
    let tag = format!("\"{}{suffix}\"", hex(&file.metadata.sha256_hash()[..8]));
    let is_known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let body = packed.map_or(file.data, Cow::Borrowed);
    let mut response = Response::new(if is_known { Body::empty() } else { Body::from(body) });
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
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if packed.is_some() && !is_known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    // The browser asks for every file each time, so that files of two versions are never mixed.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|list| {
        list.split(',').any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            parts.next() == Some("gzip") && !matches!(parts.next(), Some("q=0" | "q=0.0"))
        })
    })
}

/// A file in gzip. All files are compressed when the first one is wanted.
fn packed(path: &str) -> Option<&'static [u8]> {
    static PACKED: OnceLock<HashMap<String, Vec<u8>>> = OnceLock::new();
    let packed = PACKED.get_or_init(|| {
        let pack = |path: Cow<'static, str>| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&Files::get(&path)?.data).ok()?;
            Some((path.into_owned(), encoder.finish().ok()?))
        };
        Files::iter().filter_map(pack).collect()
    });
    packed.get(path).map(Vec::as_slice)
}
