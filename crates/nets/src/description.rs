//! An architecture as data: the layers that every executor (CPU kernels, plain reference, training) runs.
//!
//! Boards are channels-last: `[batch, 64 squares, channels]`, square `rank * 8 + file`, rank 0 the mover's first.

use serde::{Deserialize, Serialize};

use crate::{MOVE_PLANES, PLANES, size::MAX_PARAMETERS};

/// How a position becomes input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// [`crate::Squares`]: 15 one-hot planes from the mover's side.
    #[serde(rename = "batch-first-15")]
    BatchFirst15,
}

/// Applied to each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    Identity,
    Relu,
}

/// What a convolution does at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Padding {
    /// Zeros outside the board; 8x8 stays 8x8.
    Same,
    /// No padding; an 8x8 kernel leaves one cell.
    Valid,
}

/// One of the parallel convolutions of the input layer: `same` padding, no bias.
///
/// A kernel of even size `k` and dilation `d` reaches from `-(d*(k-1))/2` to `+(d*(k-1) - d*(k-1)/2)` around its
/// centre: 2x2 with dilation 2 touches -1 and +1, dilation 4 touches -2 and +2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Rows (ranks) and columns (files).
    pub kernel: [usize; 2],
    /// Step between rows and between columns.
    pub dilation: [usize; 2],
    pub channels: usize,
}

/// One step of the computation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "layer", rename_all = "kebab-case")]
pub enum Layer {
    /// The input layer: parallel convolutions over the input planes, concatenated, batch norm, activation.
    /// Tensors `{n}.branches.{i}.weight` `[channels, planes, rows, columns]`, `{n}.norm.*` `[total channels]`.
    Branches { branches: Vec<Branch>, activation: Activation },
    /// A square convolution, then batch norm or bias, then activation.
    /// Tensors `{n}.weight` `[channels, inputs, kernel, kernel]`; `{n}.norm.{scale,shift,mean,variance}` with
    /// `norm`, `{n}.bias` without.
    Conv { kernel: usize, channels: usize, padding: Padding, norm: bool, activation: Activation },
}

/// What a head's output means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadKind {
    /// One logit: the value of the position for the side to move.
    Value,
    /// [`crate::POLICY_SIZE`] logits: the value for the mover after each move.
    Moves,
}

impl HeadKind {
    /// Name in tensor names and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Moves => "moves",
        }
    }

    /// Outputs a position: cells times channels of the last layer.
    #[must_use]
    pub fn outputs(self) -> usize {
        match self {
            Self::Value => 1,
            Self::Moves => crate::POLICY_SIZE,
        }
    }
}

/// The layers after the trunk that end in one kind of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub kind: HeadKind,
    pub layers: Vec<Layer>,
}

/// A whole network: a trunk (may be empty) and its heads. Tensors of the trunk are named `trunk.{n}.…`, those of a
/// head `value.{n}.…` or `moves.{n}.…`, n counting from 0 in each list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    pub encoding: Encoding,
    pub trunk: Vec<Layer>,
    pub heads: Vec<Head>,
}

/// Role of a tensor, for initialisation and for telling weights from statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// Convolution weights.
    Weight,
    /// Bias of a layer without batch norm.
    Bias,
    NormScale,
    NormShift,
    /// Running mean: a statistic, not trained by gradient.
    NormMean,
    /// Running variance: a statistic, not trained by gradient.
    NormVariance,
}

/// Name, shape and role of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    pub shape: Vec<usize>,
    pub kind: TensorKind,
}

/// Added to a batch-norm variance before the square root.
pub const NORM_EPSILON: f32 = 1e-5;

/// Cells and channels between two layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// 64 for a board, 1 after an 8x8 `valid` convolution.
    pub cells: usize,
    pub channels: usize,
}

