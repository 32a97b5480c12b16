//! An architecture as data: the layers that every executor (CPU kernels, plain reference, training)
//! runs.

use board::Role;
use serde::{Deserialize, Serialize};

use crate::{
    Encoding, LEELA_MOVE_PAIRS, LEELA_MOVE_PLANES, LEELA_MOVES, Layer, size::MAX_PARAMETERS,
};

/// The meaning of a head's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadKind {
    /// One logit: the value of the position for the side to move.
    Value,
    /// [`crate::POLICY_SIZE`] logits: the value for the mover after each move.
    Moves,
    /// 64 logits: the square from which the mover moves (ConvChess's piece selector).
    From,
    /// 64 logits each: the square to which the mover's pawn, knight, … moves (ConvChess's move
    /// selectors).
    PawnTo,
    KnightTo,
    BishopTo,
    RookTo,
    QueenTo,
    KingTo,
    /// One number: plies until the game ends, as Leela's networks guess.
    MovesLeft,
}

impl HeadKind {
    /// Name in tensor names and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Moves => "moves",
            Self::From => "from",
            Self::PawnTo => "pawn-to",
            Self::KnightTo => "knight-to",
            Self::BishopTo => "bishop-to",
            Self::RookTo => "rook-to",
            Self::QueenTo => "queen-to",
            Self::KingTo => "king-to",
            Self::MovesLeft => "moves-left",
        }
    }

    /// The move selector of a piece.
    #[must_use]
    pub fn to(role: Role) -> Self {
        match role {
            Role::Pawn => Self::PawnTo,
            Role::Knight => Self::KnightTo,
            Role::Bishop => Self::BishopTo,
            Role::Rook => Self::RookTo,
            Role::Queen => Self::QueenTo,
            Role::King => Self::KingTo,
        }
    }

    /// Outputs per position in the [plain](HeadOutput::Plain) form: cells times channels of the last
    /// layer.
    #[must_use]
    pub fn outputs(self) -> usize {
        match self {
            Self::Value | Self::MovesLeft => 1,
            Self::Moves => crate::POLICY_SIZE,
            _ => 64,
        }
    }
}

/// The form of a head's outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadOutput {
    /// That of the [`HeadKind`].
    #[default]
    Plain,
    /// A value: logits of win, draw and loss.
    WinDrawLoss,
    /// A value: a number whose hyperbolic tangent is wins minus losses.
    Expectation,
    /// Moves: [`LEELA_MOVE_PLANES`](crate::LEELA_MOVE_PLANES) planes.
    LeelaPlanes,
    /// Moves: Leela's list of [`LEELA_MOVES`](crate::LEELA_MOVES).
    LeelaMoves,
    /// Moves: Leela's [`LEELA_MOVE_PAIRS`](crate::LEELA_MOVE_PAIRS) of squares.
    LeelaPairs,
}

impl HeadOutput {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }

    /// In words, for users.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "as a head of ours",
            Self::WinDrawLoss => "value as win, draw and loss",
            Self::Expectation => "value as one number",
            Self::LeelaPlanes => "policy over planes of moves",
            Self::LeelaMoves => "policy over a list of moves",
            Self::LeelaPairs => "policy over pairs of squares",
        }
    }
}

/// The layers after the trunk that end in one kind of output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub kind: HeadKind,
    #[serde(default, skip_serializing_if = "HeadOutput::is_plain")]
    pub output: HeadOutput,
    pub layers: Vec<Layer>,
}

impl Head {
    /// A head whose outputs have the form of its kind.
    #[must_use]
    pub fn plain(kind: HeadKind, layers: Vec<Layer>) -> Self {
        Self { kind, output: HeadOutput::Plain, layers }
    }

    /// Outputs per position; `None` for a kind of head that has no such form.
    #[must_use]
    pub fn outputs(&self) -> Option<usize> {
        match (self.kind, self.output) {
            (kind, HeadOutput::Plain) => Some(kind.outputs()),
            (HeadKind::Value, HeadOutput::WinDrawLoss) => Some(3),
            (HeadKind::Value, HeadOutput::Expectation) => Some(1),
            (HeadKind::Moves, HeadOutput::LeelaPlanes) => Some(64 * LEELA_MOVE_PLANES),
            (HeadKind::Moves, HeadOutput::LeelaMoves) => Some(LEELA_MOVES),
            (HeadKind::Moves, HeadOutput::LeelaPairs) => Some(LEELA_MOVE_PAIRS),
            _ => None,
        }
    }
}

