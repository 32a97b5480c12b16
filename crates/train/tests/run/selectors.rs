//! Runs on games without evaluations: selectors, grids and policies.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use nets::{HeadKind, Network};
use train::{Config, Dataset, NoProgress, search_grid, train, train_all};

use super::random_games::{Interrupt, description, games, load, prepare};

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
