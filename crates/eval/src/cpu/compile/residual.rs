//! Compiles residual layers: the sum is a part of the last product or of squeeze and excitation, or
//! a step of its own.

use nets::{Activation, Layer};

use super::{
    Activations, Compiler,
    product::{Convolution, ResidualUse},
    reach,
};
use crate::{
    EvalError,
    cpu::{
        elementwise::{Elementwise, Operation},
        layout::{BLOCK, Layout},
        memory::Element,
        moments,
        plan::Step,
        squeeze::{Quantities, SqueezeExcite, Tensors},
    },
    folded::tensor,
};

impl Compiler<'_> {
    /// Compiles a residual layer. If the last inner layer is a convolution without activation, its
    /// product also computes the sum.
    pub(super) fn residual<E: Element>(
        &mut self,
        name: &str,
        layers: &[Layer],
        activation: Activation,
        input: &Activations,
        reach_after: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        let prefix = format!("{name}.layers");
        let Some((last, body)) = layers.split_last() else {
            return Err(self.unsupported(format!("layer {name} is empty")));
        };
        let last_reach = reach(std::slice::from_ref(last));
        let last_name = format!("{prefix}.{}", body.len());
        self.pinned.push(input.buffer);
        if let &Layer::SqueezeExcite { activation: own, .. } = last {
            let place = self.ordered(&prefix, body, input, steps)?;
            let sum = Some((input, activation));
            let place = self.squeeze_excite(&last_name, own, place, sum, reach_after, steps)?;
            self.pinned.pop();
            return Ok(place);
        }
        let (inner, place) = self.steps(&prefix, body, Some(input.clone()), last_reach)?;
        steps.extend(inner);
        let place = place.unwrap_or_else(|| input.clone());
        let convolution = Convolution::of(last, &place.layout);
        if let Some(last) = convolution.filter(|last| last.activation == Activation::Identity) {
            // The output may overwrite the input: each row of it is read before it is written.
            self.pinned.pop();
            let last = Convolution { activation, ..last };
            let (step, place) =
                self.product(&last_name, &last, &place, ResidualUse::Sum(input), reach_after)?;
            steps.push(step);
            return Ok(place);
        }
        let place = match convolution {
            Some(convolution) => {
                let (step, place) =
                    self.product(&last_name, &convolution, &place, ResidualUse::Order(input), 0)?;
                steps.push(step);
                place
            }
            None => self.layer(&last_name, last, Some(place), 0, steps)?,
        };
        self.pinned.pop();
        if input.positions != place.positions {
            return Err(self.unsupported(format!("layer {name} adds channels in different orders")));
        }
        let unit = self.unit::<E>(name, activation)?;
        let layout = Layout::new(place.layout.side, place.layout.blocks * BLOCK, reach_after);
        let output = self.buffer(&layout, None);
        let factors = [input.unit / unit, place.unit / unit];
        steps.push(Step::Elementwise(Elementwise {
            operation: Operation::Add { factors, activation },
            inputs: [input.buffer, place.buffer],
            output,
            from: [input.layout.clone(), place.layout],
            store: layout.store(),
            to: layout.clone(),
        }));
        let moments =
            moments::sum(place.moments, input.moments.as_deref()).map(moments::after_relu);
        Ok(Activations {
            buffer: output,
            layout,
            positions: place.positions,
            unit,
            zero: 0.0,
            moments,
        })
    }

    /// Compiles the layers of a residual layer before one without weights of its channels; the last
    /// convolution keeps the order of the channels of `input`.
    fn ordered<E: Element>(
        &mut self,
        prefix: &str,
        layers: &[Layer],
        input: &Activations,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        let Some((last, body)) = layers.split_last() else { return Ok(input.clone()) };
        let last_reach = reach(std::slice::from_ref(last));
        let (inner, place) = self.steps(prefix, body, Some(input.clone()), last_reach)?;
        steps.extend(inner);
        let place = place.unwrap_or_else(|| input.clone());
        let name = format!("{prefix}.{}", body.len());
        let Some(convolution) = Convolution::of(last, &place.layout) else {
            return self.layer(&name, last, Some(place), 0, steps);
        };
        let order = ResidualUse::Excited(input);
        let (step, place) = self.product(&name, &convolution, &place, order, 0)?;
        steps.push(step);
        Ok(place)
    }

    /// Compiles squeeze and excitation, and the sum of a residual layer that it ends, with the
    /// activation.
    pub(super) fn squeeze_excite<E: Element>(
        &mut self,
        name: &str,
        activation: Activation,
        place: Activations,
        sum: Option<(&Activations, Activation)>,
        reach: usize,
        steps: &mut Vec<Step<E>>,
    ) -> Result<Activations, EvalError> {
        let output_unit =
            self.unit::<E>(name, sum.map_or(Activation::Identity, |(_, activation)| activation))?;
        let part = |part: &str| tensor(self.network, &format!("{name}.{part}"));
        let tensors = Tensors {
            squeeze: [part("squeeze.weight")?, part("squeeze.bias")?],
            excite: [part("excite.weight")?, part("excite.bias")?],
        };
        let (width, cells) = (place.layout.blocks * BLOCK, place.layout.cells());
        let quantities = Quantities {
            unit: place.unit,
            zero: place.zero,
            other_unit: sum.map_or(1.0, |(other, _)| other.unit),
            output_unit,
        };
        let own = SqueezeExcite::new(
            &tensors,
            &place.positions,
            (width, cells),
            activation,
            quantities,
            sum.map(|(_, activation)| activation),
        );
        let other = sum.map_or(&place, |(other, _)| other);
        if other.positions != place.positions {
            return Err(self.unsupported(format!("layer {name} adds channels in different orders")));
        }
        let layout = Layout::new(place.layout.side, width, reach);
        let output = self.buffer(&layout, Some(place.buffer));
        steps.push(Step::Elementwise(Elementwise {
            operation: Operation::SqueezeExcite(own),
            inputs: [place.buffer, other.buffer],
            output,
            from: [place.layout.clone(), other.layout.clone()],
            store: layout.store(),
            to: layout.clone(),
        }));
        Ok(Activations {
            buffer: output,
            layout,
            unit: output_unit,
            zero: 0.0,
            moments: None,
            ..place
        })
    }
}
