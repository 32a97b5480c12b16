//! What was measured of networks on this machine, in JSON files of the user's cache folder: a later
//! start reads it instead of measuring again.

use std::path::{Path, PathBuf};

use board::write_whole;
use etcetera::BaseStrategy;
use serde_json::{Map, Value};

/// The path of a file with this name; `None` if the user has no folder for caches.
pub(crate) fn file(name: &str) -> Option<PathBuf> {
    let folders = etcetera::choose_base_strategy().ok()?;
    Some(folders.cache_dir().join("batch-first").join(name))
}

/// The entries of a file; none, with a warning, if the file is damaged.
pub(crate) fn read(path: &Path) -> Map<String, Value> {
    let Ok(text) = std::fs::read_to_string(path) else { return Map::new() };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        tracing::warn!("{}: {error}; what it held of networks is measured again", path.display());
        Map::new()
    })
}

/// Writes the file, or warns: the next start measures again.
pub(crate) fn write(path: &Path, entries: &Map<String, Value>) {
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
        let text = serde_json::to_string_pretty(entries).unwrap_or_default();
        write_whole(path, text.as_bytes())
    });
    if let Err(error) = written {
        tracing::debug!("{}: {error}; each start measures networks again", path.display());
    }
}
