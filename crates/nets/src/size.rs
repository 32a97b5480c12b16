//! How large a network is: numbers to store and multiplications to do.

use crate::{Description, Layer, PLANES, Padding, Shape};

/// Descriptions of more trained numbers are refused: nobody means a network of half a gigabyte here, and a damaged
/// file must not make us ask for the memory.
pub(crate) const MAX_PARAMETERS: u64 = 1 << 27;

impl Layer {
    /// Trained numbers of this layer after `input`: weights and biases, or weights and the two of each norm
    /// channel. Running statistics are not counted.
    #[must_use]
    pub fn parameters(&self, input: Shape) -> u64 {
        let (norm, channels) = match self {
            Self::Branches { branches, .. } => {
                (true, branches.iter().fold(0, |sum: u64, branch| sum.saturating_add(branch.channels as u64)))
            }
            Self::Conv { channels, norm, .. } => (*norm, *channels as u64),
        };
        self.weights(input).saturating_add(channels.saturating_mul(if norm { 2 } else { 1 }))
    }

    /// Multiplications that a dense execution of this layer does for one position, edges included. (The input
    /// layer has at most 33 ones, so an executor that knows it does far fewer there.)
    #[must_use]
    pub fn multiply_adds(&self, input: Shape) -> u64 {
        let cells = match self {
            Self::Conv { padding: Padding::Valid, .. } => 1,
            _ => input.cells as u64,
        };
        self.weights(input).saturating_mul(cells)
    }

    /// Convolution weights alone.
    fn weights(&self, input: Shape) -> u64 {
        let product = |factors: &[usize]| {
            factors.iter().fold(1_u64, |product, &factor| product.saturating_mul(factor as u64))
        };
        match self {
            Self::Branches { branches, .. } => branches.iter().fold(0, |sum: u64, branch| {
                sum.saturating_add(product(&[branch.channels, PLANES, branch.kernel[0], branch.kernel[1]]))
            }),
            Self::Conv { kernel, channels, .. } => product(&[*channels, input.channels, *kernel, *kernel]),
        }
    }
}

impl Description {
    /// Trained numbers of the whole network, see [`Layer::parameters`].
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
        let trunk = walk(&self.trunk, Shape { cells: 64, channels: PLANES })?;
        for head in &self.heads {
            walk(&head.layers, trunk)?;
        }
        Ok(total)
    }
}
