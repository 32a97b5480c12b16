//! Runs of value and move heads: interrupted and resumed, with two heads, and refused.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::AtomicBool,
};

use board::{CastlingMode, Position};
use nets::{Description, Encoding, Head, HeadKind, Network};
use train::{Dataset, Ending, Event, NoProgress, TrainError, read_journal, train};

use super::random_games::{Interrupt, START, description, games, load, prepare, story};

#[test]
fn an_interrupted_run_equals_an_uninterrupted_one_and_learns() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare(folder.path(), HeadKind::Value);
    let never = AtomicBool::new(false);

    let whole = load(&config, &["run.name=whole"]);
    let outcome = train(&whole, false, &never, &mut NoProgress).unwrap();
    assert_eq!((outcome.ending, outcome.step), (Ending::Finished, 300));
    let network = Network::load(outcome.network.as_ref().unwrap()).unwrap();
    let measures = &outcome.measures[0];
    assert_eq!(measures.source, "random");
    assert!(measures.ranking.tau_b > 0.6, "material is easily learned: {:?}", measures.ranking);
    // Labels are centipawns: the calibrated network knows what a rook is worth.
    let score = |fen: &str| {
        let position = Position::from_fen(fen, CastlingMode::Standard).unwrap();
        let examples = train::Examples {
            squares: vec![nets::Squares::of(&position)],
            ..train::Examples::default()
        };
        let mut backend = train::make_backend(
            &whole.training,
            &network,
            &[HeadKind::Value.into()],
            &train::OptimizerSettings::default(),
            1,
        )
        .unwrap();
        network.calibration.value.apply(backend.logits(HeadKind::Value, &examples).unwrap()[0])
    };
    let (level, up) =
        (score(START), score("1nbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQk - 0 1"));
    assert!(up > level, "{level} {up}");
    assert!(network.calibration.is_valid() && network.calibration.value.inputs.len() > 3);
    assert!(network.provenance.contains_key("value: validation random"));
    let report = std::fs::read_to_string(outcome.folder.join("report.html")).unwrap();
    assert!(report.matches("<svg").count() == 3 && report.contains("tau-b"));
    assert!(train::Checkpoint::list(&outcome.folder).unwrap().len() == 2);

    // Ctrl-C between two lines of the journal.
    let polite = load(&config, &["run.name=polite"]);
    let stop = AtomicBool::new(false);
    let left =
        train(&polite, false, &stop, &mut Interrupt { after: 23, stop: Some(&stop) }).unwrap();
    assert_eq!((left.ending, left.step, left.network), (Ending::Interrupted, 23, None));
    assert!(train(&polite, false, &never, &mut NoProgress).is_err(), "a run is not begun twice");
    let resumed = train(&polite, true, &never, &mut NoProgress).unwrap();

    // A crash after the checkpoint of step 40 and lines of later steps.
    let crashed = load(&config, &["run.name=crashed"]);
    let crash = catch_unwind(AssertUnwindSafe(|| {
        let _ = train(&crashed, false, &never, &mut Interrupt { after: 47, stop: None });
    }));
    assert!(crash.is_err());
    let restarted = train(&crashed, true, &never, &mut NoProgress).unwrap();

    for other in [resumed, restarted] {
        let again = Network::load(other.network.as_ref().unwrap()).unwrap();
        assert!(again.tensors == network.tensors, "{}: other weights", other.folder.display());
        assert!(again.calibration == network.calibration);
        assert!(other.measures == outcome.measures);
        assert!(story(&other.folder) == story(&outcome.folder));
    }

    // A change of pace is part of what the network tells of itself.
    let slower = load(&config, &["run.name=slower"]);
    let stop = AtomicBool::new(false);
    train(&slower, false, &stop, &mut Interrupt { after: 23, stop: Some(&stop) }).unwrap();
    let slower = load(&config, &["run.name=slower", "training.learning_rate=0.0005"]);
    let told = train(&slower, true, &never, &mut NoProgress).unwrap().network.unwrap();
    let told = Network::load(&told).unwrap().provenance;
    let change = &told["value: changed"];
    assert!(change.starts_with("at step 23: training.learning_rate from "), "{change}");
    assert!(change.ends_with(" to 0.0005"), "{change}");
    assert!(network.provenance.keys().all(|key| !key.ends_with("changed")));

    // What must not change on the way.
    let changed = load(&config, &["run.name=polite", "training.batch=32"]);
    let error = train(&changed, true, &never, &mut NoProgress).unwrap_err();
    assert!(error.to_string().contains("training.batch"), "{error}");
}

