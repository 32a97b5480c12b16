//! What is written to a shard is read from it; what is damaged is refused in words.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use data::{DataError, GameResult, NO_LABEL, RECORD_SIZE, Record, ShardReader, ShardWriter};
use nets::Squares;
use proptest::prelude::*;

fn any_record() -> impl Strategy<Value = Record> {
    let squares = proptest::collection::vec(0_u8..16, 64).prop_map(|squares| {
        let mut board = [0; 64];
        board.copy_from_slice(&squares);
        Squares(board)
    });
    let result = prop_oneof![
        Just(GameResult::Unknown),
        Just(GameResult::Loss),
        Just(GameResult::Draw),
        Just(GameResult::Win)
    ];
    let labels = (prop_oneof![Just(NO_LABEL), any::<i32>()], any::<u16>(), any::<i32>());
    let facts = (any::<bool>(), any::<u16>(), any::<u8>(), any::<u8>(), any::<u32>());
    (squares, result, labels, facts).prop_map(|(squares, result, labels, facts)| Record {
        squares,
        white_to_move: facts.0,
        value: labels.0,
        played: labels.1,
        played_value: labels.2,
        result,
        ply: facts.1,
        halfmove_clock: facts.2,
        source: facts.3,
        game: facts.4,
    })
}

/// Varied records without randomness.
fn records(count: u32) -> Vec<Record> {
    (0..count)
        .map(|number| Record {
            squares: Squares(std::array::from_fn(|square| {
                ((number as usize * 7 + square * square) % 16) as u8
            })),
            white_to_move: number.is_multiple_of(3),
            value: number as i32 * 37 - 5000,
            played: number as u16,
            played_value: NO_LABEL,
            result: GameResult::Draw,
            ply: number as u16,
            halfmove_clock: number as u8,
            source: 0,
            game: number,
        })
        .collect()
}

fn write(path: &Path, records: &[Record]) {
    let mut writer = ShardWriter::create(path).unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), records.len() as u64);
}

fn read(path: &Path) -> Result<Vec<Record>, DataError> {
    let mut reader = ShardReader::open(path)?;
    let mut all = Vec::new();
    for block in 0..reader.blocks() {
        all.extend(reader.read_block(block)?);
    }
    assert_eq!(all.len() as u64, reader.len());
    Ok(all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packing_loses_nothing(record in any_record()) {
        prop_assert_eq!(Record::unpack(&record.pack()), record);
    }

    #[test]
    fn a_shard_gives_back_its_records(records in proptest::collection::vec(any_record(), 0..200)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shard.bfs");
        write(&path, &records);
        prop_assert!(read(&path).unwrap() == records);
    }

    #[test]
    fn damage_is_an_error(changes in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shard.bfs");
        let records = records(300);
        write(&path, &records);
        let mut bytes = std::fs::read(&path).unwrap();
        let original = bytes.clone();
        for (at, change) in changes {
            let at = at.index(bytes.len());
            bytes[at] ^= change;
        }
        std::fs::write(&path, &bytes).unwrap();
        match read(&path) {
            // Changes can undo each other, and bytes that mean nothing may change.
            Ok(found) => prop_assert!(found == records),
            Err(error) => {
                prop_assert!(bytes != original);
                prop_assert!(error.to_string().contains("shard.bfs"));
            }
        }
    }

    #[test]
    fn a_cut_shard_is_an_error(cut in any::<prop::sample::Index>()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shard.bfs");
        write(&path, &records(300));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..cut.index(bytes.len())]).unwrap();
        prop_assert!(read(&path).is_err());
    }

    #[test]
    fn any_bytes_are_a_shard_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shard.bfs");
        std::fs::write(&path, &bytes).unwrap();
        prop_assert!(read(&path).is_err());
    }
}

#[test]
fn a_changed_record_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shard.bfs");
    write(&path, &records(5000));
    let mut bytes = std::fs::read(&path).unwrap();
    // Past the header of 32 bytes and the first bytes of the first frame.
    bytes[600] ^= 0x10;
    std::fs::write(&path, &bytes).unwrap();
    let mut reader = ShardReader::open(&path).unwrap();
    let error = reader.read_block(0).unwrap_err();
    assert!(matches!(error, DataError::Block { block: 0, .. }), "{error}");
    assert!(error.to_string().contains("block 0"), "{error}");
    assert_eq!(reader.read_block(1).unwrap().len(), 5000 - 4096);
}

#[test]
fn blocks_are_read_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shard.bfs");
    let records = records(10_000);
    write(&path, &records);
    let mut reader = ShardReader::open(&path).unwrap();
    assert_eq!((reader.blocks(), reader.len()), (3, 10_000));
    assert!(reader.read_block(2).unwrap() == records[8192..]);
    assert!(reader.read_block(0).unwrap() == records[..4096]);
    assert!(reader.read_block(1).unwrap() == records[4096..8192]);
    assert!(reader.read_block(3).is_err());
}

#[test]
fn an_unfinished_shard_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shard.bfs");
    let mut writer = ShardWriter::create(&path).unwrap();
    writer.push(&records(1)[0]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn another_version_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shard.bfs");
    write(&path, &records(10));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 9;
    std::fs::write(&path, &bytes).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("version 9"), "{error}");
}

#[test]
fn a_record_is_as_long_as_documented() {
    assert_eq!(RECORD_SIZE, 52);
    let record = records(1)[0];
    assert_eq!(record.pack().len(), RECORD_SIZE);
}
