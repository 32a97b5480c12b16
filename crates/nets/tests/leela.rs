//! Files of Leela's: what is written is read, and damaged or foreign ones end in a sentence.

#![allow(clippy::unwrap_used, reason = "a test")]

use nets::{
    Activation, Description, Encoding, Head, HeadKind, HeadOutput, Layer, Network, Padding,
    leela_file,
};
use proptest::prelude::*;

fn conv(kernel: usize, channels: usize, norm: bool, activation: Activation) -> Layer {
    Layer::Conv { kernel, channels, padding: Padding::Same, norm, activation }
}

fn dense(channels: usize, activation: Activation) -> Layer {
    Layer::Dense { channels, norm: false, activation }
}

/// A small network with all layers that a convolutional file holds.
fn network(policy: HeadOutput, value: HeadOutput, excited: bool) -> Network {
    let (relu, identity) = (Activation::Relu, Activation::Identity);
    let mut block = vec![conv(3, 6, true, relu), conv(3, 6, true, identity)];
    if excited {
        block.push(Layer::SqueezeExcite { channels: 2, activation: relu });
    }
    let trunk = vec![conv(3, 6, true, relu), Layer::Residual { layers: block, activation: relu }];
    let moves = match policy {
        HeadOutput::LeelaPlanes => vec![conv(3, 6, true, relu), conv(3, 80, false, identity)],
        _ => vec![conv(1, 2, true, relu), dense(nets::LEELA_MOVES, identity)],
    };
    let outputs = if value == HeadOutput::WinDrawLoss { 3 } else { 1 };
    let values = vec![conv(1, 4, true, relu), dense(8, relu), dense(outputs, identity)];
    let left = vec![conv(1, 4, true, relu), dense(8, relu), dense(1, relu)];
    let heads = vec![
        Head { kind: HeadKind::Moves, output: policy, layers: moves },
        Head { kind: HeadKind::Value, output: value, layers: values },
        Head::plain(HeadKind::MovesLeft, left),
    ];
    let description = Description { encoding: Encoding::Leela112, trunk, heads };
    Network::random(description, 7).unwrap()
}

fn read(bytes: &[u8]) -> Result<Network, String> {
    Network::from_bytes(bytes, "folder/some.pb.gz").map_err(|error| error.to_string())
}

#[test]
fn what_is_written_is_read() {
    for (policy, value, excited) in [
        (HeadOutput::LeelaPlanes, HeadOutput::WinDrawLoss, true),
        (HeadOutput::LeelaMoves, HeadOutput::Expectation, false),
    ] {
        let network = network(policy, value, excited);
        let back = read(&leela_file(&network).unwrap()).unwrap();
        assert_eq!(back.name, "some");
        assert_eq!(back.description, network.description);
        for (name, tensor) in &network.tensors {
            let found = back.tensor(name).unwrap();
            assert_eq!(found.shape, tensor.shape, "{name}");
            let range = tensor.data.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            for (one, other) in tensor.data.iter().zip(&found.data) {
                assert!((one - other).abs() <= range * 4e-5 + 1e-12, "{name}: {one} {other}");
            }
        }
        // Our own file keeps it whole.
        let own = Network::from_bytes(&back.to_bytes().unwrap(), "own").unwrap();
        assert!(own == back);
    }
}

#[test]
fn a_plain_file_is_read_too() {
    let network = network(HeadOutput::LeelaPlanes, HeadOutput::WinDrawLoss, true);
    let compressed = leela_file(&network).unwrap();
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*compressed), &mut plain)
        .unwrap();
    assert!(read(&plain).unwrap().tensors == read(&compressed).unwrap().tensors);
}

#[test]
fn a_file_cut_anywhere_is_refused_in_a_sentence() {
    let bytes =
        leela_file(&network(HeadOutput::LeelaMoves, HeadOutput::Expectation, false)).unwrap();
    for end in (2..bytes.len()).step_by(97) {
        let error = read(&bytes[..end]).unwrap_err();
        assert!(
            error.starts_with("`folder/some.pb.gz` cannot be used as a Leela network: "),
            "{error}"
        );
    }
    assert!(read(&bytes[..1]).unwrap_err().contains("safetensors"));
}

#[test]
fn a_network_of_ours_is_no_file_of_leelas() {
    let network = Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap();
    assert_eq!(leela_file(&network).unwrap_err(), "its input is batch-first-15");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changed_bytes_never_panic(places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        static PLAIN: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
            let network = network(HeadOutput::LeelaPlanes, HeadOutput::WinDrawLoss, true);
            let mut plain = Vec::new();
            let bytes = leela_file(&network).unwrap();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*bytes), &mut plain).unwrap();
            plain
        });
        let mut bytes = PLAIN.clone();
        for (place, value) in places {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(&bytes);
    }
}