/// Batch norm's running statistics are those of the weights that the run leaves.
#[test]
fn a_short_run_leaves_what_it_learned() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare(folder.path(), HeadKind::Value);
    let short = load(&config, &["training.steps=25"]);
    let outcome = train(&short, false, &AtomicBool::new(false), &mut NoProgress).unwrap();
    let learned = read_journal(&outcome.folder).unwrap();
    let mut learned = learned.iter().filter_map(|event| match event {
        Event::Train { tau, .. } => Some(*tau),
        _ => None,
    });
    let (learned, judged) = (learned.next_back().unwrap(), outcome.measures[0].ranking.tau_b);
    assert!(judged > 0.8 * learned && learned > 0.2, "{learned} in training, {judged} in play");
}

#[test]
fn move_heads_rank_the_played_moves() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare(folder.path(), HeadKind::Moves);
    let outcome = train(
        &load(&config, &["training.steps=400"]),
        false,
        &AtomicBool::new(false),
        &mut NoProgress,
    );
    let outcome = outcome.unwrap();
    let measures = &outcome.measures[0];
    assert!(measures.ranking.tau_b > 0.25, "{:?}", measures.ranking);
    let agreement = measures.agreement.as_ref().unwrap();
    assert!(
        agreement.positions > 100 && agreement.top_1 <= agreement.top_3 && agreement.top_3 > 0.0
    );
    let network = Network::load(outcome.network.as_ref().unwrap()).unwrap();
    assert_eq!(network.calibration.bins.len(), train::calibrate::BINS - 1);
}

#[test]
fn two_heads_learn_over_one_trunk() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare(folder.path(), HeadKind::Value);
    let model = folder.path().join("description.json");
    let [value, moves] = [HeadKind::Value, HeadKind::Moves].map(description);
    let trunk = value.heads[0].layers[..2].to_vec();
    let heads = [value, moves].map(|one| {
        let head = &one.heads[0];
        Head::plain(head.kind, head.layers[2..].to_vec())
    });
    let shared = Description { encoding: Encoding::BatchFirst15, trunk, heads: heads.to_vec() };
    std::fs::write(&model, serde_json::to_string(&shared).unwrap()).unwrap();
    // Captures are played more often than not: that much of a policy can be learned.
    let changes = [
        "model.head=['value', 'moves']",
        "loss.moves=cross-entropy",
        "loss.moves_weight=0.5",
        "data.blunder_margin=100000",
    ];
    let whole = load(&config, &changes);
    let never = AtomicBool::new(false);
    let outcome = train(&whole, false, &never, &mut NoProgress).unwrap();
    let [value, policy] = outcome.measures.as_slice() else { panic!("{:?}", outcome.measures) };
    assert_eq!((value.head, policy.head), (Some(HeadKind::Value), Some(HeadKind::Moves)));
    assert!(value.ranking.tau_b > 0.4, "{:?}", value.ranking);
    let agreement = policy.agreement.as_ref().unwrap();
    // About 30 legal moves: 3.4 is the cross entropy of knowing nothing.
    assert!(policy.loss < 3.0 && agreement.top_1 > 0.08, "{policy:?}");
    let network = Network::load(outcome.network.as_ref().unwrap()).unwrap();
    assert_eq!(network.calibration.move_scores, nets::MoveScores::Policy);
    assert!(
        network.calibration.moves.outputs[1] > 0.3 && network.calibration.value.inputs.len() > 3
    );
    assert!(
        ["value: loss", "moves: loss"].iter().all(|line| network.provenance.contains_key(*line))
    );
    let lines = read_journal(&outcome.folder).unwrap();
    let parts = lines
        .iter()
        .filter(|event| matches!(event, Event::Train { losses, .. } if losses.len() == 2));
    assert!(parts.count() == 60);

    let stop = AtomicBool::new(false);
    let left = load(&config, &[&changes[..], &["run.name=left"]].concat());
    train(&left, false, &stop, &mut Interrupt { after: 23, stop: Some(&stop) }).unwrap();
    let resumed = train(&left, true, &never, &mut NoProgress).unwrap();
    let again = Network::load(resumed.network.as_ref().unwrap()).unwrap();
    assert!(again.tensors == network.tensors && again.calibration == network.calibration);
    assert!(story(&resumed.folder) == story(&outcome.folder));
}

