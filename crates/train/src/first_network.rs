//! The network that a run starts from: a known architecture, a description from a file, or the
//! network of another run.

use std::path::Path;

use nets::{
    Activation, BatchFirstResidual, Cockfish, ConvChess, Description, Encoding, HeadKind, Layer,
    MoveScores, Network, TensorKind,
};

use crate::{
    Config, Loss, ModelSection, TrainError,
    config::{COCKFISH, CONVCHESS, RESIDUAL},
};

/// The network that a run starts from.
///
/// # Errors
/// The start is unknown, cannot be read or does not fit the heads that are to be trained.
pub(crate) fn first_network(config: &Config) -> Result<Network, TrainError> {
    let model = &config.model;
    let mut network = if model.start.ends_with(".json") || model.start.ends_with(".safetensors") {
        from_file(model, config.training.seed)?
    } else {
        from_architecture(model, config.training.seed)?
    };
    if let Some(head) = missing_head(&network, &model.heads) {
        return Err(TrainError::Config(format!("`{}` has no {} head", model.start, head.name())));
    }
    if let Some(scale) = model.weight_scale {
        if model.start.ends_with(".safetensors") {
            return Err(TrainError::Config(
                "model.weight_scale is for the random weights of a fresh network".to_owned(),
            ));
        }
        scale_weights(&mut network, scale)?;
    }
    if let Some(body) = &model.body {
        take_layers(&mut network, &Network::load(body)?)?;
    }
    for objective in
        config.objectives().iter().filter(|objective| objective.head == HeadKind::Moves)
    {
        network.calibration.move_scores = match objective.loss {
            Loss::CrossEntropy => MoveScores::Policy,
            Loss::Ordinal | Loss::Tanh { .. } => MoveScores::Centipawns,
        };
    }
    Ok(network)
}

/// The first of these heads that the network lacks.
fn missing_head(network: &Network, heads: &[HeadKind]) -> Option<HeadKind> {
    heads.iter().copied().find(|&head| network.description.head(head).is_none())
}

/// A network with random weights. If the description has all trained heads, its other heads are
/// removed.
fn random(
    mut description: Description,
    heads: &[HeadKind],
    seed: u64,
) -> Result<Network, TrainError> {
    if heads.iter().all(|&head| description.head(head).is_some()) {
        description.heads.retain(|head| heads.contains(&head.kind));
    }
    Ok(Network::random(description, seed)?)
}

/// A network of a known architecture with random weights.
fn from_architecture(model: &ModelSection, seed: u64) -> Result<Network, TrainError> {
    let (start, heads) = (model.start.as_str(), model.heads.as_slice());
    let with_input = |description: Description| {
        let encoding = model.input.unwrap_or(description.encoding);
        random(Description { encoding, ..description }, heads, seed)
    };
    match start {
        "batch-first" => with_input(Description::batch_first(heads)),
        "batch-first-shared" => with_input(Description::batch_first_shared()),
        RESIDUAL => {
            let BatchFirstResidual { filters, blocks } = BatchFirstResidual::default();
            let filters = model.filters.unwrap_or(filters);
            let blocks = model.blocks.unwrap_or(blocks);
            with_input(Description::batch_first_residual(&BatchFirstResidual { filters, blocks }))
        }
        COCKFISH => {
            let published = Cockfish::default();
            let filters = model.filters.unwrap_or(published.filters);
            let blocks = model.blocks.unwrap_or(published.blocks);
            let activation = model.activation.unwrap_or(published.activation);
            let global_mean = model.pooling.unwrap_or(published.global_mean);
            let choice = Cockfish { filters, blocks, activation, global_mean };
            Ok(Network::random(Description::cockfish(&choice), seed)?)
        }
        CONVCHESS => {
            let published = ConvChess::default();
            let choice = ConvChess {
                convolutions: model.convolutions.unwrap_or(published.convolutions),
                filters: model.filters.unwrap_or(published.filters),
                pools: model.pools.unwrap_or(published.pools),
                dense: model.dense.unwrap_or(published.dense),
            };
            Ok(Network::random(Description::convchess(&choice, heads), seed)?)
        }
        _ => Err(TrainError::Config(format!(
            "model.start is `{start}`; it must be `batch-first`, `batch-first-shared`, `{RESIDUAL}`, \
             `{COCKFISH}`, `{CONVCHESS}` or the path of a .json or .safetensors file"
        ))),
    }
}

