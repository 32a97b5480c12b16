//! Scores must rise with logits and chances must add up, whatever calibration a file brings.

use nets::{Calibration, MonotoneMap, WdlModel};
use proptest::prelude::*;

/// Values that rise strictly, of any magnitude.
fn rising(length: usize) -> impl Strategy<Value = Vec<f32>> {
    (-1e4_f32..1e4, prop::collection::vec(1e-3_f32..1e3, length)).prop_map(|(first, steps)| {
        steps
            .iter()
            .scan(first, |value, step| {
                *value += step;
                Some(*value)
            })
            .collect()
    })
}

fn map() -> impl Strategy<Value = MonotoneMap> {
    (2..12_usize)
        .prop_flat_map(|length| (rising(length), rising(length), 1.0_f32..20_000.0))
        .prop_map(|(inputs, outputs, limit)| MonotoneMap { inputs, outputs, limit })
        .prop_filter("steps lost in rounding", MonotoneMap::is_valid)
}

fn model() -> impl Strategy<Value = WdlModel> {
    (0.0_f32..500.0, 1.0_f32..500.0).prop_map(|(offset, scale)| WdlModel { offset, scale })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn maps_rise(map in map(), a in -2e4_f32..2e4, b in -2e4_f32..2e4, near in any::<prop::sample::Index>()) {
        let (low, high) = (a.min(b), a.max(b));
        prop_assert!(map.apply(low) <= map.apply(high));
        prop_assert!(map.apply(high).abs() <= map.limit);
        // Around a knot, where two segments meet.
        let knot = map.inputs[near.index(map.inputs.len())];
        prop_assert!(map.apply(knot.next_down()) <= map.apply(knot));
        prop_assert!(map.apply(knot) <= map.apply(knot.next_up()));
    }

    #[test]
    fn maps_go_through_their_knots(map in map()) {
        for (&input, &output) in map.inputs.iter().zip(&map.outputs) {
            let expected = output.clamp(-map.limit, map.limit);
            prop_assert!((map.apply(input) - expected).abs() <= 1e-2, "{} for {output}", map.apply(input));
        }
    }

    #[test]
    fn no_finite_logit_gives_nonsense(map in map(), input in any::<f32>()) {
        prop_assume!(input.is_finite());
        prop_assert!(map.apply(input).is_finite());
    }

    #[test]
    fn many_at_once_are_as_one_at_a_time(
        map in prop_oneof![map(), map().prop_map(|map| MonotoneMap {
            inputs: map.inputs[..2].to_vec(), outputs: map.outputs[..2].to_vec(), ..map
        })],
        inputs in prop::collection::vec(any::<f32>(), 0..40),
    ) {
        let one_by_one: Vec<u32> = inputs.iter().map(|&input| map.apply(input).to_bits()).collect();
        let mut all = inputs;
        map.apply_all(&mut all);
        prop_assert_eq!(all.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), one_by_one);
    }

    #[test]
    fn chances_add_up_and_follow_the_score(model in model(), a in -1e5_f32..1e5, b in -1e5_f32..1e5) {
        let (low, high) = (model.at(a.min(b)), model.at(a.max(b)));
        for wdl in [low, high] {
            prop_assert_eq!(wdl.win + wdl.draw + wdl.loss, 1000);
        }
        prop_assert!(low.win <= high.win && low.loss >= high.loss, "{low:?} {high:?}");
        // The other side's view, up to rounding where nearly every game is decided.
        let (own, other) = (model.at(a), model.at(-a));
        prop_assert!(own.win.abs_diff(other.loss) <= 1 && own.loss.abs_diff(other.win) <= 1);
    }

    /// Even a model that no fit would give (a negative offset) adds up.
    #[test]
    fn chances_add_up_for_any_model(offset in any::<f32>(), scale in any::<f32>(), score in any::<f32>()) {
        let wdl = WdlModel { offset, scale }.at(score);
        prop_assert_eq!(u32::from(wdl.win) + u32::from(wdl.draw) + u32::from(wdl.loss), 1000);
    }
}

#[test]
fn the_model_at_its_marks() {
    let model = WdlModel { offset: 100.0, scale: 50.0 };
    assert_eq!(model.at(100.0).win, 500);
    assert_eq!(model.at(-100.0).loss, 500);
    let level = model.at(0.0);
    assert_eq!((level.win, level.draw, level.loss), (119, 762, 119));
    assert_eq!((model.at(10_000.0).win, model.at(-10_000.0).loss), (1000, 1000));
}

#[test]
fn unusable_calibrations_are_seen() {
    let good = Calibration::default();
    assert!(good.is_valid());
    let with_map = |inputs: &[f32], outputs: &[f32], limit: f32| Calibration {
        value: MonotoneMap { inputs: inputs.to_vec(), outputs: outputs.to_vec(), limit },
        ..good.clone()
    };
    assert!(with_map(&[0.0, 1.0], &[-5.0, 5.0], 10.0).is_valid());
    for bad in [
        with_map(&[], &[], 10.0),
        with_map(&[0.0], &[0.0], 10.0),
        with_map(&[0.0, 0.0], &[0.0, 1.0], 10.0),
        with_map(&[0.0, 1.0], &[1.0, 0.0], 10.0),
        with_map(&[0.0, 1.0, 2.0], &[0.0, 1.0], 10.0),
        with_map(&[0.0, f32::NAN], &[0.0, 1.0], 10.0),
        with_map(&[f32::MIN, f32::MAX], &[0.0, 1.0], 10.0),
        with_map(&[0.0, 1.0], &[0.0, f32::INFINITY], 10.0),
        with_map(&[0.0, 1.0], &[0.0, 1.0], 0.0),
        with_map(&[0.0, 1.0], &[0.0, 1.0], f32::NAN),
        Calibration { wdl: WdlModel { offset: 0.0, scale: 0.0 }, ..good.clone() },
        Calibration { wdl: WdlModel { offset: f32::NAN, scale: 1.0 }, ..good.clone() },
        Calibration { bins: vec![2.0, 1.0], ..good.clone() },
        Calibration { bins: vec![f32::NAN], ..good.clone() },
    ] {
        assert!(!bad.is_valid(), "{bad:?}");
    }
}
