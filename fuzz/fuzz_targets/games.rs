//! Files of games, evaluations and positions from outside: records or counted skips.

#![no_main]

use std::ops::ControlFlow;

use data::{Record, read_file};
use libfuzzer_sys::fuzz_target;

// The first byte chooses the extension; with none the content decides. Compressed content is seen
// through.
fuzz_target!(|data: &[u8]| {
    let Some((&kind, text)) = data.split_first() else { return };
    let name = ["a.pgn", "a.jsonl", "a.epd", "a"][usize::from(kind % 4)];
    let folder = tempfile::tempdir_in(memory()).expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    let _ = read_file(&path, 1, &data::GameFilter::default(), |parsed, _| {
        assert_eq!(parsed.whole + parsed.broken + parsed.left_out, parsed.games);
        for record in &parsed.records {
            assert_eq!(&Record::unpack(&record.pack()), record);
            assert!(usize::from(record.played) < nets::POLICY_SIZE || record.played == u16::MAX);
        }
        Ok(ControlFlow::Continue(()))
    });
});

/// A file system in memory where there is one.
fn memory() -> &'static std::path::Path {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory } else { std::path::Path::new("/tmp") }
}
