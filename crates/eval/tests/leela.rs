//! Networks of Leela's give the answers of Leela Chess Zero's own code.
//!
//! The folder `BATCH_FIRST_LEELA` holds network files and `golden.json`: for each file positions
//! (`fen` or the starting position, then `moves`), and for each position `q` (wins minus losses),
//! `d` (draws), perhaps `m` (plies until the end), the `legal` moves with their `index` in the first
//! format, their `logit` or the whole `policy`, and perhaps all `planes` that are set, as `[plane, mask, value]`. Without it the
//! test is skipped.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{path::PathBuf, sync::Arc};

use board::{CastlingMode, Game, Position, parse_uci, testing::skip};
use eval::{
    Batch, Precision,
    cpu::{CpuLogits, CpuOptions, CpuPath},
    reference,
};
use nets::{
    Encoding, HeadKind, HeadOutput, LEELA_PLANES, LeelaInput, LeelaPlanes, MovePlaces, Network,
    policy_index,
};
use serde_json::Value;

fn position(of: &Value) -> Position {
    let start = of["fen"].as_str().map_or_else(Position::default, |fen| {
        Position::from_fen(fen, CastlingMode::Standard).unwrap()
    });
    let mut game = Game::new(start.remembering());
    for text in of["moves"].as_array().unwrap() {
        game.play(parse_uci(game.position(), text.as_str().unwrap()).unwrap());
    }
    game.position().clone()
}

fn check_planes(encoding: Encoding, batch: &Batch, expected: &Value, name: &str) {
    let (Some(expected), Encoding::Leela(input)) = (expected.as_array(), encoding) else { return };
    let planes = LeelaPlanes::of(&batch.seen(0), input);
    let mut found = Vec::new();
    for plane in (0..LEELA_PLANES).filter(|&plane| planes.mask(plane) != 0) {
        found.push((plane as u64, planes.mask(plane), planes.value(plane)));
    }
    let expected: Vec<_> = expected
        .iter()
        .map(|one| {
            let mask = one[1].as_str().unwrap().trim_start_matches("0x");
            let mask = u64::from_str_radix(mask, 16).unwrap();
            (one[0].as_u64().unwrap(), mask, one[2].as_f64().unwrap() as f32)
        })
        .collect();
    assert_eq!(found, expected, "{name}");
}

/// Compares the outputs of all heads with the expected ones: `most` are the largest differences of
/// `q` and `d`, and of a logit or a ply.
fn check(network: &Network, of: &Value, heads: &[&[f32]], name: &str, most: [f64; 2]) {
    let (value, moves) = (heads[0], heads[1]);
    if let (Some(left), Some(expected)) = (heads.get(2), of["m"].as_f64()) {
        assert!((f64::from(left[0]) - expected).abs() < most[1], "{name}: {} plies", left[0]);
    }
    let output = |kind| network.description.head(kind).unwrap().output;
    let q = f64::from(output(HeadKind::Value).value_of(value));
    assert!((q - of["q"].as_f64().unwrap()).abs() < most[0], "{name}: q {q}");
    if output(HeadKind::Value) == HeadOutput::WinDrawLoss {
        let sum: f64 = value.iter().map(|&logit| f64::from(logit).exp()).sum();
        let d = f64::from(value[1]).exp() / sum;
        assert!((d - of["d"].as_f64().unwrap()).abs() < most[0], "{name}: d {d}");
    }
    let (position, encoding) = (position(of), network.description.encoding);
    let squares = nets::Squares::of(&position);
    let legal = of["legal"].as_array().unwrap();
    for (number, text) in legal.iter().map(|text| text.as_str().unwrap()).enumerate() {
        let index = policy_index(parse_uci(&position, text).unwrap(), position.turn());
        let places = MovePlaces::new(output(HeadKind::Moves), encoding, &squares);
        let found = f64::from(moves[places.of(index)]);
        let place_in =
            |encoding| MovePlaces::new(HeadOutput::LeelaMoves, encoding, &squares).of(index);
        let expected = match of["policy"].as_array() {
            Some(policy) => &policy[place_in(encoding)],
            None => &of["logit"][number],
        };
        let expected = expected.as_f64().unwrap();
        assert!((found - expected).abs() < most[1], "{name}, {text}: {found}, not {expected}");
        let place = place_in(Encoding::Leela(LeelaInput::Classical)) as u64;
        assert_eq!(place, of["index"][number].as_u64().unwrap(), "{name}, {text}");
    }
}

#[test]
fn networks_answer_as_leelas_own_code_does() {
    let Some(folder) = std::env::var_os("BATCH_FIRST_LEELA").map(PathBuf::from) else {
        return skip("leela", "BATCH_FIRST_LEELA names no folder");
    };
    let golden: Value =
        serde_json::from_slice(&std::fs::read(folder.join("golden.json")).unwrap()).unwrap();
    let mut checked = 0;
    for (file, positions) in golden.as_object().unwrap() {
        let network = Arc::new(Network::load(&folder.join(file)).unwrap());
        for (number, of) in positions.as_array().unwrap().iter().enumerate() {
            let name = format!("{file}, position {number}");
            let mut batch = Batch::default();
            batch.push(&position(of), true, &[]);
            check_planes(network.description.encoding, &batch, &of["planes"], &name);
            let has_left = network.description.head(HeadKind::MovesLeft).is_some();
            let kinds = [HeadKind::Value, HeadKind::Moves, HeadKind::MovesLeft];
            let kinds = if has_left { &kinds[..] } else { &kinds[..2] };
            let plain = reference::run_heads(&network, &batch.seen(0), kinds).unwrap();
            let heads: Vec<&[f32]> = kinds.iter().map(|kind| plain[kind].as_slice()).collect();
            check(&network, of, &heads, &format!("{name}, reference"), [2e-4, 2e-3]);
            for path in CpuPath::ALL {
                for precision in [Precision::F32, Precision::Bf16] {
                    if path.obstacle(precision).is_some() {
                        continue;
                    }
                    let options =
                        CpuOptions { threads: 1, path: Some(path), precision: Some(precision) };
                    let mut logits = CpuLogits::new(Arc::clone(&network), options).unwrap();
                    let mut of_head = |&kind| logits.logits_of(&batch, kind).unwrap();
                    let own: Vec<_> = kinds.iter().map(&mut of_head).collect();
                    let own: Vec<&[f32]> = own.iter().map(Vec::as_slice).collect();
                    let most = if precision == Precision::F32 { [2e-4, 2e-3] } else { [0.03, 0.3] };
                    let name = format!("{name}, {path} in {precision}");
                    check(&network, of, &own, &name, most);
                }
            }
            checked += 1;
        }
    }
    assert!(checked >= 24, "{checked} positions");
    let all = golden.as_object().unwrap().values();
    assert_eq!(checked, all.map(|positions| positions.as_array().unwrap().len()).sum::<usize>());
}
