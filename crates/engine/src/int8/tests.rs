use board::testing::skip;
use eval::Mock;
use nets::{Description, Leela, LeelaInput};

use super::*;

fn small(seed: u64) -> Network {
    let description = Description::leela(&Leela {
        input: LeelaInput::Classical,
        channels: 16,
        blocks: 1,
        squeezed: 0,
        is_older: true,
    });
    Network::random(description, seed).unwrap()
}

#[test]
fn a_cost_is_too_much_as_soon_as_that_is_sure_enough() {
    let cost =
        |positions, differing, difference| Cost { positions, differing, difference }.is_too_much();
    assert!(!cost(40, 5, 0.0));
    assert!(cost(40, 6, 0.0));
    assert!(!cost(1000, 15, 0.0));
    assert!(cost(1000, 16, 0.0));
    assert!(!cost(2000, 20, 20.0));
    assert!(cost(2000, 21, 0.0));
    assert!(cost(2000, 0, 20.1));
    assert!(cost(40, 0, 20.1));
}

#[test]
fn equal_evaluators_are_compared_on_all_positions_others_on_few() {
    let of =
        |seed| cost(&mut Mock::new(1).with_policy(), &mut Mock::new(seed).with_policy()).unwrap();
    let equal = of(1);
    assert_eq!((equal.positions, equal.differing), (2000, 0));
    assert!(!equal.is_too_much());
    let other = of(2);
    assert!(other.is_too_much());
    assert!(other.positions <= 80, "{other:?}");
}

#[test]
fn what_is_measured_beside_the_first_use_is_there_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("cache/int8.json");
    let (network, options) = (small(1), EngineOptions::default());
    assert_eq!(kept(&known, "a"), None);
    assert!(measure_beside(&network, &options, None, "a").is_none());
    measure_beside(&network, &options, Some(&known), "a").unwrap().join().unwrap();
    assert_eq!(kept(&known, "a"), Some(measure(&network, &options).unwrap()));
    assert_eq!(kept(&known, "b"), None);
}

#[test]
fn a_network_keeps_its_precision_while_the_program_runs() {
    let options = EngineOptions::default();
    let choice = cpu::choose(options.path, None, true).unwrap();
    if choice.precision != Precision::Int8 {
        skip("int8::a_network_keeps_its_precision_while_the_program_runs", "no int8 by default");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("int8.json");
    let ranges =
        |options: &EngineOptions, known| with_ranges(small(2), options, known).unwrap().int8_ranges;
    assert_eq!(ranges(&options, None), None);
    let answers = [(key(&small(2), choice.path), json!([1.0, 2.0]))];
    measured::write(&known, &answers.into_iter().collect());
    assert_eq!(ranges(&options, Some(&known)), None);
    let asked = EngineOptions { precision: Some(Precision::Int8), ..options };
    assert_eq!(ranges(&asked, Some(&known)), Some(vec![1.0, 2.0]));
}
