//! Network files from outside: whole, damaged, or made to do harm.

use nets::{
    Activation, Branch, Calibration, Description, Encoding, Head, HeadKind, Layer, NetError,
    Network, Padding,
};
use proptest::prelude::*;

/// A small network, so that many damaged files can be tried.
fn small() -> Network {
    let layers = vec![
        Layer::Branches {
            branches: vec![Branch { kernel: [3, 3], dilation: [2, 2], channels: 3 }],
            norm: true,
            activation: Activation::Relu,
        },
        Layer::Conv {
            kernel: 8,
            channels: 1,
            padding: Padding::Valid,
            norm: false,
            activation: Activation::Identity,
        },
    ];
    let description = Description {
        encoding: Encoding::BatchFirst15,
        trunk: Vec::new(),
        heads: vec![Head::plain(HeadKind::Value, layers)],
    };
    let mut network = Network::random(description, 7).expect("can run");
    network.calibration = Calibration { bins: vec![10.0, 40.0], ..Calibration::default() };
    network.provenance.insert("data".to_owned(), "none".to_owned());
    network
}

fn read(bytes: &[u8]) -> Result<Network, NetError> {
    let result = Network::from_bytes(bytes, "test");
    if let Err(error) = &result {
        assert!(error.to_string().len() < 2000, "messages stay readable");
    }
    result
}

/// The file with its metadata text rewritten and, where asked, without a checksum.
fn with_metadata(network: &Network, change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let bytes = network.to_bytes().expect("writable");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let mut header: serde_json::Value =
        serde_json::from_slice(&bytes[8..8 + length]).expect("JSON");
    let text = header["__metadata__"]["batch-first"].as_str().expect("text").to_owned();
    let mut metadata: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    change(&mut metadata);
    header["__metadata__"]["batch-first"] = metadata.to_string().into();
    let mut header = header.to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes()[..], &header, &bytes[8 + length..]].concat()
}

fn without_checksum(network: &Network, change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    with_metadata(network, |metadata| {
        metadata.as_object_mut().expect("an object").remove("checksum");
        change(metadata);
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// A changed byte is an error, or it changed nothing that is read.
    #[test]
    fn changed_bytes_are_seen(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let network = small();
        let mut bytes = network.to_bytes().expect("writable");
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(back) = read(&bytes) {
            prop_assert!(back == network, "byte {at}");
        }
    }

    #[test]
    fn a_cut_file_is_refused(keep in any::<prop::sample::Index>()) {
        let bytes = small().to_bytes().expect("writable");
        prop_assert!(read(&bytes[..keep.index(bytes.len())]).is_err());
    }

    #[test]
    fn an_extended_file_is_refused(extra in prop::collection::vec(any::<u8>(), 1..64)) {
        let bytes = [small().to_bytes().expect("writable"), extra].concat();
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
    }

    /// Without a checksum to hide behind: wild numbers in the metadata are refused or harmless.
    #[test]
    fn wild_sizes_are_refused(size in prop_oneof![Just(u64::MAX), Just(1 << 63), Just(1 << 40), 0..20_000_u64], field in 0..3) {
        let network = small();
        let bytes = without_checksum(&network, |metadata| {
            let layers = &mut metadata["description"]["heads"][0]["layers"];
            match field {
                0 => layers[0]["branches"][0]["channels"] = size.into(),
                1 => layers[0]["branches"][0]["kernel"][0] = size.into(),
                _ => layers[1]["kernel"] = size.into(),
            }
        });
        if let Ok(back) = read(&bytes) {
            prop_assert!(back == network);
        }
    }
}

#[test]
fn every_byte_and_every_length() {
    let network = small();
    let bytes = network.to_bytes().expect("writable");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(read(&damaged).map_or(true, |back| back == network), "byte {at}");
        assert!(read(&bytes[..at]).is_err(), "length {at}");
    }
}

#[test]
fn a_changed_weight_is_damage() {
    let mut bytes = small().to_bytes().expect("writable");
    let last = bytes.len() - 3;
    bytes[last] ^= 4;
    assert!(matches!(read(&bytes), Err(NetError::Damaged { .. })));
}

#[test]
fn a_file_without_checksum_is_read() {
    let network = small();
    assert!(read(&without_checksum(&network, |_| {})).expect("readable") == network);
}

#[test]
fn what_the_metadata_may_not_say() {
    let network = small();
    for change in [
        (|metadata| metadata["format"] = 2.into()) as fn(&mut serde_json::Value),
        |metadata| metadata["calibration"]["value"]["inputs"] = serde_json::json!([1.0, 0.0]),
        |metadata| metadata["calibration"]["wdl"]["scale"] = 0.into(),
        |metadata| metadata["calibration"]["bins"] = serde_json::json!([2.0, 1.0]),
        |metadata| metadata["description"]["heads"] = serde_json::json!([]),
        |metadata| metadata["description"]["encoding"] = "another".into(),
        |metadata| metadata["description"]["heads"][0]["layers"][1]["layer"] = "dense".into(),
        |metadata| {
            metadata["description"]["heads"][0]["layers"][0]["branches"][0]["channels"] = 4.into()
        },
        |metadata| *metadata = serde_json::Value::Null,
    ] {
        assert!(read(&without_checksum(&network, change)).is_err());
    }
}

#[test]
fn a_header_that_claims_more_than_there_is() {
    for length in [u64::MAX, 1 << 62, 1 << 32, 100_000_000, 9] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(b"{}      ");
        assert!(read(&bytes).is_err(), "{length}");
    }
}

