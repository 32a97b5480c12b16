//! Whole runs on data made here: random games whose positions are labelled with their material
//! balance.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use board::{CastlingMode, Color, Position, Role, to_san};
use nets::{Activation, Branch, Description, Encoding, Head, HeadKind, Layer, Network, Padding};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use train::{
    Config, Dataset, Ending, Event, NoProgress, Progress, StepReport, TrainError, read_journal,
    search_grid, train, train_all,
};

const START: &str = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

/// White's material balance in pawns.
fn material(position: &Position) -> i32 {
    let worth =
        [(Role::Pawn, 1), (Role::Knight, 3), (Role::Bishop, 3), (Role::Rook, 5), (Role::Queen, 9)];
    let board = position.board();
    worth
        .iter()
        .map(|&(role, worth)| {
            let count = |color| (board.by_color(color) & board.by_role(role)).count() as i32;
            worth * (count(Color::White) - count(Color::Black))
        })
        .sum()
}

/// Games of random moves, captures preferred, so that the material differs.
fn games(count: usize) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut text = String::new();
    for game in 0..count {
        let mut position = Position::from_fen(START, CastlingMode::Standard).unwrap();
        let mut moves = String::new();
        for ply in 0..60 {
            let legal = position.legal_moves();
            if legal.is_empty() {
                break;
            }
            let captures: Vec<_> = legal.iter().copied().filter(|mv| mv.is_capture()).collect();
            let from =
                if captures.is_empty() || random.random_bool(0.5) { &legal[..] } else { &captures };
            let mv = from[random.random_range(0..from.len())];
            if ply % 2 == 0 {
                write!(moves, "{}. ", ply / 2 + 1).unwrap();
            }
            write!(moves, "{} ", to_san(&position, mv)).unwrap();
            position.play(mv);
            write!(moves, "{{ [%eval {}.00] }} ", material(&position)).unwrap();
        }
        let result = match material(&position) {
            3.. => "1-0",
            ..=-3 => "0-1",
            _ => "1/2-1/2",
        };
        writeln!(text, "[Event \"Random {game}\"]\n[Result \"{result}\"]\n\n{moves}{result}\n")
            .unwrap();
    }
    text
}

/// A network small enough for a test.
fn description(kind: HeadKind) -> Description {
    let conv = |kernel, channels, padding| Layer::Conv {
        kernel,
        channels,
        padding,
        norm: true,
        activation: Activation::Relu,
    };
    let input = Layer::Branches {
        branches: vec![
            Branch { kernel: [3, 3], dilation: [1, 1], channels: 12 },
            Branch { kernel: [2, 2], dilation: [2, 4], channels: 4 },
        ],
        norm: true,
        activation: Activation::Relu,
    };
    let mut layers = vec![input, conv(1, 16, Padding::Same)];
    let outputs = if kind == HeadKind::Value {
        layers.push(conv(8, 16, Padding::Valid));
        1
    } else {
        // Each square must see the whole board to know the material.
        layers.extend([7, 7, 3].map(|kernel| conv(kernel, 16, Padding::Same)));
        nets::MOVE_PLANES
    };
    layers.push(Layer::Conv {
        kernel: 1,
        channels: outputs,
        padding: Padding::Same,
        norm: false,
        activation: Activation::Identity,
    });
    Description {
        encoding: Encoding::BatchFirst15,
        trunk: Vec::new(),
        heads: vec![Head { kind, layers }],
    }
}

/// A folder with data, a description and a configuration for `head`.
fn prepare(folder: &Path, head: HeadKind) -> PathBuf {
    let pgn = folder.join("random.pgn");
    std::fs::write(&pgn, games(150)).unwrap();
    let shards = folder.join("shards");
    let options = data::ImportOptions { validation: 0.2, ..data::ImportOptions::default() };
    data::import(&[pgn], &shards, &options, &mut ()).unwrap();
    let model = folder.join("description.json");
    std::fs::write(&model, serde_json::to_string(&description(head)).unwrap()).unwrap();
    let config = folder.join("config.toml");
    let text = format!(
        "run = {{ name = 'run', directory = '{0}' }}\ndata = {{ directory = '{1}' }}\n\
         model = {{ start = '{2}', head = '{3}' }}\n\
         training = {{ batch = 64, learning_rate = 1e-2, steps = 300, threads = 2, average = 0.9, log_every = 5, \
         schedule = {{ kind = 'cosine', warm_up = 5, floor = 0.1 }} }}\n\
         validation = {{ every = 100, positions = 200 }}\ncheckpoints = {{ every = 10, keep = 2 }}\n",
        folder.join("runs").display(),
        shards.display(),
        model.display(),
        head.name(),
    );
    std::fs::write(&config, text).unwrap();
    config
}

fn load(config: &Path, changes: &[&str]) -> Config {
    Config::load(config, &changes.iter().map(|&change| change.to_owned()).collect::<Vec<_>>())
        .unwrap()
}