/// A network with random weights for a description in a `.json` file, or the network of a
/// `.safetensors` file. If that network lacks a trained head, a fresh network starts with its
/// layers.
fn from_file(model: &ModelSection, seed: u64) -> Result<Network, TrainError> {
    let (file, heads) = (model.start.as_str(), model.heads.as_slice());
    let path = Path::new(file);
    if file.ends_with(".json") {
        let text = std::fs::read_to_string(path)
            .map_err(|source| TrainError::Io { path: path.to_owned(), source })?;
        let description: Description = serde_json::from_str(&text).map_err(|error| {
            TrainError::Config(format!("`{file}` is not a network description: {error}"))
        })?;
        if description.encoding.has_history() {
            return Err(TrainError::Config(format!(
                "`{file}` describes a network that sees earlier positions; shards hold none"
            )));
        }
        return random(description, heads, seed);
    }
    let network = Network { int8_ranges: None, ..Network::load(path)? };
    if network.description.encoding.has_history() {
        return Err(TrainError::Config(format!(
            "`{file}` is a network of Leela's, which sees earlier positions; shards hold none, so it cannot be trained on"
        )));
    }
    if missing_head(&network, heads).is_none() {
        return Ok(network);
    }
    let encoding = match network.description.encoding {
        attacks if attacks.has_attackers() => attacks,
        _ => Encoding::BatchFirst15,
    };
    let description = Description { encoding, ..Description::batch_first(heads) };
    let mut fresh = Network::random(description, seed)?;
    take_layers(&mut fresh, &network)?;
    Ok(fresh)
}

/// Multiplies all weights by `scale`, but not biases and norms.
fn scale_weights(network: &mut Network, scale: f32) -> Result<(), TrainError> {
    for spec in network.description.tensors().map_err(TrainError::Config)? {
        let tensor =
            network.tensors.get_mut(&spec.name).filter(|_| spec.kind == TensorKind::Weight);
        tensor.into_iter().flat_map(|tensor| &mut tensor.data).for_each(|value| *value *= scale);
    }
    Ok(())
}

/// The layers from the input to the end of a head, with the prefix of their tensors.
fn layers_to(description: &Description, head: HeadKind) -> Vec<(String, &Layer)> {
    let own = description.head(head).map_or(&[][..], |head| &head.layers);
    let own =
        own.iter().enumerate().map(|(index, layer)| (format!("{}.{index}.", head.name()), layer));
    let trunk = description.trunk.iter().enumerate();
    trunk.map(|(index, layer)| (format!("trunk.{index}."), layer)).chain(own).collect()
}

/// Do the weights of one layer fit another? Its activation may differ.
fn fits(own: &Layer, from: &Layer) -> bool {
    let [own, from] = [own, from].map(|layer| {
        let mut layer = layer.clone();
        if let Layer::Conv { activation, .. } | Layer::Dense { activation, .. } = &mut layer {
            *activation = Activation::Identity;
        }
        layer
    });
    own == from
}