#[test]
fn values_that_are_no_weights() {
    for (tensor, value) in [
        ("value.0.branches.0.weight", f32::NAN),
        ("value.1.bias", f32::INFINITY),
        ("value.0.norm.variance", -1.0),
    ] {
        let mut network = small();
        network.tensors.get_mut(tensor).expect(tensor).data[0] = value;
        let bytes = network.to_bytes().expect("writable");
        let error = read(&bytes).expect_err(tensor);
        assert!(
            matches!(&error, NetError::Tensor { tensor: named, .. } if named == tensor),
            "{error}"
        );
    }
}

#[test]
fn incomplete_networks_are_not_written() {
    let mut network = small();
    network.tensors.remove("value.1.bias");
    assert!(network.to_bytes().is_err());
    let mut network = small();
    network.tensors.get_mut("value.1.bias").expect("there").shape = vec![2];
    assert!(network.to_bytes().is_err());
    // What the description does not name stays out of the file, and out of the checksum.
    let mut network = small();
    let extra = network.tensors["value.1.bias"].clone();
    network.tensors.insert("extra".to_owned(), extra);
    assert!(read(&network.to_bytes().expect("writable")).expect("readable") == small());
}

#[test]
fn files_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.safetensors");
    let network = small();
    network.save(&path).expect("saved");
    network.save(&path).expect("replaced");
    assert!(Network::load(&path).expect("loaded") == network);
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("listed").collect();
    assert_eq!(names.len(), 1, "no temporary file is left");
    let error = Network::load(&folder.path().join("none.safetensors")).expect_err("no such file");
    assert!(
        matches!(error, NetError::Io { .. }) && error.to_string().contains("none.safetensors"),
        "{error}"
    );
    assert!(network.save(&folder.path().join("no/folder.safetensors")).is_err());
}

#[test]
fn the_fingerprint_names_the_weights() {
    let network = small();
    assert_eq!(network.fingerprint().len(), 12);
    let mut renamed = network.clone();
    renamed.name = "other".to_owned();
    assert_eq!(renamed.fingerprint(), network.fingerprint());
    let mut changed = network.clone();
    changed.tensors.get_mut("value.1.bias").expect("there").data[0] += 1.0;
    assert_ne!(changed.fingerprint(), network.fingerprint());
}
