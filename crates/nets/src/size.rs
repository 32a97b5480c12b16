//! The size of a network: its parameters, and the multiplications of one evaluation.

use crate::{Description, HeadKind, Layer, Shape};

/// Descriptions with more parameters are refused, so that a damaged file cannot make the program
/// allocate more than half a gigabyte.
pub(crate) const MAX_PARAMETERS: u64 = 1 << 27;

impl Layer {
    /// Trained parameters of this layer for inputs of shape `input`: weights and biases, or weights
    /// and the scale and shift of each norm channel. Running statistics are not counted.
    #[must_use]
    pub fn parameters(&self, input: Shape) -> u64 {
        let own = match self {
            Self::SqueezeExcite { channels, .. } => {
                self.weights(input).saturating_add((channels + 2 * input.channels) as u64)
            }
            _ => self.weighted().map_or(0, |(channels, norm)| {
                (channels as u64)
                    .saturating_mul(if norm { 2 } else { 1 })
                    .saturating_add(self.weights(input))
            }),
        };
        own.saturating_add(self.inner(input, Self::parameters))
    }

    /// Multiplications of this layer for one position when it is computed densely, zero padding
    /// included. (In most encodings at most 33 input values are not zero, so a sparse input layer
    /// needs far fewer.)
    #[must_use]
    pub fn multiply_adds(&self, input: Shape) -> u64 {
        let cells = match self {
            // Its dense layers run once for a board.
            Self::SqueezeExcite { .. } => 1,
            _ => self.output_shape(input).map_or(0, |shape| shape.cells as u64),
        };
        self.weights(input)
            .saturating_mul(cells)
            .saturating_add(self.inner(input, Self::multiply_adds))
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
            Self::Residual { .. } | Self::Pool { .. } | Self::AppendMean => 0,
        }
    }

    /// Sum of `size` over the layers inside this one.
    fn inner(&self, mut input: Shape, size: impl Fn(&Self, Shape) -> u64) -> u64 {
        let Self::Residual { layers, .. } = self else { return 0 };
        let mut sum = 0_u64;
        for layer in layers {
            sum = sum.saturating_add(size(layer, input));
            let Ok(next) = layer.output_shape(input) else { return sum };
            input = next;
        }
        sum
    }
}

impl Description {
    /// Trained parameters of the whole network, see [`Layer::parameters`].
    ///
    /// # Errors
    /// As [`Description::check`].
    pub fn parameters(&self) -> Result<u64, String> {
        self.sum(Layer::parameters)
    }

    /// Multiplications for one position through trunk and every head, see [`Layer::multiply_adds`].
    ///
    /// # Errors
    /// As [`Description::check`].
    pub fn multiply_adds(&self) -> Result<u64, String> {
        self.sum(Layer::multiply_adds)
    }

    /// Multiplications for one position through the trunk and one head; 0 without the head.
    ///
    /// # Errors
    /// As [`Description::check`].
    pub fn multiply_adds_of(&self, kind: HeadKind) -> Result<u64, String> {
        let heads = self.head(kind).cloned().into_iter().collect::<Vec<_>>();
        if heads.is_empty() { Ok(0) } else { Self { heads, ..self.clone() }.multiply_adds() }
    }

    fn sum(&self, size: impl Fn(&Layer, Shape) -> u64) -> Result<u64, String> {
        self.check()?;
        let mut total = 0;
        let mut walk = |layers: &[Layer], mut shape: Shape| {
            for layer in layers {
                total += size(layer, shape);
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
}
