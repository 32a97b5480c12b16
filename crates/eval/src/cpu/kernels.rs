//! The operations that each code path implements.

use nets::{Activation, LeelaPlanes};

use super::{
    attention::Attend,
    elementwise::Elementwise,
    input::Job,
    layout::{BLOCK, Store},
    memory::Element,
    planes::PlaneWriter,
    recent_boards::RecentBoards,
    row::Row,
    whole_board::BoardTable,
};

/// The operands of a product C = A x B.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands<'a, E> {
    /// The first row of A.
    pub a: *const E,
    /// Elements from one row of A to the next.
    pub stride: usize,
    /// For each step of 32 inner elements the bytes from `a` to the step's first row.
    pub offsets: &'a [u32],
    /// A packed panel of 32 columns with `offsets.len()` steps.
    pub b: *const E,
    /// Rows of 32 sums, on cache lines: `f32`, or the bits of `i32` in quantised formats.
    pub c: *mut f32,
}

impl<E> Operands<'_, E> {
    /// The operands for the rows from `row` on.
    #[inline(always)]
    pub fn at_row(&self, row: usize) -> Self {
        let (a, c) = (self.a.wrapping_add(row * self.stride), self.c.wrapping_add(row * BLOCK));
        Self { a, c, ..*self }
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Operands<'_, f32> {
    /// The operands for each 16 columns that are needed; with `narrow` these are the first 16, and
    /// the sums of the others become 0.
    ///
    /// # Safety
    /// C has `rows` rows of 32, which no other thread uses.
    #[inline(always)]
    pub unsafe fn sixteens(&self, rows: usize, narrow: bool) -> impl Iterator<Item = Self> {
        if narrow {
            for row in 0..rows {
                // SAFETY: the caller's promise.
                unsafe { self.c.add(row * BLOCK + 16).write_bytes(0, 16) };
            }
        }
        (0..if narrow { 16 } else { BLOCK }).step_by(16).map(|column| {
            let (b, c) = (self.b.wrapping_add(column), self.c.wrapping_add(column));
            Self { b, c, ..*self }
        })
    }
}

/// Where and how the sums of a panel are stored as activations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination<'a, E> {
    /// 32 factors of the sums, which only quantised formats use.
    pub scale: *const f32,
    /// 32 biases.
    pub bias: *const f32,
    /// Rows of 32 activations to add, one for each row of sums; null for none.
    pub residual: *const E,
    /// Elements from one row of the residual to the next.
    pub residual_stride: usize,
    /// Ratio of the residual's unit to the output's unit.
    pub ratio: f32,
    pub activation: Activation,
    pub out: *mut E,
    /// Element offsets from `out`, `copies` for each row.
    pub targets: &'a [u32],
    pub copies: usize,
}

impl<E: Element> Destination<'_, E> {
    /// [`Kernels::finish`].
    ///
    /// # Safety
    /// As there, and as [`Row`].
    #[inline(always)]
    pub unsafe fn finish<R: Row<E>>(&self, c: *const f32, rows: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            // The usual numbers of copies as constants make faster loops.
            match self.copies {
                1 => self.finish_copies::<R>(c, rows, 1),
                3 => self.finish_copies::<R>(c, rows, 3),
                copies => self.finish_copies::<R>(c, rows, copies),
            }
        }
    }

    #[inline(always)]
    unsafe fn finish_copies<R: Row<E>>(&self, c: *const f32, rows: usize, copies: usize) {
        // SAFETY: 32 scales and biases, `rows` rows of C and of the residual, and target rows, as
        // the caller promises.
        unsafe {
            let (scale, bias) = (R::load(self.scale), R::load(self.bias));
            let ratio = R::splat(self.ratio);
            for (row, targets) in self.targets.chunks_exact(copies).take(rows).enumerate() {
                let mut values = R::finished(c.add(row * BLOCK), scale, bias);
                if !self.residual.is_null() {
                    let residual = R::read(self.residual.add(row * self.residual_stride));
                    values = residual.mul_add(ratio, values);
                }
                // Quantised activations are unsigned, so that writing them clips at zero.
                if !E::QUANTISED {
                    values = values.activated(self.activation);
                }
                for &target in targets {
                    values.write(self.out.add(target as usize));
                }
            }
        }
    }
}

/// The inner loops of one code path.
///
/// # Safety
/// Implementations may assume that the machine has the path's instructions, which callers check.
pub(crate) unsafe trait Kernels {
    /// Format of activations and packed weights.
    type Element: Element;
    /// What a thread must hold while it runs kernels.
    type Guard;

    /// Prepares the thread; `None` if the machine refuses.
    fn guard() -> Option<Self::Guard>;

