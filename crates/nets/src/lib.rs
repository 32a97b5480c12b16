//! Describes networks without running them: the input planes of a position, the output index of
//! each move, the architecture as a list of layers, the calibration of scores, and the weight file.

mod activation;
mod architectures;
mod attacks;
mod attention;
mod calibration;
mod description;
mod encoding;
mod error;
mod layer;
mod leela;
mod moves;
mod network;
mod onnx;
mod planes;
mod selectors;
mod size;
mod squares;
mod system;

pub use activation::{Activation, LEAKY_SLOPE, SELU};
pub use architectures::{BatchFirstResidual, Cockfish, ConvChess};
pub use attention::{Attention, BoardScores, SHARED_SCORES};
pub use calibration::{Calibration, MonotoneMap, MoveScores, Wdl, WdlModel};
pub use description::{
    Description, Head, HeadKind, HeadOutput, NORM_EPSILON, Shape, TensorKind, TensorSpec,
};
pub use encoding::Encoding;
pub use error::NetError;
pub use layer::{Branch, Layer, Padding, Pooling, kernel_start};
pub use leela::{
    BoardSeen, LEELA_MOVE_PAIRS, LEELA_MOVE_PLANES, LEELA_MOVES, LEELA_PLANES, Leela,
    LeelaAttention, LeelaInput, LeelaPlanes, MovePlaces, PAST_BOARDS, PastBoard, is_leela,
    leela_file,
};
pub use moves::{MOVE_PLANES, POLICY_SIZE, PolicyIndex, mirror_index, move_of_index, policy_index};
pub use network::{Network, Provenance, Tensor};
pub use onnx::onnx_file;
pub use planes::input_planes;
pub use selectors::move_squares;
pub use squares::{PLANES, Squares};
pub use system::System;
