//! The layers of an architecture: their shapes, and the names and shapes of their tensors.
//!
//! Boards are channels-last: `[batch, cells, channels]`. A board of side `s` has `s * s` cells,
//! cell `rank * s + file`, rank 0 the mover's first (White's in an encoding of White's view).

mod tensors;

use serde::{Deserialize, Serialize};

use crate::{Activation, Attention, LEELA_MOVE_PAIRS, Shape, attention::PROJECTIONS};

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
    /// Multiplies each channel of each cell by a number of its own, adds another, then activation.
    /// Tensors `{n}.{scale,shift}` `[cells, channels]`.
    Gate { activation: Activation },
    /// Layer normalisation (Ba and others, 2016): the channels of each cell get mean 0 and variance 1
    /// and then a scale and a shift each. So many millionths are added to the variance. Tensors
    /// `{n}.{scale,shift}` `[channels]`.
    LayerNorm { millionths: u32 },
    /// See [`Attention`].
    Attention(Attention),
    /// Appends channels to each cell that a dense layer computes from the first planes of the whole
    /// board; only as the first layer, over input planes. Tensors `{n}.weight` `[cells * channels,
    /// cells * planes]` and `{n}.bias`, channels and planes of a cell in sequence.
    BoardEmbedding { planes: usize, channels: usize },
    /// Leela's policy of attention: the query of each cell times the key of each cell, divided by
    /// the root of the width, then promotions. The logit of a promotion from one file to another is
    /// that of the pair on ranks 7 and 8, plus the key of the target times a row of
    /// `{n}.promotion.weight` `[4, width]` (queen, rook, bishop), plus the key times the last row.
    /// Other tensors `{n}.{query,key}.{weight,bias}` `[width, inputs]`.
    MoveAttention { width: usize },
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Largest number of channels of a layer.
pub(crate) const MAX_CHANNELS: usize = 8192;

impl Layer {
    /// A dense layer of each cell by itself: a 1x1 convolution with a bias.
    #[must_use]
    pub fn each_cell(channels: usize, activation: Activation) -> Self {
        Self::Conv { kernel: 1, channels, padding: Padding::Same, norm: false, activation }
    }

    /// An input layer that sees single squares and the dense layer over the board behind it, if a
    /// list begins so: executors compute both at once.
    #[must_use]
    pub fn whole_board(layers: &[Self]) -> Option<[&Self; 2]> {
        match layers {
            [
                input @ Self::Branches { branches, .. },
                dense @ (Self::Dense { .. } | Self::Conv { padding: Padding::Valid, .. }),
                ..,
            ] if branches.iter().all(|branch| branch.kernel == [1, 1]) => Some([input, dense]),
            _ => None,
        }
    }

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
            Self::LayerNorm { millionths: 0 } => Err("a norm that may divide by zero".to_owned()),
            Self::Gate { .. } | Self::LayerNorm { .. } => Ok(input),
            Self::Attention(attention) => attention.output_shape(input),
            &Self::BoardEmbedding { planes, channels } => {
                let all = channels.saturating_add(input.channels);
                if channels == 0 || all > MAX_CHANNELS || planes == 0 || planes > input.channels {
                    return Err(format!("{channels} channels from {planes} planes of the board"));
                }
                Ok(Shape { cells: input.cells, channels: all })
            }
            &Self::MoveAttention { width } => {
                if width == 0 || width > MAX_CHANNELS || input.cells != 64 {
                    let cells = input.cells;
                    return Err(format!(
                        "a policy of attention of width {width} over {cells} cells"
                    ));
                }
                Ok(Shape { cells: 1, channels: LEELA_MOVE_PAIRS })
            }
        }
    }

    /// The layers inside this one, with their names after its own and the shapes of their inputs. The
    /// layer must accept inputs of shape `input`.
    pub(crate) fn inner(&self, input: Shape) -> Vec<(String, Self, Shape)> {
        let chain = |layers: Vec<(String, Self)>| {
            let mut shape = input;
            let with_shape = |(name, layer): (String, Self)| {
                let own = shape;
                shape = layer.output_shape(shape).unwrap_or(shape);
                (name, layer, own)
            };
            layers.into_iter().map(with_shape).collect::<Vec<_>>()
        };
        let projections = |names: &[&str], width| {
            let layer = Self::each_cell(width, Activation::Identity);
            names.iter().map(|name| ((*name).to_owned(), layer.clone(), input)).collect()
        };
        match self {
            Self::Residual { layers, .. } => {
                let named = layers.iter().enumerate();
                chain(named.map(|(at, layer)| (format!("layers.{at}"), layer.clone())).collect())
            }
            Self::Attention(attention) => {
                let mut inner: Vec<_> = projections(&PROJECTIONS, attention.width);
                let board = attention.board_layers().into_iter();
                inner.extend(chain(board.map(|(name, layer)| (name.to_owned(), layer)).collect()));
                inner
            }
            &Self::MoveAttention { width } => projections(&PROJECTIONS[..2], width),
            _ => Vec::new(),
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
        if matches!(layer, Layer::Branches { .. } | Layer::BoardEmbedding { .. }) {
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
