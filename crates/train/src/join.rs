//! Joins networks that were trained separately into one.

use nets::{Calibration, Description, Head, HeadKind, Network, Provenance};

use crate::TrainError;

/// Joins the value head of one network and the move head of another, with the matching parts of
/// their calibrations and origins.
///
/// # Errors
/// As [`join_heads`].
pub fn join(value: &Network, moves: &Network, name: &str) -> Result<Network, TrainError> {
    join_heads(&[(value, HeadKind::Value), (moves, HeadKind::Moves)], name)
}

/// Joins one head of each network, with the matching parts of its calibration and origin.
///
/// # Errors
/// A head is missing or given twice, a network has a trunk, or the networks have different input
/// encodings.
pub fn join_heads(parts: &[(&Network, HeadKind)], name: &str) -> Result<Network, TrainError> {
    let mut heads: Vec<Head> = Vec::new();
    let mut tensors = std::collections::BTreeMap::new();
    let (mut calibration, mut provenance) = (Calibration::default(), Provenance::new());
    let bad = |reason: String| Err(TrainError::Config(reason));
    let Some((first, _)) = parts.first() else { return bad("there is nothing to join".to_owned()) };
    for &(network, kind) in parts {
        let Some(head) = network.description.head(kind) else {
            return bad(format!("the network `{}` has no {} head", network.name, kind.name()));
        };
        if !network.description.trunk.is_empty() {
            let (name, kind) = (&network.name, kind.name());
            return bad(format!(
                "the network `{name}` has a trunk, so its {kind} head cannot be taken alone"
            ));
        }
        if network.description.encoding != first.description.encoding {
            let (one, other) = (&first.name, &network.name);
            return bad(format!(
                "the networks `{one}` and `{other}` see the board in different ways"
            ));
        }
        if heads.iter().any(|other| other.kind == kind) {
            return bad(format!("there are two {} heads", kind.name()));
        }
        heads.push(head.clone());
        let prefix = format!("{}.", kind.name());
        let own = network.tensors.iter().filter(|(name, _)| name.starts_with(&prefix));
        tensors.extend(own.map(|(name, tensor)| (name.clone(), tensor.clone())));
        match kind {
            HeadKind::Value => {
                calibration.value = network.calibration.value.clone();
                calibration.wdl = network.calibration.wdl;
            }
            HeadKind::Moves => {
                calibration.moves = network.calibration.moves.clone();
                calibration.move_scores = network.calibration.move_scores;
                calibration.bins = network.calibration.bins.clone();
            }
            _ => {}
        }
        // The cost of int8 must be measured again for the joined network.
        for (key, line) in network.provenance.iter().filter(|(key, _)| *key != "int8") {
            // Lines written by a run begin with the name of the trained head.
            let of_head = |head: &str| HeadKind::ALL.iter().any(|other| other.name() == head);
            match key.split_once(": ") {
                Some((head, _)) if head == kind.name() => {
                    provenance.insert(key.clone(), line.clone())
                }
                Some((head, _)) if of_head(head) => None,
                _ => provenance.insert(format!("{}: {key}", kind.name()), line.clone()),
            };
        }
    }
    Ok(Network {
        name: name.to_owned(),
        description: Description { encoding: first.description.encoding, trunk: Vec::new(), heads },
        tensors,
        calibration,
        int8_ranges: None,
        provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_joined_network_has_both_heads_and_their_calibrations() {
        let mut value = Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap();
        let mut moves = Network::random(Description::batch_first(&[HeadKind::Moves]), 2).unwrap();
        value.calibration.value.outputs = vec![-7.0, 7.0];
        moves.calibration.bins = vec![1.0, 2.0];
        value.provenance.insert("value: seed".to_owned(), "1".to_owned());
        moves.provenance.insert("moves: seed".to_owned(), "2".to_owned());
        let joined = join(&value, &moves, "both").unwrap();
        let back = Network::from_bytes(&joined.to_bytes().unwrap(), "both").unwrap();
        assert!(back == joined);
        assert!(
            back.calibration.value == value.calibration.value
                && back.calibration.bins == [1.0, 2.0]
        );
        assert_eq!(back.provenance.len(), 2);
        assert!(back.tensors.len() == value.tensors.len() + moves.tensors.len());
        assert!(value.tensors.iter().all(|(name, tensor)| back.tensors[name] == *tensor));
        assert!(join(&moves, &value, "swapped").is_err());
        assert!(
            join(&joined, &joined, "again").unwrap()
                == Network { name: "again".to_owned(), ..joined }
        );
    }
}
