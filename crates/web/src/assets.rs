//! The page's own files, embedded in the program. A path finds one of them or nothing; it never
//! reaches the disk. They are sent compressed to browsers that take gzip.

use std::{collections::HashMap, io::Write, sync::LazyLock};

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

/// The files compressed with gzip, by their paths; compressed once, before the first request.
static COMPRESSED: LazyLock<HashMap<String, Vec<u8>>> = LazyLock::new(|| {
    let files = Files::iter().filter_map(|path| Some((path.to_string(), Files::get(&path)?.data)));
    files.filter_map(|(path, data)| Some((path, compress(&data)?))).collect()
});

/// Compresses the files, so that the first visitor does not wait for it.
pub fn prepare() {
    LazyLock::force(&COMPRESSED);
}

/// The data compressed with gzip; `None` where that does not make it smaller.
fn compress(data: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).ok()?;
    encoder.finish().ok().filter(|compressed| compressed.len() < data.len())
}

/// Whether a browser takes gzip. One that names it with weight 0 does not.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let mut codings = values.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse::<f32>().ok());
        is_gzip && weight != Some(0.0)
    })
}

fn file(path: &str, headers: &HeaderMap) -> Response {
    let Some(file) = Files::get(path) else {
        return plain_text(StatusCode::NOT_FOUND, "There is no such file.");
    };
    let compressed = COMPRESSED.get(path).filter(|_| takes_gzip(headers));
    // The two forms of a file have two tags.
    let form = if compressed.is_some() { "-gzip" } else { "" };
    let tag = format!("\"{}{form}\"", hex(&file.metadata.sha256_hash()[..8]));
    let is_known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = Response::new(match compressed {
        _ if is_known => Body::empty(),
        Some(compressed) => Body::from(compressed.as_slice()),
        None => Body::from(file.data),
    });
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
    if compressed.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    // The browser asks for every file each time, so that files of two versions are never mixed.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
