//! The size of a network: its parameters, and the multiplications of one evaluation.

use crate::{Description, HeadKind, Layer, Shape, TensorKind, TensorSpec};

/// Descriptions with more parameters are refused, so that a damaged file cannot make the program
/// allocate tens of gigabytes: this many take one in memory, and the file's own bytes and packed
/// weights about as much each. Leela's largest networks have 190 million.
pub(crate) const MAX_PARAMETERS: u64 = 1 << 28;

impl Layer {
    /// Trained parameters of this layer for inputs of shape `input`: weights and biases, or weights
    /// and the scale and shift of each norm channel. Running statistics are not counted.
    #[must_use]
    pub fn parameters(&self, input: Shape) -> u64 {
        let own = match self {
            Self::SqueezeExcite { channels, .. } => {
                self.weights(input).saturating_add((channels + 2 * input.channels) as u64)
            }
            Self::MoveAttention { .. } => self.weights(input),
            Self::Gate { .. } => 2 * (input.cells * input.channels) as u64,
            Self::LayerNorm { .. } => 2 * input.channels as u64,
            Self::BoardEmbedding { channels, .. } => {
                self.weights(input).saturating_add((input.cells * channels) as u64)
            }
            _ => self.weighted().map_or(0, |(channels, norm)| {
                (channels as u64)
                    .saturating_mul(if norm { 2 } else { 1 })
                    .saturating_add(self.weights(input))
            }),
        };
        own.saturating_add(self.sum_inside(input, Self::parameters))
    }

    /// Multiplications of this layer for one position when it is computed densely, zero padding
    /// included. (In most encodings at most 33 input values are not zero, so a sparse input layer
    /// needs far fewer.)
    #[must_use]
    pub fn multiply_adds(&self, input: Shape) -> u64 {
        let own = match self {
            // Their dense layers run once for a board.
            Self::SqueezeExcite { .. } | Self::BoardEmbedding { .. } => self.weights(input),
            Self::Attention(attention) => attention.multiply_adds(input),
            Self::MoveAttention { width } => (width * input.cells * input.cells) as u64,
            _ => {
                let cells = self.output_shape(input).map_or(0, |shape| shape.cells as u64);
                self.weights(input).saturating_mul(cells)
            }
        };
        own.saturating_add(self.sum_inside(input, Self::multiply_adds))
    }

    /// Number of weights of this layer, without the layers inside it.
    fn weights(&self, input: Shape) -> u64 {
        let product = |factors: &[usize]| {
            factors.iter().fold(1_u64, |product, &factor| product.saturating_mul(factor as u64))
        };
        match self {
            Self::Branches { branches, .. } => branches.iter().fold(0, |sum: u64, branch| {
                let size = [branch.channels, input.channels, branch.kernel[0], branch.kernel[1]];
                sum.saturating_add(product(&size))
            }),
            Self::Conv { kernel, channels, .. } => {
                product(&[*channels, input.channels, *kernel, *kernel])
            }
            Self::Dense { channels, .. } => product(&[*channels, input.channels, input.cells]),
            &Self::SqueezeExcite { channels, .. } => product(&[3, channels, input.channels]),
            &Self::BoardEmbedding { planes, channels } => {
                product(&[input.cells, planes, input.cells, channels])
            }
            Self::MoveAttention { width } => product(&[4, *width]),
            Self::Residual { .. }
            | Self::Pool { .. }
            | Self::AppendMean
            | Self::Gate { .. }
            | Self::LayerNorm { .. }
            | Self::Attention(_) => 0,
        }
    }

    /// Sum of `size` over the layers inside this one.
    fn sum_inside(&self, input: Shape, size: impl Fn(&Self, Shape) -> u64) -> u64 {
        let inner = self.inner(input).into_iter();
        inner.fold(0, |sum, (_, layer, input)| sum.saturating_add(size(&layer, input)))
    }
}

impl Description {
    /// Trained parameters of the whole network, see [`Layer::parameters`]; what layers share counts
    /// once.
    ///
    /// # Errors
    /// As [`Description::check`].
    pub fn parameters(&self) -> Result<u64, String> {
        let is_trained = |spec: &TensorSpec| {
            !matches!(spec.kind, TensorKind::NormMean | TensorKind::NormVariance)
        };
        let size = |spec: TensorSpec| spec.shape.iter().product::<usize>() as u64;
        Ok(self.tensors()?.into_iter().filter(is_trained).map(size).sum())
    }

    /// Multiplications for one position through trunk and every head, see [`Layer::multiply_adds`].
    ///
    /// # Errors
    /// As [`Description::check`].
    pub fn multiply_adds(&self) -> Result<u64, String> {
        self.check()?;
        let mut total = 0;
        let mut walk = |layers: &[Layer], mut shape: Shape| {
            for layer in layers {
                total += layer.multiply_adds(shape);
                shape = layer.output_shape(shape)?;
            }
            Ok::<Shape, String>(shape)
        };
        let trunk = walk(&self.trunk, self.input_shape())?;
        for head in &self.heads {
            walk(&head.layers, trunk)?;
        }
        Ok(total)
    }

    /// Multiplications for one position through the trunk and one head; 0 without the head.
    ///
    /// # Errors
    /// As [`Description::check`].
    pub fn multiply_adds_of(&self, kind: HeadKind) -> Result<u64, String> {
        let heads = self.head(kind).cloned().into_iter().collect::<Vec<_>>();
        if heads.is_empty() { Ok(0) } else { Self { heads, ..self.clone() }.multiply_adds() }
    }
}
