//! Networks of Leela Chess Zero and Maia: their files (`.pb.gz`), their input planes, their order of
//! moves, and what their outputs mean.
//!
//! A file becomes a [`Network`](crate::Network) with layers of our own, so that everything that runs
//! a network runs these. What a file holds that no layer of ours computes is refused by name.
//!
//! | module | what it does |
//! |---|---|
//! | [`architecture`] | the shapes of these networks |
//! | [`file`] | recognises and decompresses a file, reads its messages |
//! | [`messages`] | the messages of a file, as protobuf |
//! | [`weights`] | number formats of weights |
//! | [`layers`] | messages become a description and tensors |
//! | [`attention`] | the same for attention bodies and policies |
//! | [`formats`] | what a file's network reads and answers |
//! | [`input`] | the forms of the input |
//! | [`planes`] | positions become 112 input planes |
//! | [`symmetry`] | the orientation in which newer networks see a position |
//! | [`moves`] | moves become places in the three forms of a policy |
//! | [`scores`] | win, draw and loss become centipawns |
//! | [`write`](leela_file) | a network becomes a file |
//!
//! Source: the file format and the encoder of [Leela Chess Zero](https://lczero.org).

mod architecture;
mod attention;
mod file;
mod formats;
mod input;
mod layers;
mod messages;
mod moves;
pub(crate) mod planes;
pub(crate) mod scores;
mod symmetry;
mod weights;
mod write;

pub use architecture::{Leela, LeelaAttention};
pub use file::is_leela;
pub(crate) use file::read;
pub use input::LeelaInput;
pub use moves::{LEELA_MOVE_PAIRS, LEELA_MOVE_PLANES, LEELA_MOVES, MovePlaces};
pub use planes::{BoardSeen, LEELA_PLANES, LeelaPlanes, PAST_BOARDS, PastBoard};
pub use write::leela_file;
