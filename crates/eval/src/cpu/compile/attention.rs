//! Compiles attention: projections to products, and the scores that a board generates to a product
//! over the heads, whose matrix is packed once for all layers.

use std::sync::Arc;

use nets::{Activation, Attention, BoardScores, Layer, SHARED_SCORES};

use super::{
    Activations, Compiler,
    product::{Convolution, ResidualUse},
};
use crate::{
    EvalError,
    cpu::{
        attention::Attend,
        layout::{BLOCK, CHUNK, Layout, Store},
        memory::{CacheLines, Element},
        plan::{OutputReader, Pairs, Product, RowKind, Step},
    },
    folded::tensor,
};

/// Scores of a head: each square with each.
const SCORES: usize = 64 * 64;

impl Compiler<'_> {
    /// Compiles a layer of attention.
    pub(super) fn attention<E: Element>(
        &mut self,
        name: &str,
        attention: &Attention,
        input: &Activations,
        reach: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        self.in_f32::<E>(name)?;
        let pinned = self.pinned.len();
        self.pinned.push(input.buffer);
        let board = match &attention.board {
            None => None,
            Some(board) => Some(self.board_scores(name, attention, board, input, steps)?),
        };
        self.pinned.extend(board);
        let mut projected = |part: &str| {
            let place =
                self.projection(&format!("{name}.{part}"), attention.width, input, steps)?;
            self.pinned.push(place.buffer);
            Ok::<_, EvalError>(place)
        };
        let [query, key, value] = [projected("query")?, projected("key")?, projected("value")?];
        let layout = Layout::new(8, attention.width, reach);
        let output = self.buffer(&layout, None);
        self.pinned.truncate(pinned);
        self.compiled += 1;
        steps.push(Step::Attend(Attend {
            inputs: [query.buffer, key.buffer, value.buffer],
            board,
            output,
            from: query.layout.clone(),
            heads: attention.heads,
            depth: attention.width / attention.heads,
            store: layout.store(),
        }));
        Ok(Activations { buffer: output, layout, moments: None, ..query })
    }

    fn projection<E: Element>(
        &mut self,
        name: &str,
        width: usize,
        input: &Activations,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        let layer = Layer::each_cell(width, Activation::Identity);
        let convolution = Convolution::of(&layer, &input.layout)
            .ok_or_else(|| self.unsupported(format!("layer {name} is not a projection")))?;
        let (step, place) = self.product(name, &convolution, input, ResidualUse::Nothing, 0)?;
        steps.push(step);
        Ok(place)
    }

    /// Compiles the scores that a board generates; returns the index of their buffer.
    fn board_scores<E: Element>(
        &mut self,
        name: &str,
        attention: &Attention,
        board: &BoardScores,
        input: &Activations,
        steps: &mut Vec<Step<E>>,
    ) -> Result<usize, EvalError> {
        let heads = attention.heads;
        let layers = attention.board_layers();
        let [first @ .., (generate, dense), (norm, Layer::LayerNorm { millionths })] =
            layers.as_slice()
        else {
            return Err(self.unsupported(format!("layer {name} generates no scores")));
        };
        let mut place = input.clone();
        for (part, layer) in first {
            place = self.layer(&format!("{name}.{part}"), layer, Some(place), 0, steps)?;
        }
        // The outputs for a head begin with a block of their own: they are a row of the product.
        let size = board.generated.next_multiple_of(BLOCK);
        let generated = 0..board.generated;
        let positions: Vec<usize> =
            (0..heads).flat_map(|head| generated.clone().map(move |at| head * size + at)).collect();
        let convolution = Convolution::of(dense, &place.layout)
            .ok_or_else(|| self.unsupported(format!("layer {name} generates no scores")))?;
        let at = ResidualUse::At(&positions);
        let (step, place) =
            self.product(&format!("{name}.{generate}"), &convolution, &place, at, 0)?;
        steps.push(step);
        let layout = Layout::new(1, heads * size, 0);
        let name = format!("{name}.{norm}");
        let place = self.layer_norm(&name, *millionths, place, layout, steps)?;
        let layout = Layout::new(1, heads * SCORES, 0);
        let output = self.buffer(&layout, Some(place.buffer));
        let zeros = || CacheLines::<f32>::zeroed(SCORES);
        self.compiled += 1;
        steps.push(Step::Product(Product {
            input: place.buffer,
            output,
            rows: RowKind::Parts(heads, size),
            offsets: (0..size / BLOCK)
                .map(|block| (block * BLOCK * size_of::<E>()) as u32)
                .collect(),
            weights: self.packed_scores(board.generated)?,
            scale: zeros(),
            bias: zeros(),
            activation: Activation::Identity,
            residual: None,
            panels: SCORES / BLOCK,
            narrow: false,
            store: Store {
                copies: 1,
                block_stride: BLOCK,
                targets: (0..CHUNK).map(|row| (row * SCORES) as u32).collect(),
            },
        }));
        Ok(output)
    }

    /// The shared matrix, in panels of 32 scores.
    fn packed_scores<E: Element>(
        &mut self,
        generated: usize,
    ) -> Result<Arc<CacheLines<E>>, EvalError> {
        let known = self.shared_scores.clone().map(Arc::downcast);
        if let Some(Ok(known)) = known {
            return Ok(known);
        }
        let matrix = tensor(self.network, SHARED_SCORES)?;
        let panel = generated.next_multiple_of(BLOCK) * BLOCK;
        let mut packed = CacheLines::<E>::zeroed(SCORES / BLOCK * panel);
        for (score, row) in matrix.chunks_exact(generated).enumerate() {
            for (k, &weight) in row.iter().enumerate() {
                packed.as_mut_slice()[score / BLOCK * panel + E::panel_index(k, score % BLOCK)] =
                    E::from_f32(weight);
            }
        }
        let packed = Arc::new(packed);
        self.shared_scores = Some(packed.clone());
        Ok(packed)
    }

    /// Compiles a policy of attention, of which only the requested logits are computed.
    pub(super) fn move_attention<E: Element>(
        &mut self,
        name: &str,
        width: usize,
        input: &Activations,
        steps: &mut Vec<Step<E>>,
    ) -> Result<OutputReader, EvalError> {
        self.in_f32::<E>(name)?;
        let pinned = self.pinned.len();
        self.pinned.push(input.buffer);
        let query = self.projection(&format!("{name}.query"), width, input, steps)?;
        self.pinned.push(query.buffer);
        let key = self.projection(&format!("{name}.key"), width, input, steps)?;
        self.pinned.truncate(pinned);
        let rows = tensor(self.network, &format!("{name}.promotion.weight"))?;
        let promotions = [0, 1, 2].map(|piece| {
            let mut row = CacheLines::<f32>::zeroed(query.layout.blocks * BLOCK);
            for (at, number) in row.as_mut_slice()[..width].iter_mut().enumerate() {
                *number = rows[piece * width + at] + rows[3 * width + at];
            }
            row
        });
        Ok(OutputReader::Pairs(Pairs {
            query: query.buffer,
            key: key.buffer,
            layout: query.layout,
            scale: 1.0 / (width as f32).sqrt(),
            promotions,
        }))
    }
}