    /// The product of 32 rows, whose stride is 32. Weights are packed for this or for a tall product
    /// ([`Element::largest_sum`](super::memory::Element::largest_sum)).
    ///
    /// # Safety
    /// The machine has the path's instructions, all operands are valid, and no other thread uses C.
    unsafe fn product(guard: &Self::Guard, operands: &Operands<Self::Element>) {
        // SAFETY: the caller's promise.
        unsafe { Self::tall_product(guard, operands, BLOCK, false) }
    }

    /// The product of `rows` rows. If there are more than 16, 32 are readable. With `narrow` only
    /// the first 16 columns are needed. A row's result does not depend on the number of rows.
    ///
    /// # Safety
    /// As [`Kernels::product`].
    unsafe fn tall_product(
        guard: &Self::Guard,
        operands: &Operands<Self::Element>,
        rows: usize,
        narrow: bool,
    );

    /// Runs a step without weights for one board: [`Elementwise::run`].
    ///
    /// # Safety
    /// As there, and the machine has the path's instructions.
    unsafe fn elementwise(
        step: &Elementwise,
        inputs: [*const Self::Element; 2],
        out: *mut Self::Element,
    );

    /// Runs the core of attention for one board: [`Attend::run`].
    ///
    /// # Safety
    /// As there, and the machine has the path's instructions.
    unsafe fn attend(
        guard: &Self::Guard,
        step: &Attend,
        inputs: [*const Self::Element; 3],
        board: *const Self::Element,
        out: *mut Self::Element,
    );

    /// Writes the input planes of a board: [`PlaneWriter::run`].
    ///
    /// # Safety
    /// As there, and the machine has the path's instructions.
    unsafe fn planes(step: &PlaneWriter, planes: &LeelaPlanes, out: *mut Self::Element);

    /// Stores `rows` rows of sums as activations: scale (of quantised formats), bias, residual,
    /// activation, copies.
    ///
    /// # Safety
    /// As [`Kernels::product`], and no other thread uses the target rows.
    unsafe fn finish(c: *const f32, rows: usize, to: &Destination<Self::Element>);

    /// Computes the channels of a job of the input layer for one board: for each of 64 squares the
    /// bias plus a row of the table for each neighbour.
    ///
    /// # Safety
    /// As [`Kernels::finish`]; all `states` are states of the table's encoding.
    unsafe fn input(
        job: &Job,
        relu: bool,
        states: &[u8; 64],
        out: *mut Self::Element,
        store: &Store,
    );

    /// Runs an input layer and the dense layer behind it for one board: [`BoardTable::run`].
    ///
    /// # Safety
    /// As there, and the machine has the path's instructions.
    unsafe fn board_table(
        step: &BoardTable,
        states: &[u8; 64],
        recent: &mut RecentBoards,
        out: *mut Self::Element,
    );

    /// Sum of products of `blocks` blocks of 32 elements, `stride` elements apart, with consecutive
    /// weights.
    ///
    /// # Safety
    /// As [`Kernels::product`].
    unsafe fn dot(
        a: *const Self::Element,
        stride: usize,
        blocks: usize,
        weights: *const f32,
    ) -> f32;
}

