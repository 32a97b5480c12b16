//! Files that exist whole or not at all, whenever the program or the machine stops.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

/// Writes a file under a temporary name (its own with `.tmp` behind it), then renames it. The
/// caller makes sure that no other writer has the same file.
///
/// # Errors
/// It cannot be written; then a file that was there before is as it was.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = Path::new(&name);
    let written = File::create(temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        // The bytes reach the disk before the file takes its name.
        file.sync_all()?;
        std::fs::rename(temporary, path)
    });
    written.inspect_err(|_| {
        // Half a file is of no use.
        let _ = std::fs::remove_file(temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_or_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary name stays");
        // Its temporary name is taken by a folder.
        std::fs::create_dir(folder.path().join("file.tmp")).unwrap();
        assert!(write_whole(&path, b"three").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        // Its name is.
        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        assert!(
            write_whole(&other, b"three").is_err() && !folder.path().join("other.tmp").exists()
        );
    }
}
