//! Files of Leela's: what is written is read, and damaged or foreign ones end in a sentence.

#![allow(clippy::unwrap_used, reason = "a test")]

use nets::{
    Activation, Description, Encoding, Head, HeadKind, Layer, Leela, LeelaAttention, LeelaInput,
    Network, Padding, leela_file,
};
use proptest::prelude::*;

/// A small network with all layers that a convolutional file holds.
fn network(is_older: bool) -> Network {
    let squeezed = if is_older { 0 } else { 2 };
    let input = LeelaInput::Classical;
    let choice = Leela { input, channels: 6, blocks: 1, squeezed, is_older };
    let mut description = Description::leela(&choice);
    let (relu, dense) = (Activation::Relu, |channels| Layer::Dense {
        channels,
        norm: false,
        activation: Activation::Relu,
    });
    let conv = Layer::Conv {
        kernel: 1,
        channels: 4,
        padding: Padding::Same,
        norm: true,
        activation: relu,
    };
    let left = vec![conv, dense(8), dense(1)];
    description.heads.push(Head::plain(HeadKind::MovesLeft, left));
    Network::random(description, 7).unwrap()
}

/// A small network with an attention body.
fn attention(generated: usize, activation: Activation) -> Network {
    let description = Description::leela_attention(&LeelaAttention {
        input: LeelaInput::Repeats,
        channels: 6,
        layers: 2,
        heads: 3,
        hidden: 10,
        embedded: 2,
        generated,
        activation,
    });
    let mut network = Network::random(description, 7).unwrap();
    // Otherwise a norm or gate in the wrong place would not be seen.
    for (number, (name, tensor)) in network.tensors.iter_mut().enumerate() {
        if name.ends_with(".scale") || name.ends_with(".shift") {
            let places = tensor.data.iter_mut().enumerate();
            places.for_each(|(at, value)| *value += ((at * 7 + number) % 13) as f32 * 0.05);
        }
    }
    network
}

fn read(bytes: &[u8]) -> Result<Network, String> {
    Network::from_bytes(bytes, "folder/some.pb.gz").map_err(|error| error.to_string())
}

#[test]
fn what_is_written_is_read() {
    let networks = [
        network(false),
        network(true),
        attention(0, Activation::Relu),
        attention(4, Activation::Mish),
    ];
    for network in networks {
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
    let network = network(false);
    let compressed = leela_file(&network).unwrap();
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*compressed), &mut plain)
        .unwrap();
    assert!(read(&plain).unwrap().tensors == read(&compressed).unwrap().tensors);
}

#[test]
fn a_file_cut_anywhere_is_refused_in_a_sentence() {
    let bytes = leela_file(&network(false)).unwrap();
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

#[test]
fn what_a_file_has_no_place_for_is_refused() {
    let mut description = network(true).description;
    let Layer::Conv { activation, .. } = &mut description.trunk[0] else { panic!() };
    *activation = Activation::Mish;
    let refused = leela_file(&Network::random(description, 1).unwrap()).unwrap_err();
    assert!(refused.starts_with("it has layers"), "{refused}");
}

#[test]
fn a_lost_bias_is_refused() {
    let mut network = attention(4, Activation::Mish);
    let bias = "trunk.6.layers.0.board.compress.bias";
    network.tensors.get_mut(bias).unwrap().data[0] = 3.0;
    assert_eq!(
        leela_file(&network).unwrap_err(),
        format!("a file of Leela's has no place for {bias}")
    );
}

#[test]
fn descriptions_that_nothing_runs_are_refused() {
    let whole = attention(4, Activation::Relu).description;
    let refusal = |change: &dyn Fn(&mut Description)| {
        let mut description = whole.clone();
        change(&mut description);
        description.check().unwrap_err()
    };
    let pool = Layer::Pool { pooling: nets::Pooling::Max, size: 2 };
    let after_pool = refusal(&|description| description.trunk.insert(6, pool.clone()));
    assert!(after_pool.contains("attention over 16 cells"), "{after_pool}");
    let heads = refusal(&|description| {
        let Layer::Residual { layers, .. } = &mut description.trunk[6] else { panic!() };
        let Layer::Attention(attention) = &mut layers[0] else { panic!() };
        (attention.heads, attention.width) = (129, 129);
    });
    assert!(heads.contains("129 heads"), "{heads}");
    let embedding = refusal(&|description| {
        let embedding = description.trunk[0].clone();
        let Layer::Residual { layers, .. } = &mut description.trunk[6] else { panic!() };
        layers.insert(0, embedding);
    });
    assert!(embedding.contains("must come first"), "{embedding}");
    let moved = refusal(&|description| description.trunk.swap(0, 1));
    assert!(moved.contains("comes first"), "{moved}");
    let divided = refusal(&|description| description.trunk[2] = Layer::LayerNorm { millionths: 0 });
    assert!(divided.contains("divide by zero"), "{divided}");
    let input = refusal(&|description| {
        description.encoding = Encoding::BatchFirst15;
        description.trunk[0] = Layer::Branches {
            branches: vec![nets::Branch { kernel: [3, 3], dilation: [1, 1], channels: 6 }],
            norm: true,
            activation: Activation::Relu,
        };
    });
    assert!(input.contains("needs Leela's planes"), "{input}");
}

#[test]
fn formats_are_kept_and_unknown_ones_refused() {
    for input in LeelaInput::ALL {
        let mut network = network(false);
        network.description.encoding = Encoding::Leela(input);
        let back = read(&leela_file(&network).unwrap()).unwrap();
        assert_eq!(back.description.encoding, network.description.encoding);
        let own = Network::from_bytes(&back.to_bytes().unwrap(), "own").unwrap();
        assert_eq!(own.description, back.description);
    }
    assert_eq!(LeelaInput::of_number(6), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changed_bytes_never_panic(places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        static PLAIN: std::sync::LazyLock<[Vec<u8>; 2]> = std::sync::LazyLock::new(|| {
            [network(false), attention(4, Activation::Mish)].map(|network| {
                let mut plain = Vec::new();
                let bytes = leela_file(&network).unwrap();
                std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*bytes), &mut plain)
                    .unwrap();
                plain
            })
        });
        for plain in &*PLAIN {
            let mut bytes = plain.clone();
            for (place, value) in &places {
                let at = place.index(bytes.len());
                bytes[at] = *value;
            }
            if let Ok(network) = read(&bytes) {
                // All tensors are there and have the shapes of the layers.
                network.to_bytes().unwrap();
            }
        }
    }
}
