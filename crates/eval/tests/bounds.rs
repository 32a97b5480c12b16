//! Test that no kernel reads or writes outside its memory, for any batch size.
//!
//! Miri cannot run inline assembly and wide vectors, and valgrind cannot run AVX-512 and tiles. So
//! the allocator of this test places each block of kernel memory directly before a forbidden page,
//! and in a second run directly behind one. A single access outside ends the test with a fault.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use board::Position;
use eval::{
    Batch, Evaluator, Precision,
    cpu::{CpuEvaluator, CpuOptions, CpuPath},
};
use nets::{Activation, Branch, Description, Layer, Network, Padding, Pooling};

/// Places allocations that are aligned to cache lines next to a forbidden page.
struct Fenced;

const PAGE: usize = 4096;
static FENCE_BEFORE: AtomicBool = AtomicBool::new(false);
static FENCED: AtomicUsize = AtomicUsize::new(0);

/// Bytes mapped for an allocation of `size` bytes without its two forbidden pages.
fn mapped(size: usize) -> usize {
    size.next_multiple_of(PAGE)
}

// SAFETY: fenced blocks are new private mappings with the requested alignment (64 bytes, of which
// sizes are multiples). They are never freed.
unsafe impl GlobalAlloc for Fenced {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() != 64 || !layout.size().is_multiple_of(64) {
            // SAFETY: the caller's layout, passed on.
            return unsafe { System.alloc(layout) };
        }
        FENCED.fetch_add(1, Ordering::Relaxed);
        let length = mapped(layout.size()) + 2 * PAGE;
        // SAFETY: a new anonymous mapping; its first and last page are then forbidden.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            );
            if base == libc::MAP_FAILED {
                return std::ptr::null_mut();
            }
            let base: *mut u8 = base.cast();
            libc::mprotect(base.cast(), PAGE, libc::PROT_NONE);
            libc::mprotect(base.add(length - PAGE).cast(), PAGE, libc::PROT_NONE);
            let gap = if FENCE_BEFORE.load(Ordering::Relaxed) {
                0
            } else {
                mapped(layout.size()) - layout.size()
            };
            base.add(PAGE + gap)
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if layout.align() != 64 || !layout.size().is_multiple_of(64) {
            // SAFETY: came from `System`.
            unsafe { System.dealloc(pointer, layout) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: Fenced = Fenced;

fn conv(kernel: usize, channels: usize, padding: Padding) -> Layer {
    Layer::Conv { kernel, channels, padding, norm: true, activation: Activation::Relu }
}

fn dense(channels: usize) -> Layer {
    Layer::Dense { channels, norm: false, activation: Activation::Relu }
}

/// Every kind of layer, boards of all sizes, odd widths, a shared trunk, and a move head that ends
/// in a 3x3 convolution.
fn network() -> Arc<Network> {
    let branches = [([3, 3], [1, 1], 20), ([2, 2], [2, 4], 9), ([3, 3], [7, 7], 40)];
    let branches =
        branches.map(|(kernel, dilation, channels)| Branch { kernel, dilation, channels }).to_vec();
    let reduced = Layer::Conv {
        kernel: 3,
        channels: 17,
        padding: Padding::Same,
        norm: false,
        activation: Activation::Identity,
    };
    let trunk = vec![
        Layer::Branches { branches, norm: true, activation: Activation::Relu },
        conv(3, 17, Padding::Same),
        Layer::Residual {
            layers: vec![conv(3, 35, Padding::Same), reduced],
            activation: Activation::Relu,
        },
        Layer::Residual { layers: vec![conv(1, 17, Padding::Same)], activation: Activation::Relu },
        Layer::AppendMean,
    ];
    let value = vec![
        conv(5, 33, Padding::Same),
        Layer::Pool { pooling: Pooling::Max, size: 2 },
        conv(3, 33, Padding::Same),
        Layer::Pool { pooling: Pooling::Average, size: 2 },
        conv(3, 40, Padding::Same),
        dense(70),
        conv(1, 40, Padding::Same),
        Layer::Residual { layers: vec![dense(40)], activation: Activation::Relu },
        dense(1),
    ];
    let moves = vec![conv(1, 16, Padding::Same), conv(3, 73, Padding::Same)];
    let description = Description::value_and_moves(trunk, value, moves);
    Arc::new(Network::random(description, 1).unwrap())
}

#[test]
fn kernels_stay_in_their_memory() {
    let network = network();
    let mut positions = Vec::new();
    let mut position = Position::default();
    for step in 0..64 {
        let moves = position.legal_moves();
        if moves.is_empty() {
            break;
        }
        position.play(moves[step * 7 % moves.len()]);
        positions.push(position.clone());
    }
    for before in [false, true] {
        FENCE_BEFORE.store(before, Ordering::Relaxed);
        for path in CpuPath::ALL {
            for precision in Precision::OF_PROCESSORS {
                if let Some(obstacle) = path.obstacle(precision) {
                    board::testing::skip("kernels_stay_in_their_memory", &obstacle);
                    continue;
                }
                let fenced = FENCED.load(Ordering::Relaxed);
                let options =
                    CpuOptions { threads: 1, path: Some(path), precision: Some(precision) };
                let mut evaluator = CpuEvaluator::new(Arc::clone(&network), options).unwrap();
                assert!(FENCED.load(Ordering::Relaxed) > fenced, "kernel memory is fenced");
                // The portable path is slow, and Rust checks most of its bounds.
                let scattered = if path == CpuPath::Portable { 0 } else { 5 };
                let scattered = (0..scattered).map(|index| (index + 1) * 7919 % 2001);
                for size in (0..=40).chain([63, 64, 65, 255, 256, 257, 1023, 2000]).chain(scattered)
                {
                    let mut batch = Batch::default();
                    for index in 0..size {
                        let position = &positions[index % positions.len()];
                        let legal = position.legal_moves();
                        let moves = if index % 4 == 1 { &[] } else { legal.as_slice() };
                        batch.push(position, index % 3 != 0, moves);
                    }
                    let scores = evaluator.evaluate(batch).unwrap().scores;
                    assert_eq!(scores.values.len(), size);
                    assert!(
                        scores.values.iter().chain(&scores.moves).all(|score| score.is_finite())
                    );
                }
            }
        }
    }
}
