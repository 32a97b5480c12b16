//! Options by name: what is understood, and the sentence for what is not.

use std::path::PathBuf;

use super::*;

#[test]
fn values_are_kept_within_their_ranges() {
    let mut options = NamedOptions::default();
    assert_eq!(options.set("hash", Some("64")), Ok(OptionChange::Value));
    assert_eq!(options.engine.settings.hash_mib, 64);
    for bad in ["0", "-1", "65537", "99999999999999999999", "many", "", "1.5"] {
        assert!(matches!(options.set("Hash", Some(bad)), Err(OptionError::Number { .. })), "{bad}");
    }
    if memory_without_room_for(65_536).is_some() {
        assert!(matches!(options.set("Hash", Some("65536")), Err(OptionError::Memory { .. })));
    }
    assert_eq!(options.engine.settings.hash_mib, 64);
    assert!(matches!(options.set("Ponder", Some("maybe")), Err(OptionError::Check { .. })));
    assert!(matches!(options.set("Contempt", Some("3")), Err(OptionError::Unknown(_))));
    assert_eq!(options.set("precision", Some("INT8")), Ok(OptionChange::Value));
    assert_eq!(options.engine.precision, Some(Precision::Int8));
    assert!(matches!(options.set("Precision", Some("int4")), Err(OptionError::Combo { .. })));
    assert_eq!(options.set("Search", Some("PUCT")), Ok(OptionChange::Value));
    assert_eq!(options.engine.algorithm, Some(Algorithm::Puct));
    assert_eq!(options.set("system", Some("Cockfish")), Ok(OptionChange::Network));
    assert_eq!(options.set("System", Some("cockfish")), Ok(OptionChange::Value));
    assert_eq!(options.engine.system, Some(System::Cockfish));
    assert_eq!(options.set("System", Some("auto")), Ok(OptionChange::Network));
    assert_eq!(options.set("cpu", Some("avx2")), Ok(OptionChange::Value));
    assert_eq!(
        (options.engine.path, options.engine.precision),
        (Some(CpuPath::Avx2), Some(Precision::Int8))
    );
    assert_eq!(options.set("Clear Hash", None), Ok(OptionChange::ClearHash));
    assert_eq!(options.set("WeightsFile", Some("a b.safetensors")), Ok(OptionChange::Network));
    assert_eq!(options.engine.network, Some(PathBuf::from("a b.safetensors")));
    assert_eq!(options.set("WeightsFile", Some("a b.safetensors")), Ok(OptionChange::Value));
    assert_eq!(options.set("WeightsFile", Some(EMBEDDED)), Ok(OptionChange::Network));
}

#[test]
fn files_that_cannot_be_used_change_nothing() {
    let mut options = NamedOptions::default();
    for (name, good) in
        [("SyzygyPath", "../board/tests/tables"), ("bookfile", "../board/tests/book/small.bin")]
    {
        assert_eq!(options.set(name, Some(good)), Ok(OptionChange::Value));
        for bad in ["missing", "src", "Cargo.toml"] {
            let text = options.set(name, Some(bad)).unwrap_err().to_string();
            assert!(
                text.contains(&format!("`{bad}`")) && text.ends_with(&format!("stays {good}")),
                "{text}"
            );
        }
    }
    assert!(
        options.engine.settings.tables.is_some() && options.book.is_some() && !options.own_book
    );
    assert_eq!(options.set("OwnBook", Some("true")), Ok(OptionChange::Value));
    assert_eq!(options.set("SyzygyPath", Some(EMPTY)), Ok(OptionChange::Value));
    assert_eq!(options.set("BookFile", Some("")), Ok(OptionChange::Value));
    assert_eq!(options, NamedOptions { own_book: true, ..NamedOptions::default() });
}

#[test]
fn strength_is_a_number_of_evaluations() {
    let mut options = NamedOptions::default();
    assert_eq!(options.set("UCI_Elo", Some("1500")), Ok(OptionChange::Value));
    assert_eq!(options.engine.settings.evaluations, None, "not limited yet");
    assert_eq!(options.set("UCI_LimitStrength", Some("true")), Ok(OptionChange::Value));
    let weaker = options.engine.settings.evaluations.unwrap();
    assert_eq!(options.set("UCI_Elo", Some("1900")), Ok(OptionChange::Value));
    assert!(options.engine.settings.evaluations.unwrap() > 2 * weaker);
    assert!(matches!(options.set("UCI_Elo", Some("900")), Err(OptionError::Number { .. })));
    assert_eq!(options.set("UCI_LimitStrength", Some("false")), Ok(OptionChange::Value));
    assert_eq!(options.engine.settings.evaluations, None);
}

#[test]
fn numbers_of_the_searches_are_options_of_builds_for_tuning_only() {
    let mut options = NamedOptions::default();
    let name = "kbest_static_margin";
    if tunables().is_empty() {
        assert!(matches!(options.set(name, Some("90")), Err(OptionError::Unknown(_))));
    }
    let tunable = Tunable { name, least: 20, most: 300 };
    assert_eq!(options.set_tunable(&tunable, "90"), Ok(OptionChange::Value));
    assert_eq!(options.tunable(name), "90");
    for bad in ["19", "301", "-1", "much", ""] {
        let refused = options.set_tunable(&tunable, bad);
        assert!(matches!(refused, Err(OptionError::Number { .. })), "{bad}");
    }
    assert_eq!(options.tunable(name), "90");
    assert_ne!(options, NamedOptions::default(), "the next search takes it");
}

#[test]
fn every_option_is_listed_and_can_be_set_to_its_default() {
    let mut options = NamedOptions::default();
    assert_eq!(options.list().count(), TABLE.len() + tunables().len());
    for (label, option, kind) in TABLE {
        if kind != OptionKind::Button {
            let value = options.value(option);
            assert_eq!(options.set(label, Some(&value)), Ok(OptionChange::Value), "{label}");
        }
    }
    assert_eq!(options, NamedOptions::default());
}
