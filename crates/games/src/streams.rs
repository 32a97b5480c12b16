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

/// Can the input be read only once?
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    is_standard(path) || std::fs::metadata(path).is_ok_and(|found| !found.is_file())
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
        Ok(found) if !found.is_file() => {
            Ok(Some(Box::new(File::options().write(true).open(path)?)))
        }
        // What is not there yet becomes a file.
        _ => Ok(None),
    }
}
