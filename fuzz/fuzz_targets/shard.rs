//! Shards from outside: the records that were written, or an error.

#![no_main]

use std::sync::LazyLock;

use board::Position;
use data::{GameResult, NO_LABEL, Record, ShardReader, ShardWriter};
use libfuzzer_sys::fuzz_target;
use nets::{PolicyIndex, Squares};

/// A sound shard; most inputs are edits of it.
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir_in(memory()).expect("a folder");
    let path = folder.path().join("sound");
    let mut writer = ShardWriter::create(&path).expect("created");
    for record in records() {
        writer.push(&record).expect("written");
    }
    writer.finish().expect("finished");
    std::fs::read(path).expect("read")
});

fn records() -> Vec<Record> {
    let mut position = Position::default();
    (0..20)
        .map(|ply| {
            let record = Record {
                squares: Squares::of(&position),
                white_to_move: position.turn().is_white(),
                value: i32::from(ply),
                played: PolicyIndex::MAX,
                played_value: NO_LABEL,
                result: GameResult::Unknown,
                ply,
                halfmove_clock: 0,
                source: 0,
                game: 0,
            };
            let mv = position.legal_moves()[usize::from(ply) % 3];
            position.play(mv);
            record
        })
        .collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let bytes = match kind % 3 {
        0 => rest.to_vec(),
        1 => SOUND[..usize::from(kind) * SOUND.len() / 256].to_vec(),
        _ => {
            let mut bytes = SOUND.clone();
            for edit in rest.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
                bytes[at] = edit[2];
            }
            bytes
        }
    };
    let folder = tempfile::tempdir_in(memory()).expect("a folder");
    let path = folder.path().join("shard");
    std::fs::write(&path, &bytes).expect("written");
    let Ok(mut reader) = ShardReader::open(&path) else { return };
    let mut count = 0;
    for block in 0..reader.blocks() {
        let length = reader.block_len(block);
        if let Ok(records) = reader.read_block(block) {
            assert_eq!(records.len(), length);
            for record in records {
                assert_eq!(Record::unpack(&record.pack()), record);
                let _ = record.squares.position(board::Color::White);
            }
        }
        count += length as u64;
    }
    assert_eq!(count, reader.len());
    let past = reader.blocks();
    assert!(reader.read_block(past).is_err());
});

/// A file system in memory where there is one.
fn memory() -> &'static std::path::Path {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory } else { std::path::Path::new("/tmp") }
}
