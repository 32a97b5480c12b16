//! The layers of an architecture: their shapes, and the names and shapes of their tensors.
//!
//! Boards are channels-last: `[batch, cells, channels]`. A board of side `s` has `s * s` cells,
//! cell `rank * s + file`, rank 0 the mover's first (White's in an encoding of White's view).

use serde::{Deserialize, Serialize};

use crate::{
    Activation, Shape,
    description::{TensorKind, TensorSpec},
};

/// The padding of a convolution at the edge of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Padding {
    /// Zeros outside the board; the board keeps its size.
    Same,
    /// No padding; a kernel as large as the board leaves one cell.
    Valid,
}

/// The value that a pooling layer computes from each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    Max,
    Average,
}

/// One of the parallel convolutions of the input layer: `same` padding, no bias.
///
/// A kernel of even size `k` and dilation `d` reaches from `-(d*(k-1))/2` to `+(d*(k-1) -
/// d*(k-1)/2)` around its centre: 2x2 with dilation 2 touches -1 and +1, dilation 4 touches -2 and
/// +2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Rows (ranks) and columns (files).
    pub kernel: [usize; 2],
    /// Step between rows and between columns.
    pub dilation: [usize; 2],
    pub channels: usize,
}

/// Offset of a kernel's first row (or column) from the output square, in squares. The kernel is
/// centred; when its span is odd it reaches one square further after the output square than before
/// it.
#[must_use]
pub const fn kernel_start(kernel: usize, dilation: usize) -> isize {
    -((dilation * (kernel - 1) / 2) as isize)
}

/// One step of the computation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "layer", rename_all = "kebab-case")]
pub enum Layer {
    /// The input layer: parallel convolutions over the input planes, concatenated, batch norm or
    /// bias, activation. Tensors `{n}.branches.{i}.weight` `[channels, planes, rows, columns]`, and
    /// `{n}.norm.*` or `{n}.bias` `[total channels]`.
    Branches {
        branches: Vec<Branch>,
        #[serde(default = "yes", skip_serializing_if = "is_yes")]
        norm: bool,
        activation: Activation,
    },
    /// A square convolution, then batch norm or bias, then activation. Tensors `{n}.weight`
    /// `[channels, inputs, kernel, kernel]`; `{n}.norm.{scale,shift,mean,variance}` with `norm`,
    /// `{n}.bias` without.
    Conv { kernel: usize, channels: usize, padding: Padding, norm: bool, activation: Activation },
    /// A fully connected layer over the whole board, then batch norm or bias, then activation; the
    /// output is one cell. Tensors as `Conv`'s, but `{n}.weight` is `[channels, inputs * cells]`,
    /// with the cells of each input channel in sequence.
    Dense { channels: usize, norm: bool, activation: Activation },
    /// Adds its input to the output of its inner layers, which keep the shape, then activation.
    /// Tensors `{n}.layers.{i}.…`.
    Residual { layers: Vec<Layer>, activation: Activation },
    /// Pooling over adjacent windows of `size` x `size` cells; the board's side shrinks by that
    /// factor.
    Pool { pooling: Pooling, size: usize },
    /// Appends each channel's average over the board to every cell; the output has twice the
    /// channels.
    AppendMean,
    /// Squeeze and excitation (Hu and others, 2018): each channel's average over the board goes
    /// through a dense layer of `channels` outputs and the activation, then through a second one
    /// with two outputs a channel: the channel is multiplied by the logistic function of the first
    /// and the second is added. Tensors `{n}.squeeze.{weight,bias}` `[channels, inputs]` and
    /// `{n}.excite.{weight,bias}` `[2 * inputs, channels]`, factors before summands.
    SqueezeExcite { channels: usize, activation: Activation },
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Largest number of channels of a layer.
const MAX_CHANNELS: usize = 8192;

impl Layer {
    /// Output shape of this layer for inputs of shape `input`.
    ///
    /// # Errors
    /// A sentence that names the mismatch.
    pub fn output_shape(&self, input: Shape) -> Result<Shape, String> {
        let side = input.side();
        match self {
            Self::Branches { branches, .. } => branches_shape(branches, side),
            &Self::Conv { kernel, channels, padding, .. } => {
                conv_shape(kernel, channels, padding, input)
            }
            &Self::Dense { channels, .. } => {
                if channels == 0 || channels > MAX_CHANNELS {
                    return Err(format!("a dense layer of {channels} channels"));
                }
                Ok(Shape { cells: 1, channels })
            }
            Self::Residual { layers, .. } => residual_shape(layers, input),
            &Self::Pool { size, .. } => {
                if size < 2 || !side.is_multiple_of(size) {
                    return Err(format!("a {size}x{size} pooling over {} cells", input.cells));
                }
                Ok(Shape { cells: (side / size) * (side / size), channels: input.channels })
            }
            Self::AppendMean => {
                let channels = 2 * input.channels;
                if channels > MAX_CHANNELS {
                    return Err(format!("an average appended to {} channels", input.channels));
                }
                Ok(Shape { cells: input.cells, channels })
            }
            &Self::SqueezeExcite { channels, .. } => {
                if channels == 0 || channels.max(input.channels) > MAX_CHANNELS {
                    return Err(format!("squeeze and excitation of {channels} channels"));
                }
                Ok(input)
            }
        }
    }

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
            Self::Residual { .. }
            | Self::Pool { .. }
            | Self::AppendMean
            | Self::SqueezeExcite { .. } => None,
        }
    }

    /// Appends the tensors of this layer to `specs`. The layer must accept inputs of shape `input`.
    pub(crate) fn tensors(&self, prefix: &str, mut input: Shape, specs: &mut Vec<TensorSpec>) {
        let mut add =
            |name: String, shape: Vec<usize>, kind| specs.push(TensorSpec { name, shape, kind });
        let weight = format!("{prefix}.weight");
        match self {
            Self::Branches { branches, .. } => {
                for (index, branch) in branches.iter().enumerate() {
                    add(
                        format!("{prefix}.branches.{index}.weight"),
                        vec![branch.channels, input.channels, branch.kernel[0], branch.kernel[1]],
                        TensorKind::Weight,
                    );
                }
            }
            &Self::Conv { kernel, channels, .. } => {
                add(weight, vec![channels, input.channels, kernel, kernel], TensorKind::Weight);
            }
            &Self::Dense { channels, .. } => {
                add(weight, vec![channels, input.channels * input.cells], TensorKind::Weight);
            }
            Self::Residual { layers, .. } => {
                for (index, layer) in layers.iter().enumerate() {
                    layer.tensors(&format!("{prefix}.layers.{index}"), input, specs);
                    if let Ok(next) = layer.output_shape(input) {
                        input = next;
                    }
                }
                return;
            }
            &Self::SqueezeExcite { channels, .. } => {
                let width = input.channels;
                for (part, inputs, outputs) in
                    [("squeeze", width, channels), ("excite", channels, 2 * width)]
                {
                    add(
                        format!("{prefix}.{part}.weight"),
                        vec![outputs, inputs],
                        TensorKind::Weight,
                    );
                    add(format!("{prefix}.{part}.bias"), vec![outputs], TensorKind::Bias);
                }
                return;
            }
            Self::Pool { .. } | Self::AppendMean => return,
        }
        let Some((channels, norm)) = self.weighted() else { return };
        if norm {
            for (part, kind) in [
                ("scale", TensorKind::NormScale),
                ("shift", TensorKind::NormShift),
                ("mean", TensorKind::NormMean),
                ("variance", TensorKind::NormVariance),
            ] {
                add(format!("{prefix}.norm.{part}"), vec![channels], kind);
            }
        } else {
            add(format!("{prefix}.bias"), vec![channels], TensorKind::Bias);
        }
    }
}