impl Layer {
    /// Shape after this layer, or why it cannot follow `input`.
    ///
    /// # Errors
    /// A sentence that names the mismatch.
    pub fn output_shape(&self, input: Shape) -> Result<Shape, String> {
        match self {
            Self::Branches { branches, .. } => {
                if input != (Shape { cells: 64, channels: PLANES }) {
                    return Err("an input layer must come first".to_owned());
                }
                let channels: usize =
                    branches.iter().fold(0, |sum, branch| sum.saturating_add(branch.channels));
                let bad = branches.iter().any(|branch| {
                    branch.channels == 0
                        || branch.kernel.iter().any(|&size| size == 0 || size > 8)
                        || branch.dilation.iter().any(|&step| step == 0 || step > 8)
                });
                if channels == 0 || channels > 8192 || bad {
                    return Err("an input layer has an impossible branch".to_owned());
                }
                Ok(Shape { cells: 64, channels })
            }
            &Self::Conv { kernel, channels, padding, .. } => {
                if channels == 0 || channels > 8192 {
                    return Err(format!("a convolution of {channels} channels"));
                }
                match padding {
                    Padding::Same if kernel == 1 || (input.cells == 64 && kernel % 2 == 1 && kernel <= 7) => {
                        Ok(Shape { cells: input.cells, channels })
                    }
                    Padding::Valid if kernel == 8 && input.cells == 64 => Ok(Shape { cells: 1, channels }),
                    _ => {
                        Err(format!("a {kernel}x{kernel} {padding:?} convolution over {} cells", input.cells))
                    }
                }
            }
        }
    }

