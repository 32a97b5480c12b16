//! The search with its pruning and reductions: mates, lines and answers hold.

use super::*;

/// The search with reductions and pruning finds the same mates, possibly at larger depths.
#[test]
fn reductions_hide_no_mate() {
    let mut dice = SplitMix64::new(2019);
    let mut found = [0; 4];
    while found[1] < 20 || found[2] < 20 || found[3] < 10 {
        let position = small_position(&mut dice, 4);
        let Some(moves) = (1..=3).find(|&moves| mates_in(&position, moves)) else { continue };
        if found[moves as usize] >= 20 {
            continue;
        }
        found[moves as usize] += 1;
        for seed in [1, 2] {
            let mut search = as_it_plays(seed, 8, 1);
            let limits = Limits { nodes: Some(200_000), ..Limits::default() };
            let game = Game::new(position.clone());
            let outcome = search.search(&game, &limits, &Control::default(), &mut |_| {}).unwrap();
            let line = &outcome.lines[0];
            assert!(
                matches!(line.score, Score::Mate(1..)),
                "{} seed {seed}: {line:?}",
                position.fen()
            );
        }
    }
}

/// A mate that is announced is a mate, even if the policy finds the only defence unlikely, or if a
/// null move reached the bound.
#[test]
fn mates_that_are_announced_are_true() {
    let mut announced = 0;
    for seed in 0..600 {
        let pieces = if seed < 300 { 9 } else { 5 };
        let position = small_position(&mut SplitMix64::new(seed), pieces);
        let game = Game::new(position.clone());
        for (depth, batch) in [(4, 1), (5, 1)] {
            let mut search = as_it_plays(2 * seed + 1, batch, 1);
            let Some(line) = lines_of(&mut search, &game, depth).into_iter().next() else {
                continue;
            };
            let is_true = match line.score {
                Score::Centipawns(_) => continue,
                Score::Mate(moves) if moves > 0 => mates_in(&position, moves as u32),
                Score::Mate(moves) => position.legal_moves().iter().all(|&mv| {
                    (1..=moves.unsigned_abs()).any(|within| mates_in(&position.after(mv), within))
                }),
            };
            announced += 1;
            assert!(is_true, "{} depth {depth}: {:?}", position.fen(), line.score);
        }
    }
    assert!(announced > 60, "{announced}");
}

/// In every reported line, also that of an interrupted depth, plain negamax confirms the bound that
/// the line claims for each of its positions.
#[test]
fn plain_negamax_confirms_every_reported_line() {
    let (mut plies, mut unfinished) = (0, 0);
    for seed in 0..300 {
        let position = small_position(&mut SplitMix64::new(seed), 4);
        let game = Game::new(position.clone());
        let mut plain = Plain::new(seed);
        let limits = Limits { depth: Some(4), nodes: Some(20 + 7 * seed), ..Limits::default() };
        let mut shown = Vec::new();
        kbest(seed, 8, 1)
            .search(&game, &limits, &Control::default(), &mut |info| shown.push(info.clone()))
            .unwrap();
        for info in shown {
            let Score::Centipawns(claim) = info.score else { continue };
            if info.bound == Bound::Upper {
                continue;
            }
            unfinished += usize::from(info.bound == Bound::Lower);
            let (mut at, mut bound, mut reaches) = (position.clone(), claim, true);
            let mut path = vec![at.key()];
            for (depth, &mv) in (0..info.depth).rev().zip(&info.pv) {
                at = at.after(mv);
                (bound, reaches) = (child_bound(bound), !reaches);
                let value = plain.value(&at, depth, &mut path);
                let holds = if reaches { value >= bound } else { value < bound };
                assert!(holds, "{} at depth {depth}: {info:?}", game.position().fen());
                plies += 1;
                path.push(at.key());
            }
        }
    }
    assert!(plies > 1_000 && unfinished > 30, "{plies} {unfinished}");
}

/// Quiescence search can take many evaluations: before it ends, the static evaluation answers.
#[test]
fn there_is_a_line_however_few_the_evaluations() {
    let fens = [
        "4r1nr/pp1k2bp/3q4/8/5p2/5QB1/PP3PPP/3R1K1R b - - 2 19",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    ];
    for fen in fens {
        let game = Game::new(Position::from_fen(fen, CastlingMode::Standard).unwrap());
        for (seed, multipv) in [(0, 1), (1, 1), (1, 3)] {
            for nodes in [1, 2, 3, 10, 40] {
                let limits = Limits { nodes: Some(nodes), ..Limits::default() };
                let mut reported = Vec::new();
                let outcome = as_it_plays(seed, 1, multipv)
                    .search(&game, &limits, &Control::default(), &mut |info| {
                        reported.push(info.pv.clone())
                    })
                    .unwrap();
                assert!(!outcome.lines.is_empty(), "{fen} {nodes}");
                assert_eq!(outcome.best, outcome.lines.first().map(|line| line.pv[0]));
                assert!(reported.contains(&outcome.lines[0].pv), "{fen} {nodes}");
                assert!(outcome.nodes <= nodes);
            }
        }
    }
}

#[test]
fn quiet_cutoffs_are_remembered_until_a_new_game() {
    let game = Game::default();
    let remembered = |search: &KBest| {
        let position = game.position();
        position.legal_moves().iter().any(|&mv| search.searcher.history.of(position)(mv) != 0)
    };
    let mut search = as_it_plays(1, 1, 1);
    lines_of(&mut search, &game, 4);
    assert!(remembered(&search));
    search.clear();
    assert!(!remembered(&search));
    let mut exact = kbest(1, 1, 1);
    lines_of(&mut exact, &game, 3);
    assert!(!remembered(&exact), "no rule uses it");
}
