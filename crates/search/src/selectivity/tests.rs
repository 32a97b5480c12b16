use super::*;

fn kbest() -> Selectivity {
    Selectivity::kbest(&Tuning::default())
}

fn alphabeta() -> Selectivity {
    Selectivity::alphabeta(&Tuning::default())
}

#[test]
fn more_moves_are_pruned_far_below_the_bound() {
    let rules = kbest();
    let limit = |bound, value| rules.late_pruning_limit(PLY, bound, value, MoveScores::Policy);
    let prunes_late_move = |score: i32, value| limit(100, value).is_some_and(|limit| score < limit);
    assert!(prunes_late_move(-310, None) && !prunes_late_move(-290, None));
    assert!(!prunes_late_move(-290, Some(150)), "no change above the bound");
    assert!(prunes_late_move(-290, Some(80)) && !prunes_late_move(-270, Some(80)));
    assert!(!prunes_late_move(-140, Some(-2000)), "likely moves are always searched");
    let mated = limit(-LARGEST_VALUE - 1, Some(0));
    assert_eq!(mated, None, "a mate may have one defence only");
}

#[test]
fn margins_grow_with_depth() {
    let rules = kbest();
    let static_verdict = |depth, value| rules.static_verdict(depth, 0, false, value, || false);
    assert_eq!(static_verdict(PLY / 2, 50), StaticVerdict::FailsHigh(0));
    assert_eq!(
        [static_verdict(PLY / 2, 49), static_verdict(PLY / 2, -35)],
        [StaticVerdict::Open; 2]
    );
    assert_eq!(static_verdict(PLY / 2, -36), StaticVerdict::FailsLow(-1));
    assert_eq!(
        [static_verdict(PLY, 99), static_verdict(PLY * 3 / 2, 149), static_verdict(PLY * 2, 199)],
        [StaticVerdict::Open; 3]
    );
    assert_eq!(static_verdict(0, 0), StaticVerdict::FailsHigh(0));
}

#[test]
fn captures_that_win_too_little_are_bounded_by_what_they_win() {
    let rules = kbest();
    assert_eq!(rules.delta_prunes(-500, 300, 0), Some(-100));
    assert_eq!(rules.delta_prunes(-500, 400, 0), None);
    assert_eq!(rules.delta_prunes(-500, 0, -LARGEST_VALUE - 1), None);
    assert_eq!(Selectivity::NONE.delta_prunes(-500, 0, 0), None);
}

#[test]
fn checks_that_lose_nothing_are_searched_deeper() {
    let fen = "4k3/3p4/8/8/8/8/8/R2QK3 w - - 0 1";
    let position = Position::from_fen(fen, board::CastlingMode::Standard).unwrap();
    let extension = |rules: Selectivity, depth, text: &str| {
        let mv = board::parse_uci(&position, text).unwrap();
        rules.extension(depth, &position, mv, &position.after(mv))
    };
    let rules = kbest();
    assert_eq!(extension(rules, PLY, "a1a8"), PLY / 2);
    assert_eq!(extension(rules, PLY, "d1d7"), 0, "the king takes the queen");
    assert_eq!(extension(rules, PLY, "a1a7"), 0, "no check");
    assert_eq!(extension(rules, PLY / 2, "a1a8"), 0, "near the leaves");
    assert_eq!(extension(Selectivity::NONE, PLY, "a1a8"), 0);
}

#[test]
fn the_margin_is_smaller_where_the_evaluation_improves() {
    let rules = alphabeta();
    let verdict = |value, improves| rules.static_verdict(2 * PLY, 0, false, value, || improves);
    assert_eq!(verdict(180, false), StaticVerdict::FailsHigh(0));
    assert_eq!(verdict(179, false), StaticVerdict::Open);
    assert_eq!(verdict(179, true), StaticVerdict::FailsHigh(39));
    assert_eq!(verdict(139, true), StaticVerdict::Open);
    let far = |depth| rules.static_verdict(depth, 0, false, 2000, || false);
    assert_eq!((far(6 * PLY), far(7 * PLY)), (StaticVerdict::FailsHigh(1460), StaticVerdict::Open));
    let low = |depth| rules.static_verdict(depth, 0, false, -2000, || false);
    assert_eq!((low(2 * PLY), low(3 * PLY)), (StaticVerdict::FailsLow(-1820), StaticVerdict::Open));
}

#[test]
fn a_null_move_needs_depth_and_an_evaluation_at_the_bound() {
    let depth = |depth, bound, value| alphabeta().null_move_depth(depth, bound, value);
    assert_eq!(depth(PLY, 0, 500), None);
    assert_eq!(depth(6 * PLY, 10, 9), None);
    assert_eq!(depth(6 * PLY, LARGEST_VALUE + 1, LARGEST_VALUE + 1), None, "no mate is proven");
    assert_eq!(depth(8 * PLY, 10, 10), Some(3 * PLY));
    assert_eq!(depth(8 * PLY, 10, 160), Some(2 * PLY));
    assert_eq!(depth(8 * PLY, 10, 3000), Some(0), "three plies more at most");
    assert_eq!(Selectivity::NONE.null_move_depth(8 * PLY, 10, 160), None);
}

#[test]
fn the_reduction_grows_as_the_chance_falls() {
    let rules = alphabeta();
    let plies = |score, scores| rules.reduction(8 * PLY, 5, score, scores) / PLY;
    assert_eq!([-50, -200, -500].map(|score| plies(score, MoveScores::Policy)), [1, 2, 3]);
    assert_eq!(plies(-500, MoveScores::Centipawns), 2, "centipawns say no chance");
    assert_eq!(rules.reduction(PLY, 5, -500, MoveScores::Policy), 0);
}
