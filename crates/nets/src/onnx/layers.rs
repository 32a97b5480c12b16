//! Layers as operations. Batch norms are folded into the weights before them.

use super::graph::{Graph, Layout, Setting, Value};
use crate::{
    Activation, Branch, LEAKY_SLOPE, Layer, NORM_EPSILON, Network, Padding, Pooling, SELU, Shape,
    kernel_start,
};

/// Writes the layers of a network into a graph.
pub(super) struct GraphWriter<'a> {
    pub network: &'a Network,
    pub graph: Graph,
}

impl GraphWriter<'_> {
    /// A tensor of the network.
    pub fn tensor(&self, name: &str) -> Result<&[f32], String> {
        let tensor = self.network.tensor(name).ok_or_else(|| format!("it has no {name}"))?;
        Ok(&tensor.data)
    }

    pub fn layers(&mut self, name: &str, layers: &[Layer], input: Value) -> Result<Value, String> {
        let mut value = input;
        for (index, layer) in layers.iter().enumerate() {
            value = self.layer(&format!("{name}.{index}"), layer, value)?;
        }
        Ok(value)
    }

    pub fn layer(&mut self, name: &str, layer: &Layer, input: Value) -> Result<Value, String> {
        let shape = layer.output_shape(input.shape)?;
        match layer {
            Layer::Branches { branches, norm, activation } => {
                let value = self.branches(name, branches, *norm, &input, shape)?;
                Ok(self.activate(value, *activation))
            }
            // A kernel as large as the board has the weights of a dense layer, in the same order.
            &Layer::Dense { norm, activation, .. }
            | &Layer::Conv { padding: Padding::Valid, norm, activation, .. } => {
                let value = self.dense(name, norm, &input, shape)?;
                Ok(self.activate(value, activation))
            }
            &Layer::Conv { kernel: 1, norm, activation, .. } if input.layout != Layout::Planes => {
                let value = self.each_cell(name, norm, 1.0, &input, shape)?;
                Ok(self.activate(value, activation))
            }
            &Layer::Conv { kernel, norm, activation, .. } => {
                let value = self.convolution(name, kernel, norm, &input, shape)?;
                Ok(self.activate(value, activation))
            }
            Layer::Residual { layers, activation } => {
                let inner = self.layers(&format!("{name}.layers"), layers, input.clone())?;
                let inner = self.graph.in_layout(&inner, input.layout);
                let name = format!("{name}.sum");
                let name = self.graph.add(&name, "Add", &[&inner.name, &input.name], &[]);
                Ok(self.activate(Value { name, ..input }, *activation))
            }
            &Layer::Pool { pooling, size } => Ok(self.pool(name, pooling, size, &input, shape)),
            Layer::AppendMean => Ok(self.append_mean(name, &input, shape)),
            &Layer::SqueezeExcite { channels, activation } => {
                self.squeeze_excite(name, channels, activation, &input)
            }
            &Layer::Gate { activation } => {
                let value = self.gate(name, &input)?;
                Ok(self.activate(value, activation))
            }
            &Layer::LayerNorm { millionths } => self.layer_norm(name, millionths, &input),
            Layer::Attention(attention) => self.attention(name, attention, &input),
            &Layer::BoardEmbedding { planes, channels } => {
                self.board_embedding(name, planes, channels, &input)
            }
            &Layer::MoveAttention { width } => self.move_attention(name, width, &input),
        }
    }

    /// The factor of the weights of each channel, and the summand behind them.
    fn folded(&self, name: &str, has_norm: bool) -> Result<Vec<(f64, f64)>, String> {
        if !has_norm {
            let bias = self.tensor(&format!("{name}.bias"))?;
            return Ok(bias.iter().map(|&bias| (1.0, f64::from(bias))).collect());
        }
        let part = |part: &str| self.tensor(&format!("{name}.norm.{part}"));
        let (scale, shift) = (part("scale")?, part("shift")?);
        let (mean, variance) = (part("mean")?, part("variance")?);
        let channel = |at: usize| {
            let [scale, shift, mean, variance] =
                [scale, shift, mean, variance].map(|numbers| f64::from(numbers[at]));
            let factor = scale / (variance + f64::from(NORM_EPSILON)).sqrt();
            (factor, shift - factor * mean)
        };
        Ok((0..scale.len()).map(channel).collect())
    }

    /// A weight of so many numbers a channel, and a bias, with a batch norm folded into both and
    /// both times `factor`.
    fn weight_and_bias(
        &self,
        name: &str,
        has_norm: bool,
        factor: f64,
    ) -> Result<(Vec<f32>, Vec<f32>), String> {
        let folded = self.folded(name, has_norm)?;
        let weight = scaled(self.tensor(&format!("{name}.weight"))?, &folded, factor);
        Ok((weight, folded.iter().map(|&(_, bias)| (factor * bias) as f32).collect()))
    }

    fn branches(
        &mut self,
        name: &str,
        branches: &[Branch],
        has_norm: bool,
        input: &Value,
        shape: Shape,
    ) -> Result<Value, String> {
        let folded = self.folded(name, has_norm)?;
        let (mut parts, mut first) = (Vec::new(), 0);
        for (index, branch) in branches.iter().enumerate() {
            let own = &folded[first..first + branch.channels];
            first += branch.channels;
            let name = format!("{name}.branches.{index}");
            let weight = scaled(self.tensor(&format!("{name}.weight"))?, own, 1.0);
            let bias: Vec<f32> = own.iter().map(|&(_, bias)| bias as f32).collect();
            parts.push(self.conv(&name, (&weight, &bias), branch, input));
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let name = match parts.as_slice() {
            [one] => (*one).to_owned(),
            _ => self.graph.add(name, "Concat", &parts, &[Setting::Int("axis", 1)]),
        };
        Ok(Value { name, shape, layout: Layout::Planes })
    }

    fn convolution(
        &mut self,
        name: &str,
        kernel: usize,
        has_norm: bool,
        input: &Value,
        shape: Shape,
    ) -> Result<Value, String> {
        let input = self.graph.in_layout(input, Layout::Planes);
        let (weight, bias) = self.weight_and_bias(name, has_norm, 1.0)?;
        let branch = Branch { kernel: [kernel; 2], dilation: [1; 2], channels: shape.channels };
        let name = self.conv(name, (&weight, &bias), &branch, &input);
        Ok(Value { name, shape, layout: Layout::Planes })
    }

    /// A convolution that keeps the board's size.
    fn conv(
        &mut self,
        name: &str,
        (weight, bias): (&[f32], &[f32]),
        branch: &Branch,
        input: &Value,
    ) -> String {
        let &Branch { kernel, dilation, channels } = branch;
        let before = [0, 1].map(|axis| -kernel_start(kernel[axis], dilation[axis]) as i64);
        let after = [0, 1].map(|axis| (dilation[axis] * (kernel[axis] - 1)) as i64 - before[axis]);
        let dims = [channels, input.shape.channels, kernel[0], kernel[1]];
        let weight = self.graph.constant(&format!("{name}.weight"), &dims, weight);
        let bias = self.graph.constant(&format!("{name}.bias"), &[channels], bias);
        let ints = |numbers: [usize; 2]| numbers.map(|number| number as i64).to_vec();
        let settings = [
            Setting::Ints("kernel_shape", ints(kernel)),
            Setting::Ints("dilations", ints(dilation)),
            Setting::Ints("pads", [before, after].concat()),
        ];
        self.graph.add(name, "Conv", &[&input.name, &weight, &bias], &settings)
    }

    fn dense(
        &mut self,
        name: &str,
        has_norm: bool,
        input: &Value,
        shape: Shape,
    ) -> Result<Value, String> {
        let (mut weight, bias) = self.weight_and_bias(name, has_norm, 1.0)?;
        let Shape { cells, channels } = input.shape;
        if input.layout == Layout::Cells {
            // From the cells of a channel in sequence to the channels of a cell.
            weight = weight
                .chunks(cells * channels)
                .flat_map(|row| {
                    (0..cells * channels).map(|at| row[at % channels * cells + at / channels])
                })
                .collect();
        }
        let flat = match input.layout {
            Layout::Flat => input.name.clone(),
            _ => self.graph.flatten(&input.name),
        };
        let name = self.gemm(name, (&weight, &bias), cells * channels, &flat);
        Ok(Value { name, shape, layout: Layout::Flat })
    }

    /// Products of `[batch, inputs]` with `[outputs, inputs]`, and a bias.
    pub fn gemm(
        &mut self,
        name: &str,
        (weight, bias): (&[f32], &[f32]),
        inputs: usize,
        input: &str,
    ) -> String {
        let weight = self.graph.constant(&format!("{name}.weight"), &[bias.len(), inputs], weight);
        let bias = self.graph.constant(&format!("{name}.bias"), &[bias.len()], bias);
        self.graph.add(name, "Gemm", &[input, &weight, &bias], &[Setting::Int("transB", 1)])
    }

    /// A dense layer of each cell by itself, times `factor`.
    pub fn each_cell(
        &mut self,
        name: &str,
        has_norm: bool,
        factor: f64,
        input: &Value,
        shape: Shape,
    ) -> Result<Value, String> {
        let (weight, bias) = self.weight_and_bias(name, has_norm, factor)?;
        if input.layout == Layout::Flat {
            let name = self.gemm(name, (&weight, &bias), input.shape.channels, &input.name);
            return Ok(Value { name, shape, layout: Layout::Flat });
        }
        let input = self.graph.in_layout(input, Layout::Cells);
        let product = self.mat_mul(&format!("{name}.product"), &weight, bias.len(), &input.name);
        let bias = self.graph.constant(&format!("{name}.bias"), &[bias.len()], &bias);
        let name = self.graph.add(name, "Add", &[&product, &bias], &[]);
        Ok(Value { name, shape, layout: Layout::Cells })
    }

    /// Products of the last axis with a weight `[outputs, inputs]`.
    pub fn mat_mul(&mut self, name: &str, weight: &[f32], outputs: usize, input: &str) -> String {
        let inputs = weight.len() / outputs;
        let turned: Vec<f32> =
            (0..weight.len()).map(|at| weight[at % outputs * inputs + at / outputs]).collect();
        let weight = self.graph.constant(&format!("{name}.weight"), &[inputs, outputs], &turned);
        self.graph.add(name, "MatMul", &[input, &weight], &[])
    }

    fn pool(
        &mut self,
        name: &str,
        pooling: Pooling,
        size: usize,
        input: &Value,
        shape: Shape,
    ) -> Value {
        let input = self.graph.in_layout(input, Layout::Planes);
        let operator = match pooling {
            Pooling::Max => "MaxPool",
            Pooling::Average => "AveragePool",
        };
        let window = vec![size as i64; 2];
        let settings =
            [Setting::Ints("kernel_shape", window.clone()), Setting::Ints("strides", window)];
        let name = self.graph.add(name, operator, &[&input.name], &settings);
        Value { name, shape, layout: Layout::Planes }
    }

    fn append_mean(&mut self, name: &str, input: &Value, shape: Shape) -> Value {
        let input = self.graph.in_layout(input, Layout::Planes);
        let side = input.shape.side() as i64;
        let mean = format!("{name}.mean");
        let mean = self.graph.add(&mean, "GlobalAveragePool", &[&input.name], &[]);
        let board = self.graph.integers(&[1, 1, side, side]);
        let board = self.graph.add(&format!("{name}.board"), "Expand", &[&mean, &board], &[]);
        let parts = [input.name.as_str(), board.as_str()];
        let name = self.graph.add(name, "Concat", &parts, &[Setting::Int("axis", 1)]);
        Value { name, shape, layout: Layout::Planes }
    }

    fn squeeze_excite(
        &mut self,
        name: &str,
        hidden: usize,
        activation: Activation,
        input: &Value,
    ) -> Result<Value, String> {
        let input = self.graph.in_layout(input, Layout::Planes);
        let channels = input.shape.channels;
        let own = |part: &str| Ok::<_, String>(self.tensor(&format!("{name}.{part}"))?.to_vec());
        let squeeze = (own("squeeze.weight")?, own("squeeze.bias")?);
        let excite = (own("excite.weight")?, own("excite.bias")?);
        let mean = format!("{name}.mean");
        let mean = self.graph.add(&mean, "GlobalAveragePool", &[&input.name], &[]);
        let mean = self.graph.flatten(&mean);
        let both = (&squeeze.0[..], &squeeze.1[..]);
        let squeezed = Value {
            name: self.gemm(&format!("{name}.squeeze"), both, channels, &mean),
            shape: Shape { cells: 1, channels: hidden },
            layout: Layout::Flat,
        };
        let squeezed = self.activate(squeezed, activation).name;
        let (factors, summands) = excite.0.split_at(channels * hidden);
        let (factor_bias, summand_bias) = excite.1.split_at(channels);
        let shape = [0, channels as i64, 1, 1];
        let both = (factors, factor_bias);
        let factors = self.gemm(&format!("{name}.factors"), both, hidden, &squeezed);
        let factors = self.graph.add(&format!("{name}.sigmoid"), "Sigmoid", &[&factors], &[]);
        let factors = self.graph.reshape(&factors, &shape);
        let both = (summands, summand_bias);
        let summands = self.gemm(&format!("{name}.summands"), both, hidden, &squeezed);
        let summands = self.graph.reshape(&summands, &shape);
        let product = format!("{name}.product");
        let product = self.graph.add(&product, "Mul", &[&input.name, &factors], &[]);
        let name = self.graph.add(name, "Add", &[&product, &summands], &[]);
        Ok(Value { name, ..input })
    }

    /// An activation behind a value. GELU and SiLU are in their definitions, since older runtimes
    /// have no operators for them.
    fn activate(&mut self, value: Value, activation: Activation) -> Value {
        let (name, x) = (format!("{}.activation", value.name), value.name.as_str());
        let graph = &mut self.graph;
        let name = match activation {
            Activation::Identity => return value,
            Activation::Relu => graph.add(&name, "Relu", &[x], &[]),
            Activation::LeakyRelu => {
                graph.add(&name, "LeakyRelu", &[x], &[Setting::Float("alpha", LEAKY_SLOPE)])
            }
            Activation::Gelu => {
                let root = graph.constant("root-of-half", &[], &[std::f32::consts::FRAC_1_SQRT_2]);
                let scaled = graph.add(&format!("{name}.scaled"), "Mul", &[x, &root], &[]);
                let erf = graph.add(&format!("{name}.erf"), "Erf", &[&scaled], &[]);
                let one = graph.constant("one", &[], &[1.0]);
                let sum = graph.add(&format!("{name}.sum"), "Add", &[&erf, &one], &[]);
                let product = graph.add(&format!("{name}.product"), "Mul", &[x, &sum], &[]);
                let half = graph.constant("half", &[], &[0.5]);
                graph.add(&name, "Mul", &[&product, &half], &[])
            }
            Activation::Silu => {
                let logistic = graph.add(&format!("{name}.sigmoid"), "Sigmoid", &[x], &[]);
                graph.add(&name, "Mul", &[x, &logistic], &[])
            }
            Activation::Tanh => graph.add(&name, "Tanh", &[x], &[]),
            Activation::Mish => graph.add(&name, "Mish", &[x], &[]),
            Activation::SquaredRelu => {
                let relu = graph.add(&format!("{name}.relu"), "Relu", &[x], &[]);
                graph.add(&name, "Mul", &[&relu, &relu], &[])
            }
            Activation::Selu => {
                let [alpha, gamma] = SELU;
                let settings = [Setting::Float("alpha", alpha), Setting::Float("gamma", gamma)];
                graph.add(&name, "Selu", &[x], &settings)
            }
        };
        Value { name, ..value }
    }
}

/// The weights of each channel times its factor and `factor`.
fn scaled(weight: &[f32], folded: &[(f64, f64)], factor: f64) -> Vec<f32> {
    let row = weight.len() / folded.len().max(1);
    let rows = weight.chunks(row.max(1)).zip(folded);
    rows.flat_map(|(row, &(own, _))| {
        row.iter().map(move |&weight| (f64::from(weight) * own * factor) as f32)
    })
    .collect()
}