/// A whole network: a trunk (may be empty) and its heads. Tensors of the trunk are named
/// `trunk.{n}.…`, those of a head `value.{n}.…` or `moves.{n}.…`, n counting from 0 in each list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    pub encoding: Encoding,
    pub trunk: Vec<Layer>,
    pub heads: Vec<Head>,
}

/// Role of a tensor, for initialisation and to distinguish weights from statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// Weights of any layer.
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
    /// 64 for a board, 16, 4 or 1 after pooling, 1 after a dense layer.
    pub cells: usize,
    pub channels: usize,
}

impl Shape {
    /// Ranks and files of the board.
    #[must_use]
    pub fn side(self) -> usize {
        self.cells.isqrt()
    }
}

impl Description {
    /// Shape of the input planes.
    #[must_use]
    pub fn input_shape(&self) -> Shape {
        Shape { cells: 64, channels: self.encoding.planes() }
    }

    /// The head of this kind.
    #[must_use]
    pub fn head(&self, kind: HeadKind) -> Option<&Head> {
        self.heads.iter().find(|head| head.kind == kind)
    }

    /// Checks that every layer accepts the shape before it, that every head ends in its number of
    /// outputs, and that the number of parameters is within the limit.
    ///
    /// # Errors
    /// A sentence that names the layer.
    pub fn check(&self) -> Result<(), String> {
        let input = self.input_shape();
        let mut parameters = 0_u64;
        let mut shared = Vec::new();
        let mut follow = |list: &str, layers: &[Layer], mut shape: Shape, at_input: bool| {
            for (index, layer) in layers.iter().enumerate() {
                let first = index == 0 && at_input && !self.encoding.has_history();
                if first != matches!(layer, Layer::Branches { .. }) {
                    return Err(format!(
                        "{list} layer {index}: an input layer must come first and only there"
                    ));
                }
                if matches!(layer, Layer::BoardEmbedding { .. })
                    && !(index == 0 && list == "trunk" && self.encoding.has_history())
                {
                    return Err(format!(
                        "{list} layer {index}: an embedding of the board comes first, over planes"
                    ));
                }
                let after = layer
                    .output_shape(shape)
                    .map_err(|reason| format!("{list} layer {index}: {reason}"))?;
                parameters = parameters.saturating_add(layer.parameters(shape));
                shared_scores(layer, shape, &mut shared);
                shape = after;
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
            let name = head.kind.name();
            let outputs = head
                .outputs()
                .ok_or_else(|| format!("the {name} head has outputs of another head's form"))?;
            if matches!(
                head.output,
                HeadOutput::LeelaPlanes | HeadOutput::LeelaMoves | HeadOutput::LeelaPairs
            ) && !self.encoding.has_history()
            {
                return Err(format!("the {name} head needs Leela's planes as input"));
            }
            if head.kind.is_selector() && self.encoding == Encoding::KingRight21 {
                return Err(format!(
                    "the {name} head names squares of the board, not of its mirror image"
                ));
            }
            if end.cells * end.channels != outputs {
                return Err(format!(
                    "the {name} head ends in {} x {} outputs instead of {outputs}",
                    end.cells, end.channels,
                ));
            }
        }
        if shared.iter().any(|scores| *scores != shared[0]) {
            return Err("attention layers share one matrix of scores but differ in its size".into());
        }
        let parameters = parameters.saturating_add(shared_parameters(&shared));
        if parameters > MAX_PARAMETERS {
            return Err(format!(
                "{parameters} parameters, more than the largest supported {MAX_PARAMETERS}"
            ));
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
        let trunk = walk("trunk", &self.trunk, self.input_shape())?;
        for head in &self.heads {
            walk(head.kind.name(), &head.layers, trunk)?;
        }
        Ok(specs)
    }
}

/// Cells and generated outputs of the attention layers in a layer that share a matrix of scores.
fn shared_scores(layer: &Layer, input: Shape, found: &mut Vec<(usize, usize)>) {
    if let Layer::Attention(attention) = layer {
        found.extend(attention.board.as_ref().map(|board| (input.cells, board.generated)));
    }
    for (_, inner, input) in layer.inner(input) {
        shared_scores(&inner, input, found);
    }
}

/// Weights of the matrix of scores that these layers share.
fn shared_parameters(shared: &[(usize, usize)]) -> u64 {
    shared
        .first()
        .map_or(0, |&(cells, generated)| ((cells * cells) as u64).saturating_mul(generated as u64))
}