    fn tensors(&self, prefix: &str, input: Shape, specs: &mut Vec<TensorSpec>) {
        let mut add = |name: String, shape: Vec<usize>, kind| specs.push(TensorSpec { name, shape, kind });
        let (norm, channels) = match self {
            Self::Branches { branches, .. } => {
                for (index, branch) in branches.iter().enumerate() {
                    add(
                        format!("{prefix}.branches.{index}.weight"),
                        vec![branch.channels, PLANES, branch.kernel[0], branch.kernel[1]],
                        TensorKind::Weight,
                    );
                }
                (true, branches.iter().map(|branch| branch.channels).sum())
            }
            &Self::Conv { kernel, channels, norm, .. } => {
                add(
                    format!("{prefix}.weight"),
                    vec![channels, input.channels, kernel, kernel],
                    TensorKind::Weight,
                );
                (norm, channels)
            }
        };
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

impl Description {
    /// The nine input convolutions of Batch First: the squares from which some piece could reach the centre.
    fn batch_first_input() -> Layer {
        let widths = [64, 32, 20, 20, 18, 18, 16];
        let mut branches: Vec<Branch> = (1..)
            .zip(widths)
            .map(|(step, channels)| Branch { kernel: [3, 3], dilation: [step, step], channels })
            .collect();
        for dilation in [[2, 4], [4, 2]] {
            branches.push(Branch { kernel: [2, 2], dilation, channels: 24 });
        }
        Layer::Branches { branches, activation: Activation::Relu }
    }

    fn batch_first_body() -> Vec<Layer> {
        let conv = |kernel, channels| Layer::Conv {
            kernel,
            channels,
            padding: Padding::Same,
            norm: true,
            activation: Activation::Relu,
        };
        let mut layers = vec![Self::batch_first_input(), conv(1, 512), conv(1, 128)];
        layers.extend((0..6).map(|_| conv(3, 32)));
        layers
    }

    /// The value network of Batch First (2018), or its move network, or both side by side.
    #[must_use]
    pub fn batch_first(kinds: &[HeadKind]) -> Self {
        let heads = kinds
            .iter()
            .map(|&kind| {
                let mut layers = Self::batch_first_body();
                if kind == HeadKind::Value {
                    layers.push(Layer::Conv {
                        kernel: 8,
                        channels: 16,
                        padding: Padding::Valid,
                        norm: true,
                        activation: Activation::Relu,
                    });
                }
                layers.push(Layer::Conv {
                    kernel: 1,
                    channels: if kind == HeadKind::Value { 1 } else { MOVE_PLANES },
                    padding: Padding::Same,
                    norm: false,
                    activation: Activation::Identity,
                });
                Head { kind, layers }
            })
            .collect();
        Self { encoding: Encoding::BatchFirst15, trunk: Vec::new(), heads }
    }

    /// Value and move head of Batch First on one trunk: the layers up to the last 3x3 convolution are computed once for
    /// both.
    #[must_use]
    pub fn batch_first_shared() -> Self {
        let conv = |kernel, channels, padding| Layer::Conv {
            kernel,
            channels,
            padding,
            norm: true,
            activation: Activation::Relu,
        };
        let last = |channels| Layer::Conv {
            kernel: 1,
            channels,
            padding: Padding::Same,
            norm: false,
            activation: Activation::Identity,
        };
        let value = vec![conv(8, 16, Padding::Valid), last(1)];
        // 73 planes need more to choose from than the trunk's 32 channels.
        let moves = vec![conv(3, 64, Padding::Same), last(MOVE_PLANES)];
        Self {
            encoding: Encoding::BatchFirst15,
            trunk: Self::batch_first_body(),
            heads: vec![
                Head { kind: HeadKind::Value, layers: value },
                Head { kind: HeadKind::Moves, layers: moves },
            ],
        }
    }

    /// The head of this kind.
    #[must_use]
    pub fn head(&self, kind: HeadKind) -> Option<&Head> {
        self.heads.iter().find(|head| head.kind == kind)
    }

    /// Checks that every layer can follow the one before, that every head ends in its outputs, and that the whole is
    /// no larger than a network can reasonably be.
    ///
    /// # Errors
    /// A sentence that names the layer.
    pub fn check(&self) -> Result<(), String> {
        let input = Shape { cells: 64, channels: PLANES };
        let mut parameters = 0_u64;
        let mut follow = |list: &str, layers: &[Layer], mut shape: Shape, at_input: bool| {
            for (index, layer) in layers.iter().enumerate() {
                let first = index == 0 && at_input;
                if first != matches!(layer, Layer::Branches { .. }) {
                    return Err(format!(
                        "{list} layer {index}: an input layer must come first and only there"
                    ));
                }
                parameters = parameters.saturating_add(layer.parameters(shape));
                shape =
                    layer.output_shape(shape).map_err(|reason| format!("{list} layer {index}: {reason}"))?;
            }
            Ok(shape)
        };
        let trunk = follow("trunk", &self.trunk, input, true)?;
        if self.heads.is_empty() {
            return Err("there is no head".to_owned());
        }
        for (index, head) in self.heads.iter().enumerate() {
            if self.heads[..index].iter().any(|other| other.kind == head.kind) {
                return Err(format!("there are two {} heads", head.kind.name()));
            }
            let end = follow(head.kind.name(), &head.layers, trunk, self.trunk.is_empty())?;
            if end.cells * end.channels != head.kind.outputs() {
                return Err(format!(
                    "the {} head ends in {} x {} outputs instead of {}",
                    head.kind.name(),
                    end.cells,
                    end.channels,
                    head.kind.outputs()
                ));
            }
        }
        if parameters > MAX_PARAMETERS {
            return Err(format!("{parameters} parameters, more than the largest supported {MAX_PARAMETERS}"));
        }
        Ok(())
    }

    /// Every tensor of the network in a fixed order: trunk first, then the heads.
    ///
    /// # Errors
    /// As [`Description::check`].
    pub fn tensors(&self) -> Result<Vec<TensorSpec>, String> {
        self.check()?;
        let mut specs = Vec::new();
        let mut walk = |prefix: &str, layers: &[Layer], mut shape: Shape| {
            for (index, layer) in layers.iter().enumerate() {
                layer.tensors(&format!("{prefix}.{index}"), shape, &mut specs);
                shape = layer.output_shape(shape)?;
            }
            Ok::<Shape, String>(shape)
        };
        let trunk = walk("trunk", &self.trunk, Shape { cells: 64, channels: PLANES })?;
        for head in &self.heads {
            walk(head.kind.name(), &head.layers, trunk)?;
        }
        Ok(specs)
    }
}
