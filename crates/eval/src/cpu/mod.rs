//! Kernels that evaluate our networks on a CPU.

pub mod amx;
