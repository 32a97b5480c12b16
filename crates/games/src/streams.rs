//! Inputs and outputs that are no regular files: `-` for standard input and output, pipes, devices.
//! They are read and written from beginning to end, and cannot be resumed.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

/// Is this standard input or output?
#[must_use]
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Can it be read or written only from beginning to end?
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    is_standard(path)
        || is_open_already(path)
        || std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Is it the name of a file that this program was given open? `/dev/stdout` may be a file.
fn is_open_already(path: &Path) -> bool {
    ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder))
        || ["/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
}

/// Opens an input; `-` is standard input.
///
/// # Errors
/// It cannot be opened, or is a folder.
pub fn open_input(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if is_standard(path) {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("it is a folder; games are read from files"));
    }
    Ok(Box::new(file))
}

/// Opens an output that cannot be resumed; `None`: it is a file, or shall become one.
///
/// # Errors
/// It cannot be opened, or is a folder.
pub(crate) fn open_stream(path: &Path) -> io::Result<Option<Box<dyn Write + Send>>> {
    if is_standard(path) {
        return Ok(Some(Box::new(io::stdout())));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::Error::other("it is a folder")),
        _ if is_stream(path) => Ok(Some(Box::new(File::options().append(true).open(path)?))),
        // What is not there yet becomes a file.
        _ => Ok(None),
    }
}
