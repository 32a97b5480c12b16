//! The AVX2 and FMA path in `f32`.

use std::arch::x86_64::__m256;

use nets::LeelaPlanes;

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::Job,
    kernels::{
        Destination, Kernels, Operands, attention_in_vectors, by_rows, compiled_for,
        eight_lanes_in_f32,
    },
    layout::Store,
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    vector_input::input,
    vectors::{self, Wide},
    whole_board::BoardTable,
};

/// AVX2 and FMA in `f32`.
#[derive(Debug)]
pub(crate) struct Avx2;

eight_lanes_in_f32!(Avx2, "avx2,fma", __m256);
