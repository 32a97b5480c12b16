//! Files that exist whole or not at all, whenever the program or the machine stops.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Writes a file under a temporary name (its own with `.tmp` behind it), then renames it. A link
/// stays, and the file that it names is written; a pipe or a device is written through; an earlier
/// file's permissions stay. The caller makes sure that no other writer has the same file.
///
/// # Errors
/// It cannot be written; then a file that was there before is as it was.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = &link_target(path)?;
    let earlier = std::fs::metadata(path).ok();
    if earlier.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) {
        return File::options().write(true).open(path)?.write_all(bytes);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = Path::new(&name);
    let written = File::create(temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        if let Some(earlier) = earlier {
            file.set_permissions(earlier.permissions())?;
        }
        // The bytes reach the disk before the file takes its name.
        file.sync_all()?;
        std::fs::rename(temporary, path)
    });
    written.inspect_err(|_| {
        // Half a file is of no use.
        let _ = std::fs::remove_file(temporary);
    })
}

/// The name behind a link, or behind several.
fn link_target(path: &Path) -> io::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = std::fs::read_link(&path) else { return Ok(path) };
        path = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    Err(io::Error::other("its links lead in a circle"))
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

    #[cfg(unix)]
    #[test]
    fn links_stay_and_devices_are_written_through() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| folder.path().join(name);
        symlink("b", name("a")).unwrap();
        symlink("target", name("b")).unwrap();
        write_whole(&name("a"), b"one").unwrap();
        assert_eq!(std::fs::read(name("target")).unwrap(), b"one");
        assert!(name("a").is_symlink() && name("b").is_symlink());
        std::fs::set_permissions(name("target"), std::fs::Permissions::from_mode(0o600)).unwrap();
        write_whole(&name("a"), b"two").unwrap();
        let mode = std::fs::metadata(name("target")).unwrap().permissions().mode();
        assert_eq!(
            (std::fs::read(name("target")).unwrap(), mode & 0o777),
            (b"two".to_vec(), 0o600)
        );
        symlink("/dev/null", name("null")).unwrap();
        write_whole(&name("null"), b"gone").unwrap();
        assert!(name("null").is_symlink());
        symlink("/dev/full", name("full")).unwrap();
        assert!(write_whole(&name("full"), b"no room").is_err());
        symlink("round", name("round")).unwrap();
        assert!(write_whole(&name("round"), b"nowhere").is_err());
    }
}
