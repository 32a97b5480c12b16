//! Sizes and order of batches, and batches that are refused.

use board::Position;
use eval::{
    Batch, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuOptions, CpuPath},
};
use nets::{Description, HeadKind};

use crate::inputs::{batch, evaluator, network, paths, positions, small};

#[test]
fn scores_depend_neither_on_the_batch_nor_on_the_threads() {
    let network = small();
    let positions = positions(2000, 4);
    for (path, precision) in paths() {
        let all = evaluator(&network, path, precision, 1)
            .evaluate(batch(&network, &positions, 1))
            .unwrap();
        for threads in [1, 2, 3] {
            let mut evaluator = evaluator(&network, path, precision, threads);
            for size in [1, 2, 3, 31, 33, 64, 100, 257, 1024, 1999, 2000] {
                // A consecutive part of the large batch, asked for on its own.
                let first = (size * 7) % (positions.len() - size + 1);
                let mut part = Batch::default();
                for query in &all.batch.queries[first..first + size] {
                    let past = &all.batch.past[query.past_range()];
                    part.push_query(query, &all.batch.moves[query.move_range()], past);
                }
                let moves = all.batch.queries[first].first_move as usize..;
                let found = evaluator.evaluate(part).unwrap();
                assert!(found.scores.values == all.scores.values[first..first + size]);
                assert!(found.scores.moves == all.scores.moves[moves][..found.scores.moves.len()]);
            }
        }
    }
}

#[test]
fn batches_come_back_in_order() {
    let network = small();
    let positions = positions(50, 4);
    for threads in [1, 2] {
        let mut evaluator = evaluator(&network, CpuPath::Portable, Precision::F32, threads);
        assert!(evaluator.wait().is_err());
        let sizes = [3, 0, 50, 1, 17, 0, 2];
        for size in sizes {
            evaluator.submit(batch(&network, &positions[..size], 5)).unwrap();
        }
        assert_eq!(evaluator.in_flight(), sizes.len());
        for size in sizes {
            let answered = evaluator.wait().unwrap();
            assert_eq!((answered.batch.len(), answered.scores.values.len()), (size, size));
        }
        assert_eq!(evaluator.in_flight(), 0);
    }
}

#[test]
fn impossible_questions_are_refused() {
    let network = network(Description::batch_first(&[HeadKind::Value]), 5);
    let mut evaluator = evaluator(&network, CpuPath::Portable, Precision::F32, 1);
    let start = Position::default();
    let mut wrong = Batch::default();
    wrong.push(&start, true, &start.legal_moves());
    assert!(evaluator.submit(wrong).is_err());
    let mut broken = Batch::default();
    broken.push(&start, true, &[]);
    broken.queries[0].squares.0[3] = 16;
    assert!(evaluator.submit(broken).is_err());
    assert_eq!(evaluator.in_flight(), 0);
    let tiles =
        CpuOptions { path: Some(CpuPath::Amx), precision: Some(Precision::F32), threads: 1 };
    assert!(CpuEvaluator::new(network, tiles).is_err());
}
