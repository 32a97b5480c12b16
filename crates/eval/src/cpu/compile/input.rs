//! Compiles what a network begins with: a table of the states of squares, or input planes.

use nets::{Activation, Layer};

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