/// The methods of [`Kernels`] whose source is the same for all paths, compiled for the instructions
/// of one: `$features`, vectors `$vector`, of which `$parts` are a row, and the input kernel `$input`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! compiled_for {
    ($features:literal, $element:ty, $vector:ty, $parts:literal, $input:path) => {
        unsafe fn elementwise(
            step: &Elementwise,
            inputs: [*const $element; 2],
            out: *mut $element,
        ) {
            #[target_feature(enable = $features)]
            unsafe fn run(step: &Elementwise, inputs: [*const $element; 2], out: *mut $element) {
                // SAFETY: the caller's promise.
                unsafe { step.run::<$element, Wide<$vector, $parts>>(inputs, out) }
            }
            // SAFETY: the caller's promise.
            unsafe { run(step, inputs, out) }
        }

        unsafe fn planes(step: &PlaneWriter, planes: &LeelaPlanes, out: *mut $element) {
            #[target_feature(enable = $features)]
            unsafe fn run(step: &PlaneWriter, planes: &LeelaPlanes, out: *mut $element) {
                // SAFETY: the caller's promise.
                unsafe { step.run::<$element, Wide<$vector, $parts>>(planes, out) }
            }
            // SAFETY: the caller's promise.
            unsafe { run(step, planes, out) }
        }

        unsafe fn board_table(
            step: &BoardTable,
            states: &[u8; 64],
            recent: &mut RecentBoards,
            out: *mut $element,
        ) {
            #[target_feature(enable = $features)]
            unsafe fn run(
                step: &BoardTable,
                states: &[u8; 64],
                recent: &mut RecentBoards,
                out: *mut $element,
            ) {
                // SAFETY: the caller's promise.
                unsafe { step.run::<$element, Wide<$vector, $parts>>(states, recent, out) }
            }
            // SAFETY: the caller's promise.
            unsafe { run(step, states, recent, out) }
        }

        unsafe fn finish(c: *const f32, rows: usize, to: &Destination<$element>) {
            #[target_feature(enable = $features)]
            unsafe fn run(c: *const f32, rows: usize, to: &Destination<$element>) {
                // SAFETY: the caller's promise.
                unsafe { to.finish::<Wide<$vector, $parts>>(c, rows) }
            }
            // SAFETY: the caller's promise.
            unsafe { run(c, rows, to) }
        }

        unsafe fn input(
            job: &Job,
            relu: bool,
            states: &[u8; 64],
            out: *mut $element,
            store: &Store,
        ) {
            #[target_feature(enable = $features)]
            unsafe fn run(
                job: &Job,
                relu: bool,
                states: &[u8; 64],
                out: *mut $element,
                store: &Store,
            ) {
                // SAFETY: the caller's promise.
                unsafe { $input(job, relu, states, out, store) }
            }
            // SAFETY: the caller's promise.
            unsafe { run(job, relu, states, out, store) }
        }

        unsafe fn dot(
            a: *const $element,
            stride: usize,
            blocks: usize,
            weights: *const f32,
        ) -> f32 {
            #[target_feature(enable = $features)]
            unsafe fn run(
                a: *const $element,
                stride: usize,
                blocks: usize,
                weights: *const f32,
            ) -> f32 {
                // SAFETY: the caller's promise.
                unsafe { vectors::dot::<$vector, $element, $parts>(a, stride, blocks, weights) }
            }
            // SAFETY: the caller's promise.
            unsafe { run(a, stride, blocks, weights) }
        }
    };
}

/// [`Kernels::attend`] in vectors, compiled for the instructions of a path.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! attention_in_vectors {
    ($features:literal, $element:ty, $vector:ty, $parts:literal) => {
        unsafe fn attend(
            _: &Self::Guard,
            step: &Attend,
            inputs: [*const $element; 3],
            board: *const $element,
            out: *mut $element,
        ) {
            #[target_feature(enable = $features)]
            unsafe fn run(
                step: &Attend,
                inputs: [*const $element; 3],
                board: *const $element,
                out: *mut $element,
            ) {
                // SAFETY: the caller's promise; all these paths have fused multiply-adds.
                unsafe {
                    step.run::<$element, Wide<$vector, $parts>, true, { 64 / $parts }>(
                        inputs, board, out,
                    )
                }
            }
            // SAFETY: the caller's promise.
            unsafe { run(step, inputs, board, out) }
        }
    };
}

/// The kernels in `f32` of a path whose vectors have eight lanes and which has enough registers for
/// six rows of two vectors.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! eight_lanes_in_f32 {
    ($kernels:ident, $features:literal, $vector:ty) => {
        /// `ROWS` rows of A times 16 columns of a panel.
        ///
        /// # Safety
        /// As [`Kernels::tall_product`] for these rows and columns.
        #[target_feature(enable = $features)]
        unsafe fn rows<const ROWS: usize>(operands: &Operands<f32>) {
            // SAFETY: the caller's promise.
            unsafe { vectors::product::<$vector, ROWS>(operands) }
        }

        // SAFETY: `choose` lets only processors with these features get here.
        unsafe impl Kernels for $kernels {
            type Element = f32;
            type Guard = ();

            fn guard() -> Option<()> {
                Some(())
            }

            unsafe fn tall_product(_: &(), operands: &Operands<f32>, rows: usize, narrow: bool) {
                // SAFETY: the caller's promise, for the rows and columns of each call.
                unsafe {
                    for columns in operands.sixteens(rows, narrow) {
                        by_rows!([6, 2, 1], columns, rows, |part, COUNT| {
                            self::rows::<COUNT>(part);
                        });
                    }
                }
            }

            compiled_for!($features, f32, $vector, 4, input::<$vector, f32>);
            attention_in_vectors!($features, f32, $vector, 4);
        }
    };
}

/// Runs `$call` on the operands of all rows, with as many rows at a time as the list allows: a list
/// from 11 on splits 32 rows into 11, 11 and 10. The arithmetic of a row is the same for each
/// `$count`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! by_rows {
    ([$($n:literal),+], $operands:expr, $rows:expr, |$part:ident, $count:ident| $call:expr) => {
        let mut first = 0;
        while first < $rows {
            let left = $rows - first;
            $(if left >= $n {
                const $count: usize = $n;
                let $part = &$operands.at_row(first);
                $call;
                first += $n;
                continue;
            })+
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use {attention_in_vectors, by_rows, compiled_for, eight_lanes_in_f32};
