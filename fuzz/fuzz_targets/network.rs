//! Network files from outside: a network that can be written again, or an error.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nets::{Activation, Branch, Description, Encoding, Head, HeadKind, Layer, Network, Padding};

/// A small sound file; most inputs are edits of it, so that they get past the first bytes.
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let layers = vec![
        Layer::Branches {
            branches: vec![Branch { kernel: [1, 1], dilation: [1, 1], channels: 1 }],
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
    let heads = vec![Head::plain(HeadKind::Value, layers)];
    let description = Description { encoding: Encoding::BatchFirst15, trunk: Vec::new(), heads };
    Network::random(description, 1).and_then(|network| network.to_bytes()).expect("a sound network")
});

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else { return };
    let bytes = match kind % 4 {
        0 => rest.to_vec(),
        // The sound file with its header replaced.
        1 => {
            let old = u64::from_le_bytes(SOUND[..8].try_into().expect("8 bytes")) as usize;
            [&(rest.len() as u64).to_le_bytes(), rest, &SOUND[8 + old..]].concat()
        }
        // The sound file with a few bytes changed.
        2 => {
            let mut bytes = SOUND.clone();
            for edit in rest.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
                bytes[at] = edit[2];
            }
            bytes
        }
        // The sound file without its checksum, with another text spliced into its metadata.
        _ => {
            let text = String::from_utf8_lossy(&SOUND).into_owned();
            let Some(at) = text.find("\\\"checksum\\\"") else { return };
            let at = at.saturating_sub(usize::from(rest.first().copied().unwrap_or(0)) * 2);
            let end = 8 + u64::from_le_bytes(SOUND[..8].try_into().expect("8 bytes")) as usize;
            let at = at.clamp(8, end);
            let header = [&SOUND[8..at], rest, &SOUND[(at + rest.len()).min(end)..end]].concat();
            [&(header.len() as u64).to_le_bytes(), &header[..], &SOUND[end..]].concat()
        }
    };
    if let Ok(network) = Network::from_bytes(&bytes, "fuzz") {
        let again = Network::from_bytes(&network.to_bytes().expect("what was read can be written"), "fuzz");
        assert!(again.expect("what was written can be read") == network);
    }
});