/// Copies the layers of another network into a fresh one, from the input to the first difference. A
/// head copies from the other network's head of the same kind, or from its first head; a trunk
/// copies the layers before the head that the first head copies from.
fn take_layers(network: &mut Network, other: &Network) -> Result<(), TrainError> {
    let description = network.description.clone();
    let inputs = [description.encoding, other.description.encoding];
    // Those that say who attacks have the same planes.
    if inputs[0] != inputs[1] && !inputs.iter().all(|input| input.has_attackers()) {
        let [own, from] = inputs.map(Encoding::name);
        return Err(TrainError::Config(format!(
            "`{}` has the input {from}, the network to train {own} (model.input): its layers are no use there",
            other.name
        )));
    }
    for head in description.heads.iter().rev() {
        let mut source_heads: Vec<HeadKind> =
            other.description.heads.iter().map(|head| head.kind).collect();
        source_heads.sort_by_key(|&kind| kind != head.kind);
        let Some(&source_head) = source_heads.first() else { break };
        let pairs = layers_to(&description, head.kind)
            .into_iter()
            .zip(layers_to(&other.description, source_head));
        for ((own, _), (from, _)) in pairs.take_while(|((_, own), (_, from))| fits(own, from)) {
            for (name, tensor) in &mut network.tensors {
                let known =
                    name.strip_prefix(&own).and_then(|rest| other.tensor(&format!("{from}{rest}")));
                if let Some(known) = known.filter(|known| known.shape == tensor.shape) {
                    tensor.data.clone_from(&known.data);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_with_attack_planes_have_the_shapes_of_their_configurations() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let shipped =
            |name| Network::load(&root.join(format!("networks/{name}.safetensors"))).unwrap();
        let config = Config::load(&root.join("configs/convchess-attacks.toml"), &[]).unwrap();
        let convchess = first_network(&config).unwrap().description;
        assert_eq!(convchess, shipped("convchess-attacks").description);
        let described = |config| -> Description {
            let text = std::fs::read_to_string(root.join(format!("configs/{config}.json")));
            serde_json::from_str(&text.unwrap()).unwrap()
        };
        assert_eq!(described("batch-first-large"), shipped("batch-first").description);
        // Trained over one trunk at first, then joined so that each head has its own.
        let shared = Network::random(described("batch-first-fast-squares"), 1).unwrap();
        let apart = crate::join(&shared, &shared, "apart").unwrap();
        assert_eq!(apart.description, shipped("batch-first-fast").description);
    }

    #[test]
    fn a_network_can_start_from_the_layers_of_another() {
        let value = Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap();
        let mut moves = Network::random(Description::batch_first(&[HeadKind::Moves]), 2).unwrap();
        let fresh = moves.clone();
        take_layers(&mut moves, &value).unwrap();
        assert!(
            moves.tensors["moves.0.branches.3.weight"]
                == value.tensors["value.0.branches.3.weight"]
        );
        assert!(moves.tensors["moves.8.weight"] == value.tensors["value.8.weight"]);
        // The last layers differ in shape.
        assert!(moves.tensors["moves.9.weight"] == fresh.tensors["moves.9.weight"]);

        let mut shared = Network::random(Description::batch_first_shared(), 3).unwrap();
        let both = crate::join(&value, &fresh, "both").unwrap();
        take_layers(&mut shared, &both).unwrap();
        assert!(shared.tensors["trunk.8.norm.mean"] == value.tensors["value.8.norm.mean"]);
        assert!(shared.tensors["trunk.1.weight"] == value.tensors["value.1.weight"]);
        assert!(shared.tensors["value.1.weight"] == value.tensors["value.10.weight"]);
        assert!(shared.tensors["moves.0.weight"].data.len() == 9 * 32 * 64);

        // Layers trained on 15 planes do not fit a network with 21.
        let description =
            Description { encoding: Encoding::Attacks21, ..Description::batch_first_shared() };
        let mut told = Network::random(description, 3).unwrap();
        let before = told.clone();
        let error = take_layers(&mut told, &both).unwrap_err().to_string();
        assert!(error.contains("batch-first-15") && error.contains("attacks-21"), "{error}");
        assert!(told == before);

        // Another orientation of the board and another activation fit.
        let mut description =
            Description { encoding: Encoding::KingRight21, ..before.description.clone() };
        if let Layer::Conv { activation, .. } = &mut description.trunk[1] {
            *activation = Activation::SquaredRelu;
        }
        let mut mirrored = Network::random(description.clone(), 4).unwrap();
        take_layers(&mut mirrored, &before).unwrap();
        assert!(mirrored.tensors == before.tensors && mirrored.description == description);
    }
}
