//! Writes the input planes of positions and what the reference computes from them: for outside
//! judges of the same network in another runtime.
//!
//!     cargo run --release -p batch-first-eval --example reference_outputs -- NETWORK POSITIONS OUT
//!
//! A line of POSITIONS is a FEN, then perhaps ` moves ` and moves in UCI. Numbers are 32-bit,
//! little-endian: OUT.planes `[positions][planes][64]`, and for each head OUT.HEAD
//! `[positions][outputs]`.

use std::{collections::BTreeMap, path::Path};

use board::Position;
use eval::{Batch, reference};
use nets::{HeadKind, Network, input_planes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [network, positions, out] = arguments.as_slice() else {
        return Err("reference_outputs NETWORK POSITIONS OUT".into());
    };
    let network = Network::load(Path::new(network))?;
    let encoding = network.description.encoding;
    let kinds: Vec<HeadKind> = network.description.heads.iter().map(|head| head.kind).collect();
    let mut files: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
    for line in std::fs::read_to_string(positions)?.lines() {
        let mut batch = Batch::default();
        batch.push(&position(line)?, true, &[]);
        let seen = batch.seen(0);
        files.entry("planes").or_default().extend(input_planes(encoding, &seen));
        for (kind, logits) in reference::run_heads(&network, &seen, &kinds)? {
            files.entry(kind.name()).or_default().extend(logits);
        }
    }
    for (name, numbers) in files {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        std::fs::write(format!("{out}.{name}"), bytes)?;
    }
    Ok(())
}

/// The position of a line, which remembers those before it.
fn position(line: &str) -> Result<Position, board::BoardError> {
    let (fen, moves) = line.split_once(" moves ").unwrap_or((line, ""));
    let mut position = Position::read_fen(fen, None)?.position.remembering();
    for text in moves.split_whitespace() {
        position.play(board::parse_uci(&position, text)?);
    }
    Ok(position)
}
