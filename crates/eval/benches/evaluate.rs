//! Wall time of one batch on every code path that runs here, values of the Batch First network:
//! `cargo bench -p batch-first-eval`. (`batch-first bench eval` counts processor time instead.)

#![allow(clippy::unwrap_used, reason = "a bench may stop at the first surprise")]

use std::sync::Arc;

use board::Position;
use divan::{Bencher, counter::ItemsCount};
use eval::{
    Batch, Cached, Evaluator, Mock, Precision,
    cpu::{CpuEvaluator, CpuOptions, CpuPath},
};
use nets::{Description, HeadKind, Network};

fn main() {
    divan::main();
}

fn batch(size: usize) -> Batch {
    let mut batch = Batch::default();
    let mut position = Position::default();
    for step in 0..size {
        let moves = position.legal_moves();
        if moves.is_empty() {
            position = Position::default();
            continue;
        }
        position.play(moves[step * 7 % moves.len()]);
        batch.push(&position, true, &[]);
    }
    batch
}

fn run(bencher: Bencher, evaluator: &mut dyn Evaluator, size: usize) {
    let mut next = batch(size);
    bencher.counter(ItemsCount::new(size)).bench_local(|| {
        let answered = evaluator.evaluate(std::mem::take(&mut next)).unwrap();
        next = answered.batch;
        answered.scores.values
    });
}

#[divan::bench(args = [1, 32, 256], consts = [0, 1, 2, 3, 4])]
fn path<const PATH: usize>(bencher: Bencher, size: usize) {
    let path = CpuPath::ALL[PATH];
    if [Precision::Bf16, Precision::F32].iter().all(|&precision| path.obstacle(precision).is_some())
    {
        return;
    }
    let network = Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap();
    let options = CpuOptions { path: Some(path), ..CpuOptions::default() };
    run(bencher, &mut CpuEvaluator::new(Arc::new(network), options).unwrap(), size);
}

/// Time of the cache when every query is a hit.
#[divan::bench(args = [1, 32, 256])]
fn cache_hits(bencher: Bencher, size: usize) {
    run(bencher, &mut Cached::new(Mock::new(1), 16), size);
}
