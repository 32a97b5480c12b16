//! Joins networks that were trained separately into one.

use nets::{Calibration, Description, Head, HeadKind, Network, Provenance};

use crate::TrainError;

/// Joins the value head of one network and the move head of another, with the matching parts of
/// their calibrations and origins. A trunk becomes part of its head, so to evaluate both
/// heads costs two trunks.
///
/// # Errors
/// As [`join_heads`].
pub fn join(value: &Network, moves: &Network, name: &str) -> Result<Network, TrainError> {
    join_heads(&[(value, HeadKind::Value), (moves, HeadKind::Moves)], name)
}

/// Joins one head of each network, with the matching parts of its calibration and origin.
///
/// # Errors
/// A head is missing or given twice, or the networks have different input encodings.
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
        if network.description.encoding != first.description.encoding {
            let (one, other) = (&first.name, &network.name);
            return bad(format!(
                "the networks `{one}` and `{other}` see the board in different ways"
            ));
        }
        if heads.iter().any(|other| other.kind == kind) {
            return bad(format!("there are two {} heads", kind.name()));
        }
        let trunk = &network.description.trunk;
        let layers = trunk.iter().chain(&head.layers).cloned().collect();
        heads.push(Head { layers, ..head.clone() });
        for (name, tensor) in &network.tensors {
            if let Some(name) = name_in_head(name, kind, trunk.len()) {
                tensors.insert(name, tensor.clone());
            }
        }
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
        add_provenance(&mut provenance, network, kind);
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

/// Adds the lines that tell where a head comes from.
fn add_provenance(provenance: &mut Provenance, network: &Network, kind: HeadKind) {
    // The cost of int8 must be measured again for the joined network.
    for (key, line) in network.provenance.iter().filter(|(key, _)| *key != "int8") {
        // Lines written by a run begin with the name of the trained head.
        let of_head = |head: &str| HeadKind::ALL.iter().any(|other| other.name() == head);
        match key.split_once(": ") {
            Some((head, _)) if head == kind.name() => provenance.insert(key.clone(), line.clone()),
            Some((head, _)) if of_head(head) => None,
            _ => provenance.insert(format!("{}: {key}", kind.name()), line.clone()),
        };
    }
}

/// The name of a tensor in a head that begins with a trunk of so many layers; `None`: it belongs to
/// another head.
fn name_in_head(name: &str, kind: HeadKind, trunk: usize) -> Option<String> {
    let (part, rest) = name.split_once('.')?;
    if part == "trunk" {
        return Some(format!("{}.{rest}", kind.name()));
    }
    let (layer, rest) = rest.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    (part == kind.name()).then(|| format!("{part}.{}.{rest}", layer + trunk))
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

    /// One trunk for both heads, or one for each with the same weights: the same answers.
    #[test]
    fn a_trunk_becomes_part_of_each_head() {
        let shared = Network::random(Description::batch_first_shared(), 3).unwrap();
        let joined = join(&shared, &shared, "apart").unwrap();
        let back = Network::from_bytes(&joined.to_bytes().unwrap(), "apart").unwrap();
        assert!(back.description.trunk.is_empty() && back.tensors.len() > shared.tensors.len());
        let scores = |network: &Network| {
            use eval::Evaluator;
            let mut evaluator =
                eval::reference::Reference::new(std::sync::Arc::new(network.clone()));
            let mut batch = eval::Batch::default();
            let position = board::Position::default();
            batch.push(&position, true, &position.legal_moves());
            evaluator.evaluate(batch).unwrap().scores
        };
        let (one, two) = (scores(&shared), scores(&back));
        assert!(one.values == two.values && one.moves == two.moves && one.moves.len() == 20);
    }
}
