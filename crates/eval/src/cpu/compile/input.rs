//! Compiles what a network begins with: a table of the states of squares, or input planes.

use nets::{Activation, Branch, Layer};

use super::{Activations, Compiler};
use crate::{
    EvalError,
    cpu::{
        elementwise::{Elementwise, Operation},
        input::InputTable,
        layout::Layout,
        memory::Element,
        moments,
        plan::Step,
        planes::{Embedding, PlaneWriter},
        whole_board::{self, BoardTable},
    },
    folded::{fold, tensor},
};

impl Compiler<'_> {
    /// Adds the step that writes the input planes, and the embedding that `trunk` begins with.
    pub(super) fn planes<E: Element>(
        &mut self,
        trunk: &[Layer],
        reach: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        self.compiled += 1;
        let mut width = self.network.description.encoding.planes();
        let mut positions: Vec<usize> = (0..width).collect();
        let mut embedding = None;
        if let Some(&Layer::BoardEmbedding { planes, channels }) = trunk.first() {
            self.in_f32::<E>("trunk.0")?;
            let [weight, bias] =
                ["weight", "bias"].map(|part| tensor(self.network, &format!("trunk.0.{part}")));
            let own = Embedding::new(weight?, bias?, planes);
            positions.extend(own.positions(channels));
            width = own.width();
            embedding = Some(own);
        }
        let layout = Layout::new(8, width, reach);
        let output = self.buffer(&layout, None);
        steps.push(Step::Planes(PlaneWriter::new(output, &layout, embedding)));
        Ok(Activations { buffer: output, layout, positions, unit: 1.0, zero: 0.0, moments: None })
    }

    /// Adds the step that computes the first two layers at once, where the first sees one square at
    /// a time and the second is dense.
    pub(super) fn whole_board<E: Element>(
        &mut self,
        prefix: &str,
        layers: &[Layer],
        steps: &mut Vec<Step<E>>,
    ) -> Result<Option<Activations>, EvalError> {
        let Some(
            [
                Layer::Branches { branches, norm, activation: first },
                &(Layer::Dense { channels, norm: dense_norm, activation }
                | Layer::Conv { channels, norm: dense_norm, activation, .. }),
            ],
        ) = Layer::whole_board(layers)
        else {
            return Ok(None);
        };
        let states = self.network.description.encoding.states();
        let inner = branches.iter().map(|branch| branch.channels).sum();
        let Some(index) = self.tables.spend(states, inner, channels) else { return Ok(None) };
        let (input_name, name) = (format!("{prefix}.0"), format!("{prefix}.1"));
        let embedding = self.embedding(&input_name, branches, *norm, *first)?;
        let (mut factors, mut bias) = fold(self.network, &name, dense_norm, channels)?;
        let squared = activation == Activation::SquaredRelu;
        let unit = self.unit::<E>(&name, if squared { Activation::Relu } else { activation })?;
        let unit_of_sums = if squared { unit.sqrt() } else { unit };
        factors.iter_mut().chain(&mut bias).for_each(|value| *value /= unit_of_sums);
        let layout = Layout::new(1, channels, 0);
        let output = self.buffer(&layout, None);
        let layers = whole_board::Layers {
            embedding: &embedding,
            weight: tensor(self.network, &format!("{name}.weight"))?,
            factors: &factors,
            bias: &bias,
            activation,
            states,
        };
        let small = size_of::<E>() < size_of::<f32>();
        let table = BoardTable::new(&layers, small, index, output, layout.block_stride());
        steps.push(Step::Board(table));
        let moments = self.moments_of_norm(&name, dense_norm, channels)?;
        let moments = match activation {
            Activation::Relu => moments.map(moments::after_relu),
            Activation::SquaredRelu => moments.map(moments::after_squared_relu),
            _ => moments,
        };
        let positions = (0..channels).collect();
        Ok(Some(Activations { buffer: output, layout, positions, unit, zero: 0.0, moments }))
    }

    /// What an input layer of 1x1 branches makes of each state of a square: `[states][channels]`.
    fn embedding(
        &self,
        name: &str,
        branches: &[Branch],
        norm: bool,
        activation: Activation,
    ) -> Result<Vec<f32>, EvalError> {
        let encoding = self.network.description.encoding;
        let channels = branches.iter().map(|branch| branch.channels).sum();
        let (factors, bias) = fold(self.network, name, norm, channels)?;
        let mut weights: Vec<f32> = Vec::new();
        for index in 0..branches.len() {
            weights.extend(tensor(self.network, &format!("{name}.branches.{index}.weight"))?);
        }
        let mut embedding = Vec::with_capacity(encoding.states() * channels);
        for state in 0..encoding.states() {
            let planes = encoding.planes_of(state);
            for channel in 0..channels {
                let own = &weights[channel * encoding.planes()..];
                let sum: f32 = planes.iter().map(|&(plane, value)| own[plane] * value).sum();
                embedding.push(activation.apply(sum * factors[channel] + bias[channel]));
            }
        }
        Ok(embedding)
    }

    pub(super) fn input<E: Element>(
        &mut self,
        name: &str,
        layer: &Layer,
        reach: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        let Layer::Branches { branches, norm, activation } = layer else {
            return Err(self.unsupported(format!("layer {name} is not an input layer")));
        };
        let channels = branches.iter().map(|branch| branch.channels).sum();
        let (factors, bias) = fold(self.network, name, *norm, channels)?;
        let weights: Vec<&[f32]> = (0..branches.len())
            .map(|index| tensor(self.network, &format!("{name}.branches.{index}.weight")))
            .collect::<Result<_, _>>()?;
        let unit = self.unit::<E>(name, *activation)?;
        let [factors, bias] = [factors, bias]
            .map(|list: Vec<f32>| list.iter().map(|value| value / unit).collect::<Vec<f32>>());
        let encoding = self.network.description.encoding;
        let relu = *activation == Activation::Relu;
        let (table, positions) =
            InputTable::new(encoding, branches, &weights, &factors, &bias, relu);
        let layout = Layout::new(8, table.width(), reach);
        let output = self.buffer(&layout, None);
        steps.push(Step::Input { table, output, store: layout.store() });
        let moments = self.moments_of_norm(name, *norm, channels)?.map(moments::after_relu);
        let place = Activations { buffer: output, layout, positions, unit, zero: 0.0, moments };
        if matches!(activation, Activation::Identity | Activation::Relu) {
            return Ok(place);
        }
        self.compiled += 1;
        steps.push(Step::Elementwise(Elementwise {
            operation: Operation::Activate(*activation),
            inputs: [output; 2],
            output,
            from: [place.layout.clone(), place.layout.clone()],
            store: place.layout.store(),
            to: place.layout.clone(),
        }));
        Ok(place)
    }
}
