//! Batch norm folded into a factor and a bias per channel, for inference.

use nets::{NORM_EPSILON, Network};

use crate::EvalError;

/// The factor and the bias of each channel that replace a layer's batch norm; factors are 1 and the
/// bias is the layer's own without `norm`.
pub(crate) fn fold(
    network: &Network,
    name: &str,
    norm: bool,
    channels: usize,
) -> Result<(Vec<f32>, Vec<f32>), EvalError> {
    if !norm {
        return Ok((vec![1.0; channels], tensor(network, &format!("{name}.bias"))?.to_vec()));
    }
    let part = |part: &str| tensor(network, &format!("{name}.norm.{part}"));
    let (scale, shift, mean, variance) =
        (part("scale")?, part("shift")?, part("mean")?, part("variance")?);
    let factors: Vec<f32> = scale
        .iter()
        .zip(variance)
        .map(|(&scale, &variance)| scale / (variance + NORM_EPSILON).sqrt())
        .collect();
    let bias =
        (0..channels).map(|channel| shift[channel] - mean[channel] * factors[channel]).collect();
    Ok((factors, bias))
}

/// Scale and shift of a layer norm or gate.
pub(crate) fn scale_and_shift<'a>(
    network: &'a Network,
    name: &str,
) -> Result<[&'a [f32]; 2], EvalError> {
    Ok([tensor(network, &format!("{name}.scale"))?, tensor(network, &format!("{name}.shift"))?])
}

/// The values of a tensor of the network, row-major.
pub(crate) fn tensor<'a>(network: &'a Network, name: &str) -> Result<&'a [f32], EvalError> {
    network.tensor(name).map(|tensor| tensor.data.as_slice()).ok_or_else(|| {
        EvalError::Unsupported {
            network: network.name.clone(),
            reason: format!("tensor `{name}` is missing"),
        }
    })
}