#[test]
fn a_network_has_the_heads_that_were_trained() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare(folder.path(), HeadKind::Value);
    let model = folder.path().join("description.json");
    let mut both = description(HeadKind::Value);
    both.heads.extend(description(HeadKind::Moves).heads);
    std::fs::write(&model, serde_json::to_string(&both).unwrap()).unwrap();
    let config = load(&config, &["training.steps=2"]);
    let outcome = train(&config, false, &AtomicBool::new(false), &mut NoProgress).unwrap();
    let network = Network::load(outcome.network.as_ref().unwrap()).unwrap();
    let heads: Vec<HeadKind> = network.description.heads.iter().map(|head| head.kind).collect();
    assert_eq!(heads, [HeadKind::Value], "nothing random is shipped");
}

#[test]
fn bad_runs_end_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare(folder.path(), HeadKind::Value);
    let never = AtomicBool::new(false);
    let wild = load(
        &config,
        &["run.name=wild", "training.learning_rate=1e30", "training.schedule.kind=constant"],
    );
    match train(&wild, false, &never, &mut NoProgress) {
        Err(TrainError::Diverged { step, .. }) => assert!(step < 300),
        other => panic!("{other:?}"),
    }
    let last = read_journal(&wild.folder()).unwrap().pop();
    assert!(
        matches!(&last, Some(Event::End { reason, .. }) if reason.starts_with("diverged")),
        "{last:?}"
    );
    for (change, word) in [
        ("data.directory=/nowhere", "nowhere"),
        ("data.sources=['selfplay']", "selfplay"),
        ("model.head=moves", "moves"),
        ("model.start=batch-last", "batch-last"),
    ] {
        let error = train(&load(&config, &[change]), false, &never, &mut NoProgress)
            .unwrap_err()
            .to_string();
        assert!(error.contains(word) && !error.contains('\n'), "{error}");
    }
    // No game of the one source is held out: known before the training, not after it.
    let one = folder.path().join("one.pgn");
    std::fs::write(&one, games(1)).unwrap();
    let options = data::ImportOptions { validation: 0.2, ..data::ImportOptions::default() };
    let both = [one, folder.path().join("random.pgn")];
    data::import(&both, &folder.path().join("both"), &options, &mut ()).unwrap();
    let data = format!("data.directory={}", folder.path().join("both").display());
    let only = load(&config, &[&data, "data.sources=['one']", "run.name=only"]);
    let error = train(&only, false, &never, &mut NoProgress).unwrap_err().to_string();
    assert!(error.contains("held-out") && !only.folder().exists(), "{error}");
    let short = load(&config, &["run.name=short", "training.max_minutes=1e-9"]);
    let outcome = train(&short, false, &never, &mut NoProgress);
    // No step was done, or one where the clock stood still: random weights need not be
    // calibratable, but nothing else may be wrong.
    match outcome {
        Ok(outcome) => {
            assert!(outcome.ending == Ending::OutOfTime && outcome.step <= 1, "{outcome:?}")
        }
        Err(error) => assert!(error.to_string().contains("cannot be calibrated"), "{error}"),
    }
    let dataset = Dataset::open(&folder.path().join("shards")).unwrap();
    assert_eq!(dataset.sources, ["random"]);
}
