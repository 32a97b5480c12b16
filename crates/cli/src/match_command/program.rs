//! The program of a player: its words on the command line, and its file, whose hash identifies the
//! player.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};

/// This program as a UCI engine.
const SELF: &str = "self";

/// Splits at the first `;` outside double quotes: the program and its options.
pub fn without_options(text: &str) -> (&str, &str) {
    let mut quoted = false;
    let end = text.find(|c: char| {
        quoted ^= c == '"';
        c == ';' && !quoted
    });
    end.map_or((text, ""), |end| (&text[..end], &text[end + 1..]))
}

/// Removes the quotes of a single quoted word; other text is unchanged.
pub fn unquoted(text: &str) -> &str {
    let inside = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inside.filter(|inside| !inside.contains('"')).unwrap_or(text)
}

/// Splits text at blanks; a part in double quotes may contain blanks and `;`.
fn words(text: &str) -> anyhow::Result<Vec<String>> {
    ensure!(text.matches('"').count().is_multiple_of(2), "`{text}` has a quote that does not end");
    let (mut words, mut begun, mut quoted) = (vec![String::new()], false, false);
    for c in text.chars() {
        match c {
            '"' => (begun, quoted) = (true, !quoted),
            c if c.is_whitespace() && !quoted => {
                if begun {
                    words.push(String::new());
                }
                begun = false;
            }
            c => {
                begun = true;
                words.last_mut().into_iter().for_each(|word| word.push(c));
            }
        }
    }
    if !begun {
        words.pop();
    }
    Ok(words)
}

/// The program and its arguments; `self` means this program.
///
/// # Errors
/// A quote is not closed, or there is no program.
pub fn command(text: &str) -> anyhow::Result<(PathBuf, Vec<String>)> {
    let mut words = words(text)?.into_iter();
    let program = words
        .next()
        .filter(|word| !word.is_empty())
        .with_context(|| format!("`{text}` names no engine"))?;
    let program = if program == SELF { own()? } else { program.into() };
    Ok((program, words.collect()))
}

/// The file of this program.
pub fn own() -> anyhow::Result<PathBuf> {
    env::current_exe().context("this program cannot find itself")
}

/// Identifies the build of a program: the beginning of the SHA-256 of its file, which is found as the
/// system finds it. Files that the program starts or reads are not included. A missing file gives
/// `file not read`; starting the program reports the error.
pub fn contents(program: &Path) -> String {
    let bare = program.components().count() == 1;
    let path = if bare { on_path(program, &[]) } else { None };
    let path = path.or_else(|| Some(with_suffix(program)).filter(|path| path.is_file()));
    file_contents(&path.unwrap_or_else(|| program.to_owned()))
}

/// The beginning of the SHA-256 of a file.
pub fn file_contents(path: &Path) -> String {
    // Reading a device would not end.
    let hash = if path.is_file() { board::sha256_file(path).ok() } else { None };
    hash.map_or_else(|| "file not read".to_owned(), |(_, hash)| format!("file {}", &hash[..16]))
}

/// Finds the file of a program in the folders of `PATH`, then in `more`.
pub fn on_path(name: &Path, more: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(more.iter().map(PathBuf::from));
    let mut files =
        folders.map(|folder| folder.join(name)).flat_map(|file| [with_suffix(&file), file]);
    files.find(|file| file.is_file())
}

/// Adds the suffix of programs on Windows.
fn with_suffix(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(env::consts::EXE_SUFFIX);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let read = |text: &str| {
            command(text)
                .map(|(program, arguments)| (program.display().to_string(), arguments))
                .unwrap()
        };
        let split = |program: &str, arguments: &[&str]| {
            (
                program.to_owned(),
                arguments.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(read("sf --x  y"), split("sf", &["--x", "y"]));
        assert_eq!(
            read(r#""/my engines/sf" "a b" c"d e""#),
            split("/my engines/sf", &["a b", "cd e"])
        );
        assert_eq!(read(r#"C:\x\sf.exe """#), split(r"C:\x\sf.exe", &[""]));
        for bad in ["", "  ", r#""""#, r#""sf"#] {
            assert!(command(bad).is_err(), "{bad}");
        }
        assert_eq!(without_options(r#""a;b" c; X="; y"#), (r#""a;b" c"#, r#" X="; y"#));
        assert_eq!(without_options("a"), ("a", ""));
    }

    #[test]
    fn contents_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (one, same, other) = (file("one", "a"), file("same", "a"), file("other", "b"));
        assert_eq!(contents(&one), contents(&same));
        assert_ne!(contents(&one), contents(&other));
        assert_eq!(contents(&folder.path().join("none")), "file not read");
        assert_eq!(contents(folder.path()), "file not read");
        assert_ne!(contents(Path::new("sh")), "file not read", "found as the system finds it");
    }
}