/// Output shape of an input layer over a board of this side.
fn branches_shape(branches: &[Branch], side: usize) -> Result<Shape, String> {
    if side != 8 {
        return Err("an input layer must come first".to_owned());
    }
    let channels: usize =
        branches.iter().fold(0, |sum, branch| sum.saturating_add(branch.channels));
    let bad = branches.iter().any(|branch| {
        branch.channels == 0
            || branch.kernel.iter().any(|&size| size == 0 || size > 8)
            || branch.dilation.iter().any(|&step| step == 0 || step > 8)
    });
    if channels == 0 || channels > MAX_CHANNELS || bad {
        return Err("an input layer has an impossible branch".to_owned());
    }
    Ok(Shape { cells: 64, channels })
}

/// Output shape of a convolution.
fn conv_shape(
    kernel: usize,
    channels: usize,
    padding: Padding,
    input: Shape,
) -> Result<Shape, String> {
    if channels == 0 || channels > MAX_CHANNELS {
        return Err(format!("a convolution of {channels} channels"));
    }
    let side = input.side();
    match padding {
        Padding::Same if kernel == 1 || (side > 1 && kernel % 2 == 1 && kernel <= 7) => {
            Ok(Shape { cells: input.cells, channels })
        }
        Padding::Valid if kernel == side && side > 1 => Ok(Shape { cells: 1, channels }),
        _ => Err(format!("a {kernel}x{kernel} {padding:?} convolution over {} cells", input.cells)),
    }
}

/// Output shape of a residual layer with these inner layers, which must keep the shape.
fn residual_shape(layers: &[Layer], input: Shape) -> Result<Shape, String> {
    let mut shape = input;
    for (index, layer) in layers.iter().enumerate() {
        if matches!(layer, Layer::Branches { .. }) {
            return Err(format!("residual layer {index}: an input layer must come first"));
        }
        shape = layer
            .output_shape(shape)
            .map_err(|reason| format!("residual layer {index}: {reason}"))?;
    }
    if layers.is_empty() || shape != input {
        return Err(format!(
            "a residual layer adds {} x {} to {} x {} outputs",
            shape.cells, shape.channels, input.cells, input.channels
        ));
    }
    Ok(shape)
}
