//! The architecture of Batch First, pinned, and what is refused as no architecture.

use nets::{Activation, Branch, Description, Head, HeadKind, Layer, Network, Padding};

fn both() -> Description {
    Description::batch_first(&[HeadKind::Value, HeadKind::Moves])
}

#[test]
fn batch_first_is_what_was_published() {
    insta::assert_snapshot!(
        "batch_first",
        serde_json::to_string_pretty(&both()).expect("serializable")
    );
}

#[test]
fn its_tensors_keep_their_names_and_shapes() {
    let tensors = both().tensors().expect("can run");
    let lines: Vec<String> = tensors
        .iter()
        .map(|spec| format!("{} {:?} {:?}", spec.name, spec.shape, spec.kind))
        .collect();
    insta::assert_snapshot!("batch_first_tensors", lines.join("\n"));
}

#[test]
fn sizes_are_those_of_the_definition() {
    let value = Description::batch_first(&[HeadKind::Value]);
    let multiply_adds = value.multiply_adds().expect("can run");
    assert!((19_000_000..19_100_000).contains(&multiply_adds), "{multiply_adds}");
    // By hand: 15 planes x (188 channels x 9 + 48 x 4) x 64 squares, and so on down the layers.
    let input = 15 * (188 * 9 + 48 * 4);
    let trunk = 236 * 512 + 512 * 128 + 9 * 128 * 32 + 5 * 9 * 32 * 32;
    assert_eq!(multiply_adds, 64 * (input + trunk) + 64 * 32 * 16 + 16);
    let norms = 2 * (236 + 512 + 128 + 6 * 32 + 16);
    assert_eq!(value.parameters().expect("can run"), input + trunk + 64 * 32 * 16 + 16 + norms + 1);
    let moves = Description::batch_first(&[HeadKind::Moves]).multiply_adds().expect("can run");
    assert_eq!(moves, 64 * (input + trunk + 32 * 73));
    assert_eq!(both().multiply_adds().expect("can run"), multiply_adds + moves);
    // Trained numbers are those that the file holds, less the running statistics.
    let stored: usize = both()
        .tensors()
        .expect("can run")
        .iter()
        .filter(|spec| {
            !matches!(spec.kind, nets::TensorKind::NormMean | nets::TensorKind::NormVariance)
        })
        .map(|spec| spec.shape.iter().product::<usize>())
        .sum();
    assert_eq!(both().parameters().expect("can run"), stored as u64);
}

fn conv(kernel: usize, channels: usize, padding: Padding) -> Layer {
    Layer::Conv { kernel, channels, padding, norm: false, activation: Activation::Identity }
}

fn input(branches: Vec<Branch>) -> Layer {
    Layer::Branches { branches, norm: true, activation: Activation::Relu }
}

fn branch(channels: usize) -> Branch {
    Branch { kernel: [3, 3], dilation: [1, 1], channels }
}

fn value_head(layers: Vec<Layer>) -> Description {
    Description { heads: vec![Head::plain(HeadKind::Value, layers)], ..both() }
}

#[test]
fn what_cannot_run_is_refused() {
    let end = [conv(8, 1, Padding::Valid)];
    let with = |layers: Vec<Layer>| value_head(layers.into_iter().chain(end.clone()).collect());
    assert_eq!(with(vec![input(vec![branch(4)])]).check(), Ok(()));
    let huge = usize::MAX / 2 + 1;
    for bad in [
        Description { heads: Vec::new(), ..both() },
        Description { heads: vec![both().heads[0].clone(), both().heads[0].clone()], ..both() },
        value_head(Vec::new()),
        value_head(vec![input(vec![branch(4)])]),
        with(Vec::new()),
        with(vec![conv(3, 4, Padding::Same)]),
        with(vec![input(vec![branch(4)]), input(vec![branch(4)])]),
        with(vec![input(Vec::new())]),
        with(vec![input(vec![branch(0)])]),
        with(vec![input(vec![Branch { kernel: [9, 1], dilation: [1, 1], channels: 1 }])]),
        with(vec![input(vec![Branch { kernel: [3, 3], dilation: [0, 1], channels: 1 }])]),
        with(vec![input(vec![branch(4)]), conv(2, 4, Padding::Same)]),
        with(vec![input(vec![branch(4)]), conv(3, 4, Padding::Valid)]),
        with(vec![input(vec![branch(4)]), conv(0, 4, Padding::Same)]),
        // Sums and products that overflow.
        with(vec![input(vec![branch(huge), branch(huge), branch(1)])]),
        with(vec![input(vec![branch(4)]), conv(1, usize::MAX, Padding::Same)]),
        with(vec![input(vec![branch(4)]), conv(usize::MAX, 4, Padding::Same)]),
        // Each layer is possible, but the whole would need gigabytes.
        with([vec![input(vec![branch(4)])], vec![conv(7, 8192, Padding::Same); 3]].concat()),
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
        assert!(
            bad.tensors().is_err() && bad.parameters().is_err() && bad.multiply_adds().is_err()
        );
        assert!(Network::random(bad, 1).is_err());
    }
}
