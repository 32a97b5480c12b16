//! Positions a second through the readers, shards and the loader.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::ops::ControlFlow;
use std::path::PathBuf;

use data::{ImportOptions, Loader, LoaderOptions, Split, Target, import, read_file};
use divan::{Bencher, counter::ItemsCount};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const GAMES: usize = 1000;
const PLIES: usize = 80;

fn main() {
    divan::main();
}

/// A folder with a PGN of random games and the number of its positions.
fn games() -> (tempfile::TempDir, PathBuf, usize) {
    let mut generator = ChaCha8Rng::seed_from_u64(1);
    let mut text = String::new();
    let mut positions = 0;
    for _ in 0..GAMES {
        text += "[Result \"*\"]\n\n";
        let mut position = board::Position::default();
        positions += 1;
        for ply in 0..PLIES {
            let moves = position.legal_moves();
            if moves.is_empty() {
                break;
            }
            let mv = moves[generator.random_range(0..moves.len())];
            text +=
                &format!("{} {{ [%eval {}.{}] }} ", board::to_san(&position, mv), ply % 3, ply % 7);
            position.play(mv);
            positions += 1;
        }
        text += "*\n\n";
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("games.pgn");
    std::fs::write(&path, text).unwrap();
    (dir, path, positions)
}

#[divan::bench(args = [1, 2])]
fn read_pgn(bencher: Bencher<'_, '_>, threads: usize) {
    let (_dir, path, positions) = games();
    bencher.counter(ItemsCount::new(positions)).bench_local(|| {
        let mut records = 0;
        read_file(&path, threads, &data::GameFilter::default(), |piece, _| {
            records += piece.records.len();
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
        records
    });
}

#[divan::bench]
fn import_pgn(bencher: Bencher<'_, '_>) {
    let (dir, path, positions) = games();
    let out = dir.path().join("out");
    let options = ImportOptions { overwrite: true, ..ImportOptions::default() };
    bencher
        .counter(ItemsCount::new(positions))
        .bench_local(|| import(std::slice::from_ref(&path), &out, &options, &mut ()).unwrap());
}

#[divan::bench(args = [Target::Value, Target::Moves])]
fn load_batches(bencher: Bencher<'_, '_>, target: Target) {
    let (dir, path, _) = games();
    let out = dir.path().join("out");
    import(&[path], &out, &ImportOptions::default(), &mut ()).unwrap();
    let options = LoaderOptions { target, ..LoaderOptions::default() };
    let mut loader = Loader::open(&out, Split::Train, options).unwrap();
    bencher.counter(ItemsCount::new(64 * 1024_usize)).bench_local(|| {
        for _ in 0..64 {
            divan::black_box(loader.next());
        }
    });
}