/// Interrupts a run after a step: politely, or as a crash would.
struct Interrupt<'a> {
    after: u64,
    stop: Option<&'a AtomicBool>,
}

impl Progress for Interrupt<'_> {
    fn step(&mut self, report: &StepReport) {
        if report.step == self.after {
            match self.stop {
                Some(stop) => stop.store(true, Ordering::Relaxed),
                None => panic!("the power fails"),
            }
        }
    }
}

/// Loss, tau and rate of every line of the journal, and the validations.
fn story(folder: &Path) -> Vec<String> {
    read_journal(folder)
        .unwrap()
        .into_iter()
        .filter_map(|event| match event {
            Event::Train { step, samples, loss, tau, learning_rate, .. } => {
                Some(format!("{step} {samples} {loss} {tau} {learning_rate}"))
            }
            Event::Validation { step, sources, .. } => Some(format!("{step} {sources:?}")),
            Event::Start { .. } | Event::End { .. } => None,
        })
        .collect()
}

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
        Head { kind: head.kind, layers: head.layers[2..].to_vec() }
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

/// As [`prepare`], for selectors: the games lose their evaluations.
fn prepare_selectors(folder: &Path) -> PathBuf {
    let config = prepare(folder, HeadKind::Value);
    let pgn = folder.join("bare.pgn");
    let text = games(150);
    let bare: String =
        text.split("{ [%eval").enumerate().fold(String::new(), |mut bare, (index, part)| {
            bare += if index == 0 { part } else { part.split_once("] }").unwrap().1 };
            bare
        });
    std::fs::write(&pgn, bare).unwrap();
    let options = data::ImportOptions {
        validation: 0.2,
        unlabelled: true,
        duplicates: true,
        ..data::ImportOptions::default()
    };
    data::import(&[pgn], &folder.join("bare"), &options, &mut ()).unwrap();
    config
}

/// Two selectors of few channels.
fn selectors(folder: &Path, more: &[&str]) -> Vec<String> {
    let data = format!("data.directory={}", folder.join("bare").display());
    let fixed = [
        "model.start=convchess",
        "model.convolutions=1",
        "model.filters=8",
        "model.pools=0",
        "model.dense=16",
        "model.head=['from', 'rook-to']",
        "optimizer.kind=rmsprop",
        "training.learning_rate=2e-3",
    ];
    let fixed = fixed.iter().chain(more).map(|&change| change.to_owned());
    std::iter::once(data).chain(fixed).collect()
}

#[test]
fn selectors_learn_by_themselves_and_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare_selectors(folder.path());
    let load = |more: &[&str]| Config::load(&config, &selectors(folder.path(), more)).unwrap();
    let never = AtomicBool::new(false);
    let whole = load(&[]);
    let outcome = train_all(&whole, false, &never, &mut NoProgress).unwrap();
    let [from, rook] = outcome.measures.as_slice() else { panic!("{:?}", outcome.measures) };
    assert_eq!((from.head, rook.head), (Some(HeadKind::From), Some(HeadKind::RookTo)));
    // Of 64 squares: knowing nothing has a cross entropy of 4.16 and is right in 1.6 %. The moves
    // were random.
    let agreement = from.agreement.as_ref().unwrap();
    assert!(from.loss < 4.0 && agreement.top_1 > 0.035, "{from:?}");
    assert!(
        agreement.legal.unwrap() >= agreement.top_1
            && agreement.unseen.unwrap().0 < agreement.positions
    );
    let dataset = Dataset::open(&folder.path().join("bare")).unwrap();
    let (_, examples) = dataset.batches(&whole.parts()[1], 0).unwrap();
    let (_, all) = dataset.batches(&whole.parts()[0], 0).unwrap();
    assert!(examples > 0 && examples < all / 3, "{examples} of {all} moves are the rook's");
    let network = Network::load(outcome.network.as_ref().unwrap()).unwrap();
    assert_eq!(network.description.heads.len(), 2);
    assert!(network.provenance.contains_key("rook-to: validation bare"));
    for name in ["loss.svg", "accuracy.svg", "from/report.html", "rook-to/network.safetensors"] {
        assert!(outcome.folder.join(name).exists(), "{name}");
    }

    // Two heads over one trunk could not be joined: that is said before anything is trained.
    let mut description = network.description.clone();
    description.trunk = vec![description.heads[0].layers.remove(0)];
    for head in &mut description.heads[1..] {
        head.layers.remove(0);
    }
    let file = folder.path().join("trunk.json");
    std::fs::write(&file, serde_json::to_vec(&description).unwrap()).unwrap();
    let mut settings = selectors(folder.path(), &["run.name=trunk"]);
    settings.retain(|setting| !setting.starts_with("model.") || setting.starts_with("model.head"));
    settings.push(format!("model.start={}", file.display()));
    let trunk = Config::load(&config, &settings).unwrap();
    let error = train_all(&trunk, false, &never, &mut NoProgress).unwrap_err().to_string();
    assert!(error.contains("trunk") && !trunk.folder().exists(), "{error}");

    // Interrupted in the first part, then in the second.
    let stop = AtomicBool::new(false);
    let left = load(&["run.name=left"]);
    train_all(&left, false, &stop, &mut Interrupt { after: 23, stop: Some(&stop) }).unwrap();
    assert!(train_all(&left, false, &never, &mut NoProgress).is_err(), "a run is not begun twice");
    let resumed = train_all(&left, true, &never, &mut NoProgress).unwrap();
    assert!(Network::load(resumed.network.as_ref().unwrap()).unwrap().tensors == network.tensors);
    // Finished parts are taken as they are.
    let again = train_all(&left, true, &never, &mut Interrupt { after: 1, stop: None }).unwrap();
    assert_eq!(again.measures.len(), 2);
    let mut pairs = again.measures.iter().zip(&resumed.measures);
    assert!(pairs.all(|(one, other)| (one.loss - other.loss).abs() < 1e-9));
    let changed = load(&["run.name=left", "training.batch=32"]);
    assert!(train_all(&changed, true, &never, &mut NoProgress).is_err());
}

