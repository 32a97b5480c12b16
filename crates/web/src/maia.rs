//! The Maia networks of a folder: opponents that play like people, one a rating.

use std::{fs, io, path::Path};

use engine::EngineError;
use nets::Network;
use search::ConvChess;

use crate::{Opponent, WebError};

/// Reads the files `maia-NNNN.pb.gz` and `maia-NNNN.pb` of a folder, the lowest rating first.
///
/// # Errors
/// The folder or one of these files cannot be read, or a network has no policy.
pub fn load_maias(folder: &Path) -> Result<Vec<(Opponent, Network)>, WebError> {
    let failed = |source| WebError::MaiaFolder { path: folder.to_owned(), source };
    let entries: io::Result<Vec<_>> = fs::read_dir(folder).map_err(failed)?.collect();
    let entries = entries.map_err(failed)?;
    let mut files: Vec<_> = entries
        .into_iter()
        .filter_map(|entry| Some((rating_of(entry.file_name().to_str()?)?, entry.path())))
        .collect();
    files.sort();
    // Of two files of a rating the first by name is taken.
    files.dedup_by_key(|(rating, _)| *rating);
    let mut maias = Vec::new();
    for (rating, path) in files {
        maias.push((Opponent::Maia(rating), load(&path).map_err(WebError::MaiaFile)?));
    }
    Ok(maias)
}

fn load(path: &Path) -> Result<Network, EngineError> {
    let network = Network::load(path)?;
    ConvChess::check(&network)?;
    Ok(network)
}

/// The rating in the name of a Maia's file, as in `maia-1500.pb.gz`.
fn rating_of(file: &str) -> Option<u32> {
    let file = file.to_lowercase();
    let name = file.strip_suffix(".gz").unwrap_or(&file).strip_suffix(".pb")?;
    match name.parse() {
        Ok(Opponent::Maia(rating)) => Some(rating),
        _ => None,
    }
}
