//! Attention and the layers that come with it as operations.

use super::{
    graph::{Layout, Setting, Value},
    layers::GraphWriter,
};
use crate::{Attention, LEELA_MOVE_PAIRS, SHARED_SCORES, Shape};

impl GraphWriter<'_> {
    pub fn gate(&mut self, name: &str, input: &Value) -> Result<Value, String> {
        let input = self.graph.in_layout(input, Layout::Cells);
        let dims = [input.shape.cells, input.shape.channels];
        let [scale, shift] = self.scale_and_shift(name, &dims)?;
        let product =
            self.graph.add(&format!("{name}.product"), "Mul", &[&input.name, &scale], &[]);
        let name = self.graph.add(name, "Add", &[&product, &shift], &[]);
        Ok(Value { name, ..input })
    }

    pub fn layer_norm(
        &mut self,
        name: &str,
        millionths: u32,
        input: &Value,
    ) -> Result<Value, String> {
        let input = match input.layout {
            Layout::Flat => input.clone(),
            _ => self.graph.in_layout(input, Layout::Cells),
        };
        let [scale, shift] = self.scale_and_shift(name, &[input.shape.channels])?;
        let epsilon = (f64::from(millionths) * 1e-6) as f32;
        let settings = [Setting::Int("axis", -1), Setting::Float("epsilon", epsilon)];
        let inputs = [input.name.as_str(), &scale, &shift];
        let name = self.graph.add(name, "LayerNormalization", &inputs, &settings);
        Ok(Value { name, ..input })
    }

    fn scale_and_shift(&mut self, name: &str, dims: &[usize]) -> Result<[String; 2], String> {
        let [scale, shift] = ["scale", "shift"].map(|part| format!("{name}.{part}"));
        for name in [&scale, &shift] {
            let data = self.tensor(name)?.to_vec();
            self.graph.constant(name, dims, &data);
        }
        Ok([scale, shift])
    }

    pub fn attention(
        &mut self,
        name: &str,
        attention: &Attention,
        input: &Value,
    ) -> Result<Value, String> {
        let &Attention { heads, width, .. } = attention;
        let depth = width / heads;
        let shape = Shape { cells: input.shape.cells, channels: width };
        let cells = shape.cells as i64;
        let input = self.graph.in_layout(input, Layout::Cells);
        let mut projected = Vec::new();
        // Keys are turned: queries times keys are the scores.
        for (part, factor, order) in [
            ("query", 1.0 / (depth as f64).sqrt(), [0, 2, 1, 3]),
            ("key", 1.0, [0, 2, 3, 1]),
            ("value", 1.0, [0, 2, 1, 3]),
        ] {
            let value = self.each_cell(&format!("{name}.{part}"), false, factor, &input, shape)?;
            let dims = [0, cells, heads as i64, depth as i64];
            let split = self.graph.reshape(&value.name, &dims);
            projected.push(self.graph.transpose(&split, &order));
        }
        let scores = format!("{name}.scores");
        let mut scores = self.graph.add(&scores, "MatMul", &[&projected[0], &projected[1]], &[]);
        if let Some(board) = self.board_scores(name, attention, &input)? {
            scores = self.graph.add(&format!("{name}.all-scores"), "Add", &[&scores, &board], &[]);
        }
        let axis = [Setting::Int("axis", -1)];
        let chances = self.graph.add(&format!("{name}.chances"), "Softmax", &[&scores], &axis);
        let sums = format!("{name}.sums");
        let sums = self.graph.add(&sums, "MatMul", &[&chances, &projected[2]], &[]);
        let sums = self.graph.transpose(&sums, &[0, 2, 1, 3]);
        let name = self.graph.reshape(&sums, &[0, cells, width as i64]);
        Ok(Value { name, shape, layout: Layout::Cells })
    }

    /// `[batch, heads, cells, cells]`: the scores that the whole board generates.
    fn board_scores(
        &mut self,
        name: &str,
        attention: &Attention,
        input: &Value,
    ) -> Result<Option<String>, String> {
        let Some(board) = &attention.board else { return Ok(None) };
        let mut value = input.clone();
        for (part, layer) in attention.board_layers() {
            value = self.layer(&format!("{name}.{part}"), &layer, value)?;
        }
        let (heads, cells) = (attention.heads as i64, input.shape.cells as i64);
        let generated = self.graph.reshape(&value.name, &[0, heads, board.generated as i64]);
        // One constant for all layers: the name is the tensor's.
        let shared = self.tensor(SHARED_SCORES)?.to_vec();
        let pairs = input.shape.cells * input.shape.cells;
        let weight = turned(&shared, pairs);
        let weight = self.graph.constant(SHARED_SCORES, &[board.generated, pairs], &weight);
        let scores = format!("{name}.board");
        let scores = self.graph.add(&scores, "MatMul", &[&generated, &weight], &[]);
        Ok(Some(self.graph.reshape(&scores, &[0, heads, cells, cells])))
    }

    pub fn board_embedding(
        &mut self,
        name: &str,
        planes: usize,
        channels: usize,
        input: &Value,
    ) -> Result<Value, String> {
        let input = self.graph.in_layout(input, Layout::Cells);
        let cells = input.shape.cells;
        let board = self.graph.slice(&input.name, 2, [0, planes]);
        let board = self.graph.flatten(&board);
        let weight = self.tensor(&format!("{name}.weight"))?.to_vec();
        let bias = self.tensor(&format!("{name}.bias"))?.to_vec();
        let product = format!("{name}.board");
        let board = self.gemm(&product, (&weight, &bias), cells * planes, &board);
        let board = self.graph.reshape(&board, &[0, cells as i64, channels as i64]);
        let axis = [Setting::Int("axis", 2)];
        let name = self.graph.add(name, "Concat", &[&input.name, &board], &axis);
        let shape = Shape { cells, channels: input.shape.channels + channels };
        Ok(Value { name, shape, layout: Layout::Cells })
    }

    pub fn move_attention(
        &mut self,
        name: &str,
        width: usize,
        input: &Value,
    ) -> Result<Value, String> {
        let input = self.graph.in_layout(input, Layout::Cells);
        let shape = Shape { channels: width, ..input.shape };
        let factor = 1.0 / (width as f64).sqrt();
        let query = self.each_cell(&format!("{name}.query"), false, factor, &input, shape)?;
        let key = self.each_cell(&format!("{name}.key"), false, 1.0, &input, shape)?;
        let keys = self.graph.transpose(&key.name, &[0, 2, 1]);
        let pairs = format!("{name}.pairs");
        let pairs = self.graph.add(&pairs, "MatMul", &[&query.name, &keys], &[]);
        let promotions = self.promotions(name, width, &key.name, &pairs)?;
        let plain = self.graph.flatten(&pairs);
        let axis = [Setting::Int("axis", 1)];
        let name = self.graph.add(name, "Concat", &[&plain, &promotions], &axis);
        let shape = Shape { cells: 1, channels: LEELA_MOVE_PAIRS };
        Ok(Value { name, shape, layout: Layout::Flat })
    }

    /// From rank 7 to rank 8: the logit of the pair, and a number of the target for each piece.
    fn promotions(
        &mut self,
        name: &str,
        width: usize,
        key: &str,
        pairs: &str,
    ) -> Result<String, String> {
        let rows = self.tensor(&format!("{name}.promotion.weight"))?;
        let (pieces, all) = rows.split_at(3 * width);
        let weight: Vec<f32> =
            pieces.iter().enumerate().map(|(at, piece)| piece + all[at % width]).collect();
        let targets = self.graph.slice(key, 1, [56, 64]);
        let numbers = self.mat_mul(&format!("{name}.promotion"), &weight, 3, &targets);
        let numbers = self.graph.reshape(&numbers, &[0, 1, 8, 3]);
        let plain = self.graph.slice(pairs, 1, [48, 56]);
        let plain = self.graph.slice(&plain, 2, [56, 64]);
        let plain = self.graph.reshape(&plain, &[0, 8, 8, 1]);
        let sums = format!("{name}.promotions");
        let sums = self.graph.add(&sums, "Add", &[&plain, &numbers], &[]);
        Ok(self.graph.flatten(&sums))
    }
}

/// A matrix of so many rows with rows and columns exchanged.
fn turned(matrix: &[f32], rows: usize) -> Vec<f32> {
    let columns = matrix.len() / rows.max(1);
    (0..matrix.len()).map(|at| matrix[at % rows * columns + at / rows]).collect()
}