#[test]
fn a_grid_ranks_its_runs_and_goes_on_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = prepare_selectors(folder.path());
    let grid = [
        "model.head=from",
        "training.steps=60",
        "grid.learning_rate=[1e-6, 2e-3]",
        "grid.weight_scale=[1.0, 1e9]",
        "grid.l2=[1e-4]",
        "grid.jobs=2",
    ];
    let config = Config::load(&file, &selectors(folder.path(), &grid)).unwrap();
    let stop = AtomicBool::new(true);
    let error = search_grid(&config, false, &stop, &mut NoProgress).unwrap_err().to_string();
    assert!(error.contains("0 of 4") && error.contains("--resume"), "{error}");
    stop.store(false, Ordering::Relaxed);
    let trials = search_grid(&config, true, &stop, &mut NoProgress).unwrap();
    assert_eq!(trials.len(), 4);
    let best = &trials[0];
    assert_eq!((best.learning_rate, best.weight_scale, best.l2), (2e-3, 1.0, 1e-4));
    assert!(trials.windows(2).all(|pair| pair[0].loss <= pair[1].loss || pair[1].loss.is_nan()));
    assert!(trials[3].weight_scale > 1.0, "such weights end nowhere");
    let table = std::fs::read_to_string(config.folder().join("grid.tsv")).unwrap();
    assert_eq!(table.lines().count(), 5);
    let again = search_grid(&config, true, &stop, &mut NoProgress).unwrap();
    assert!(
        (again[0].loss - best.loss).abs() < 1e-9 && again[0].learning_rate == best.learning_rate
    );
    assert!(
        search_grid(&config, false, &stop, &mut NoProgress).is_err(),
        "runs are not begun twice"
    );

    // From a trained network on, whose weights nobody scales.
    let trained = config.folder().join("grid-rate-0.002-l2-0.0001-scale-1/network.safetensors");
    let data = format!("data.directory={}", folder.path().join("bare").display());
    let start = format!("model.start={}", trained.display());
    let on = [
        "model.head=from",
        "training.steps=2",
        "grid.learning_rate=[1e-3]",
        "run.name=on",
        &data,
        &start,
    ];
    let config = Config::load(&file, &on.map(str::to_owned)).unwrap();
    assert_eq!(search_grid(&config, false, &stop, &mut NoProgress).unwrap().len(), 1);
}

#[test]
fn a_policy_is_learned_from_games_without_evaluations() {
    let folder = tempfile::tempdir().unwrap();
    let config = prepare_selectors(folder.path());
    let data = format!("data.directory={}", folder.path().join("bare").display());
    let model = folder.path().join("description.json");
    std::fs::write(&model, serde_json::to_string(&description(HeadKind::Moves)).unwrap()).unwrap();
    let config = load(
        &config,
        &[&data, "model.head=moves", "loss.moves=cross-entropy", "training.steps=200"],
    );
    let outcome = train(&config, false, &AtomicBool::new(false), &mut NoProgress).unwrap();
    let measures = &outcome.measures[0];
    let agreement = measures.agreement.as_ref().unwrap();
    assert!(measures.loss < 3.2 && agreement.top_1 > 0.05, "{measures:?}");
    let asked =
        |head| agreement.choices.iter().find(|choice| choice.0 == head).map(|choice| choice.1);
    assert_eq!(asked(HeadKind::From), Some(agreement.positions));
    let pieces: usize = HeadKind::SELECTORS[1..].iter().filter_map(|&head| asked(head)).sum();
    assert_eq!(pieces, agreement.positions);
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
