//! What a Batch First network is, without running one: how a position becomes input planes, which output belongs to
//! which move, the architecture as a plain list of layers, the calibration of its scores, and the weight file.

mod calibration;
mod description;
mod error;
mod moves;
mod network;
mod size;
mod squares;

pub use calibration::{Calibration, MonotoneMap, MoveScores, Wdl, WdlModel};
pub use description::{
    Activation, Branch, Description, Encoding, Head, HeadKind, Layer, NORM_EPSILON, Padding, Shape,
    TensorKind, TensorSpec,
};
pub use error::NetError;
pub use moves::{MOVE_PLANES, POLICY_SIZE, PolicyIndex, mirror_index, move_of_index, policy_index};
pub use network::{Network, Provenance, Tensor};
pub use squares::{PLANES, Squares};
