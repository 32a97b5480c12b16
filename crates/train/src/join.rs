//! One file from two: the value network and the move network are trained apart and shipped together.

use nets::{Calibration, Description, Head, HeadKind, Network, Provenance};

use crate::TrainError;

/// Puts the value head of one network and the move head of another side by side, with what belongs to each of their
/// calibrations and origins.
///
/// # Errors
/// A head is missing, or a network shares a trunk between its heads.
pub fn join(value: &Network, moves: &Network, name: &str) -> Result<Network, TrainError> {
    let mut heads: Vec<Head> = Vec::new();
    let mut tensors = std::collections::BTreeMap::new();
    let mut provenance = Provenance::new();
    for (network, kind) in [(value, HeadKind::Value), (moves, HeadKind::Moves)] {
        let head = network.description.head(kind).ok_or_else(|| {
            TrainError::Config(format!("the network `{}` has no {} head", network.name, kind.name()))
        })?;
        if !network.description.trunk.is_empty() {
            return Err(TrainError::Config(format!(
                "the network `{}` has a trunk, so its {} head cannot be taken alone",
                network.name,
                kind.name()
            )));
        }
        heads.push(head.clone());
        let prefix = format!("{}.", kind.name());
        let own = network.tensors.iter().filter(|(name, _)| name.starts_with(&prefix));
        tensors.extend(own.map(|(name, tensor)| (name.clone(), tensor.clone())));
        for (key, line) in &network.provenance {
            // A run's lines begin with the name of the head it trained.
            match key.split_once(": ") {
                Some((head, _)) if head == kind.name() => provenance.insert(key.clone(), line.clone()),
                Some(("value" | "moves", _)) => None,
                _ => provenance.insert(format!("{}: {key}", kind.name()), line.clone()),
            };
        }
    }
    Ok(Network {
        name: name.to_owned(),
        description: Description { encoding: value.description.encoding, trunk: Vec::new(), heads },
        tensors,
        calibration: Calibration {
            value: value.calibration.value.clone(),
            wdl: value.calibration.wdl,
            moves: moves.calibration.moves.clone(),
            move_scores: moves.calibration.move_scores,
            bins: moves.calibration.bins.clone(),
        },
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
        assert!(back.calibration.value == value.calibration.value && back.calibration.bins == [1.0, 2.0]);
        assert_eq!(back.provenance.len(), 2);
        assert!(back.tensors.len() == value.tensors.len() + moves.tensors.len());
        assert!(value.tensors.iter().all(|(name, tensor)| back.tensors[name] == *tensor));
        assert!(join(&moves, &value, "swapped").is_err());
        assert!(join(&joined, &joined, "again").unwrap() == Network { name: "again".to_owned(), ..joined });
    }
}
