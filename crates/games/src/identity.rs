//! Tells whether the inputs of a resumed run are still the same, by their content: a name says
//! little about a file.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use board::hex;
use sha2::{Digest, Sha256};

use crate::{FileError, is_stream};

/// Bytes at either end of a file that are looked at.
const END_BYTES: u64 = 1 << 16;

/// Length, beginning and end of each file as one short text: gigabytes need not be read. What is
/// no regular file, such as a pipe, has no content before it is read and counts by its name.
///
/// # Errors
/// A file cannot be read.
pub fn content_identity(files: &[PathBuf]) -> Result<String, FileError> {
    let mut hasher = Sha256::new();
    for path in files {
        add(path, &mut hasher).map_err(|source| FileError::Read { path: path.clone(), source })?;
    }
    Ok(hex(&hasher.finalize()[..8]))
}

fn add(path: &Path, hasher: &mut Sha256) -> std::io::Result<()> {
    if is_stream(path) {
        hasher.update(path.as_os_str().as_encoded_bytes());
        return Ok(());
    }
    let length = std::fs::metadata(path)?.len();
    hasher.update(length.to_le_bytes());
    let mut file = File::open(path)?;
    for start in [0, length.saturating_sub(END_BYTES)] {
        file.seek(SeekFrom::Start(start))?;
        let mut part = Vec::new();
        file.by_ref().take(END_BYTES).read_to_end(&mut part)?;
        hasher.update(&part);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pgn");
        let of = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            content_identity(std::slice::from_ref(&path)).unwrap()
        };
        let long = vec![b'x'; 300_000];
        let changed = |at: usize| {
            let mut copy = long.clone();
            copy[at] = b'y';
            copy
        };
        let original = of(&long);
        assert_eq!(of(&long), original);
        let longer = [&long[..], b"x"].concat();
        for other in [
            &changed(0)[..],
            &changed(1),
            &changed(65_535),
            &changed(234_464),
            &changed(240_000),
            &changed(299_999),
            &long[1..],
            &longer,
            b"x",
            b"",
        ] {
            assert_ne!(of(other), original);
        }
        assert!(content_identity(&[folder.path().join("missing")]).is_err());
        let moved = folder.path().join("b.pgn");
        of(&long);
        std::fs::rename(&path, &moved).unwrap();
        assert_eq!(content_identity(&[moved]).unwrap(), original, "the name does not count");
    }
}
