//! A run on a file of Lichess's evaluation database, read while it trains.

use std::{fmt::Write as _, sync::atomic::AtomicBool};

use board::Position;
use nets::{Activation, Description, HeadKind, Network};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use train::{NoProgress, train};

use super::random_games::{Interrupt, load, material, prepare, story};

/// Positions of random games as lines of Lichess's evaluation database, with the material balance
/// as their value.
fn evaluations(count: usize) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    let mut position = Position::default();
    let mut text = String::new();
    for _ in 0..count {
        let legal = position.legal_moves();
        if legal.is_empty() || position.ply() > 80 {
            position = Position::default();
            continue;
        }
        let captures: Vec<_> = legal.iter().copied().filter(|mv| mv.is_capture()).collect();
        let from =
            if captures.is_empty() || random.random_bool(0.5) { &legal[..] } else { &captures };
        let mv = from[random.random_range(0..from.len())];
        let (fen, cp, line) =
            (position.fen(), 100 * material(&position), board::to_uci(&position, mv));
        let four: Vec<&str> = fen.split(' ').take(4).collect();
        let pv = format!(r#"{{"cp":{cp},"line":"{line}"}}"#);
        writeln!(
            text,
            r#"{{"fen":"{}","evals":[{{"pvs":[{pv}],"knodes":1,"depth":9}}]}}"#,
            four.join(" ")
        )
        .unwrap();
        position.play(mv);
    }
    text
}

#[test]
fn cockfish_learns_from_a_streamed_file() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare(folder.path(), HeadKind::Value);
    let file = folder.path().join("lichess.jsonl");
    std::fs::write(&file, evaluations(6000) + "nonsense\n").unwrap();
    let stream = format!("data={{ stream = '{}', shuffle = 500, mirror = false }}", file.display());
    let changes = [
        stream.as_str(),
        "model={ start = 'cockfish', filters = 8, blocks = 1, activation = 'silu', pooling = false, head = 'value' }",
        "loss.value={ tanh = { scale = 400 } }",
        "optimizer.dropout=0.1",
        "training.steps=200",
    ];
    let never = AtomicBool::new(false);
    let whole = load(&config, &changes);
    let outcome = train(&whole, false, &never, &mut NoProgress).unwrap();
    let network = Network::load(outcome.network.as_ref().unwrap()).unwrap();
    let choice =
        nets::Cockfish { filters: 8, blocks: 1, activation: Activation::Silu, global_mean: false };
    assert_eq!(network.description, Description::cockfish(&choice));
    let measures = &outcome.measures[0];
    assert_eq!(measures.source, "lichess");
    assert!(measures.ranking.tau_b > 0.5, "{:?}", measures.ranking);
    let seen = &network.provenance["streamed"];
    assert!(seen.contains("1 lines that are not the expected JSON"), "{seen}");

    let stop = AtomicBool::new(false);
    let left = load(&config, &[&changes[..], &["run.name=left"]].concat());
    train(&left, false, &stop, &mut Interrupt { after: 117, stop: Some(&stop) }).unwrap();
    let resumed = train(&left, true, &never, &mut NoProgress).unwrap();
    let again = Network::load(resumed.network.as_ref().unwrap()).unwrap();
    assert!(again.tensors == network.tensors && again.calibration == network.calibration);
    assert!(story(&resumed.folder) == story(&outcome.folder));
}
