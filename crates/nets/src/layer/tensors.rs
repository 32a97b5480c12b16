//! The names, shapes and roles of a layer's tensors.

use super::Layer;
use crate::{
    Shape, TensorKind,
    TensorKind::{Bias, NormMean, NormScale, NormShift, NormVariance, Weight},
    TensorSpec,
    attention::SHARED_SCORES,
};

/// A tensor's name behind its layer's, its shape and its role.
type Own = (String, Vec<usize>, TensorKind);

fn own(name: &str, shape: Vec<usize>, kind: TensorKind) -> Own {
    (name.to_owned(), shape, kind)
}

impl Layer {
    /// Output channels, and whether a batch norm follows; `None` for a layer without weights of its
    /// own.
    pub(crate) fn weighted(&self) -> Option<(usize, bool)> {
        match self {
            Self::Branches { branches, norm, .. } => {
                let channels = branches
                    .iter()
                    .fold(0_usize, |sum, branch| sum.saturating_add(branch.channels));
                Some((channels, *norm))
            }
            &Self::Conv { channels, norm, .. } | &Self::Dense { channels, norm, .. } => {
                Some((channels, norm))
            }
            _ => None,
        }
    }

    /// Appends the tensors of this layer to `specs`: those of the layers inside it first. The layer
    /// must accept inputs of shape `input`.
    pub(crate) fn tensors(&self, prefix: &str, input: Shape, specs: &mut Vec<TensorSpec>) {
        for (name, layer, input) in self.inner(input) {
            layer.tensors(&format!("{prefix}.{name}"), input, specs);
        }
        let own = self.own_weights(input).into_iter().chain(self.norm_or_bias());
        specs.extend(own.map(|(name, shape, kind)| TensorSpec {
            name: format!("{prefix}.{name}"),
            shape,
            kind,
        }));
        if let Self::Attention(attention) = self
            && let Some(board) = &attention.board
            && !specs.iter().any(|spec| spec.name == SHARED_SCORES)
        {
            let shape = vec![input.cells * input.cells, board.generated];
            specs.push(TensorSpec { name: SHARED_SCORES.to_owned(), shape, kind: Weight });
        }
    }

    /// The tensors of this layer without batch norm or bias of [`Layer::weighted`] ones.
    fn own_weights(&self, input: Shape) -> Vec<Own> {
        let width = input.channels;
        match self {
            Self::Branches { branches, .. } => {
                let weight = |(index, branch): (usize, &super::Branch)| {
                    let [rows, columns] = branch.kernel;
                    let shape = vec![branch.channels, width, rows, columns];
                    (format!("branches.{index}.weight"), shape, Weight)
                };
                branches.iter().enumerate().map(weight).collect()
            }
            &Self::Conv { kernel, channels, .. } => {
                vec![own("weight", vec![channels, width, kernel, kernel], Weight)]
            }
            &Self::Dense { channels, .. } => {
                vec![own("weight", vec![channels, width * input.cells], Weight)]
            }
            &Self::SqueezeExcite { channels, .. } => vec![
                own("squeeze.weight", vec![channels, width], Weight),
                own("squeeze.bias", vec![channels], Bias),
                own("excite.weight", vec![2 * width, channels], Weight),
                own("excite.bias", vec![2 * width], Bias),
            ],
            Self::Gate { .. } => scale_and_shift(vec![input.cells, width]),
            Self::LayerNorm { .. } => scale_and_shift(vec![width]),
            &Self::BoardEmbedding { planes, channels } => {
                let (inputs, outputs) = (input.cells * planes, input.cells * channels);
                vec![own("weight", vec![outputs, inputs], Weight), own("bias", vec![outputs], Bias)]
            }
            &Self::MoveAttention { width } => {
                vec![own("promotion.weight", vec![4, width], Weight)]
            }
            Self::Residual { .. } | Self::Pool { .. } | Self::AppendMean | Self::Attention(_) => {
                Vec::new()
            }
        }
    }

    fn norm_or_bias(&self) -> Vec<Own> {
        match self.weighted() {
            None => Vec::new(),
            Some((channels, false)) => vec![own("bias", vec![channels], Bias)],
            Some((channels, true)) => vec![
                own("norm.scale", vec![channels], NormScale),
                own("norm.shift", vec![channels], NormShift),
                own("norm.mean", vec![channels], NormMean),
                own("norm.variance", vec![channels], NormVariance),
            ],
        }
    }
}

fn scale_and_shift(shape: Vec<usize>) -> Vec<Own> {
    vec![own("scale", shape.clone(), NormScale), own("shift", shape, NormShift)]
}
