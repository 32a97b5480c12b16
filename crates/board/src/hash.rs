//! Fingerprints of files and networks: SHA-256 in hexadecimal.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use sha2::{Digest, Sha256};

/// Bytes as lower-case hexadecimal digits, two a byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of bytes in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A file's length in bytes and its SHA-256 in hexadecimal; reads it once, in pieces.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_file(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok((bytes, hex(&hasher.finalize())));
        }
        hasher.update(&buffer[..length]);
        bytes += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of `abc` is an example of FIPS 180-4.
    #[test]
    fn a_file_has_the_published_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_file(&path).unwrap(), (3, digest.to_owned()));
        assert_eq!(sha256(b"abc"), digest);
        assert!(sha256_file(&folder.path().join("missing")).is_err());
    }
}
