//! A network on one device: uploads the boards of a batch, runs the layers and reads the scores.

use std::sync::Arc;

use burn::tensor::{DType, Device, Int, Tensor as Array, TensorData};
use nets::{Encoding, Head, HeadKind, HeadOutput, LeelaInput, LeelaPlanes, MovePlaces, Network};

use super::{
    devices::{self, caught},
    network::{DeviceNetwork, Flow},
    packed,
    planes::PlaneUpload,
    tuned,
};
use crate::{Batch, DeviceName, EvalError, Precision, Query, Scores};

/// The smallest batch size. Batches are padded to this size times a power of two.
pub(super) const SMALLEST: usize = 128;

/// The largest batch size of a device whose buffers can hold the activations. Larger batches are
/// split.
pub(super) const LARGEST: usize = 8192;

/// The largest buffer of activations, in bytes, that a device supports for certain. Software
/// implementations of a GPU (`is_card` is false) refuse pages of 256 MiB, and a page holds several
/// buffers.
fn buffer_bytes(name: DeviceName, is_card: bool) -> usize {
    match name {
        _ if !is_card => 16 << 20,
        DeviceName::Cuda(_) => 1 << 30,
        _ => 256 << 20,
    }
}

/// A network on one device.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    network: Arc<Network>,
    device: Device,
    pub precision: Precision,
    layers: DeviceNetwork,
    /// The largest batch size, a power of two.
    largest: usize,
}

impl Runner {
    /// Uploads a network. Also returns the model name of the device.
    pub fn open(
        network: &Arc<Network>,
        name: DeviceName,
        precision: Option<Precision>,
    ) -> Result<(Self, String), EvalError> {
        let device = devices::open(name)?;
        let precision = caught(|| precision.unwrap_or_else(|| best_precision(&device)))?;
        let identity = caught(|| device.identity())?;
        let is_card = identity.as_ref().is_some_and(|identity| identity.physical.is_some());
        let model = identity.map_or_else(|| name.to_string(), |identity| identity.name);
        let dtype = dtype(precision)?;
        if !caught(|| device.supports_dtype(dtype))? {
            return Err(EvalError::Device(format!(
                "{name} ({model}) does not compute in {precision}"
            )));
        }
        let layers = caught(|| DeviceNetwork::new(network, &device, dtype))??;
        let most = (buffer_bytes(name, is_card) / layers.widest.max(1)).clamp(SMALLEST, LARGEST);
        let largest = 1 << most.ilog2();
        Ok((Self { network: Arc::clone(network), device, precision, layers, largest }, model))
    }

    /// The preferred batch size of the device, at most `LARGEST`. A batch is run in any case, so that
    /// errors of the device or its compiler appear now and not during a game.
    pub fn preferred(&self, model: &str, given: Option<usize>) -> Result<usize, EvalError> {
        let key = format!("{model}, {}, {}", self.precision, self.network.fingerprint());
        let known = given.or_else(|| tuned::known_batch(&key, self.largest));
        let preferred = match known {
            Some(size) => {
                self.rate(SMALLEST)?;
                size
            }
            None => tuned::preferred_batch(&key, self.largest, |size| self.rate(size))?,
        };
        Ok(preferred.clamp(1, LARGEST))
    }

    /// Calibrated scores of a checked batch.
    pub fn scores(&self, batch: &Batch) -> Result<Scores, EvalError> {
        let mut scores =
            Scores { values: vec![0.0; batch.len()], moves: vec![0.0; batch.moves.len()] };
        let asks = |query: &Query, kind| match kind {
            HeadKind::Value => query.value,
            _ => query.move_count > 0,
        };
        // Heads over a common trunk run together. Without a trunk each head runs on the queries that
        // need it.
        let parts: &[&[HeadKind]] = if self.layers.has_trunk() {
            &[&[HeadKind::Value, HeadKind::Moves]]
        } else {
            &[&[HeadKind::Value], &[HeadKind::Moves]]
        };
        for kinds in parts {
            let asked: Vec<usize> = (0..batch.len())
                .filter(|&at| kinds.iter().any(|&kind| asks(&batch.queries[at], kind)))
                .collect();
            let heads: Vec<&Head> = kinds
                .iter()
                .filter(|&&kind| asked.iter().any(|&at| asks(&batch.queries[at], kind)))
                .filter_map(|&kind| self.network.description.head(kind))
                .collect();
            for asked in asked.chunks(self.largest) {
                self.part(batch, asked, &heads, &mut scores)?;
            }
        }
        Ok(scores)
    }

    /// Runs `heads` on the queries `asked` (indices in the batch) and stores their scores.
    fn part(
        &self,
        batch: &Batch,
        asked: &[usize],
        heads: &[&Head],
        scores: &mut Scores,
    ) -> Result<(), EvalError> {
        let size = padded(asked.len());
        let outputs = self.layers.run(self.upload(batch, asked, size)?, heads)?;
        let mut read = Vec::with_capacity(heads.len());
        let mut lengths = Vec::with_capacity(heads.len());
        for (head, mut output) in heads.iter().zip(outputs) {
            if head.kind == HeadKind::Moves {
                let [all] = output.dims();
                output = output.gather(0, self.places(batch, asked, head.output, [size, all]));
            }
            lengths.push(output.dims()[0]);
            read.push(output);
        }
        let logits = Array::cat(read, 0)
            .try_into_vec_as::<f32>()
            .map_err(|error| EvalError::Device(cause(&error.to_string())))?;
        let mut rest = logits.as_slice();
        for (head, length) in heads.iter().zip(lengths) {
            let (own, others) = rest.split_at(length);
            if head.kind == HeadKind::Value {
                self.store_values(batch, asked, head.output, own.chunks(length / size), scores);
            } else {
                let ranges = asked.iter().flat_map(|&at| batch.queries[at].move_range());
                for (place, &logit) in ranges.zip(own) {
                    scores.moves[place] = self.network.calibration.moves.apply(logit);
                }
            }
            rest = others;
        }
        Ok(())
    }

    fn store_values<'a>(
        &self,
        batch: &Batch,
        asked: &[usize],
        output: HeadOutput,
        logits: impl Iterator<Item = &'a [f32]>,
        scores: &mut Scores,
    ) {
        let encoding = self.network.description.encoding;
        for (&at, logits) in asked.iter().zip(logits) {
            let query = &batch.queries[at];
            if query.value {
                let value = self.network.calibration.value.apply(output.value_of(logits));
                let turned = encoding.is_whites_view() && query.turn.is_black();
                scores.values[at] = if turned { -value } else { value };
            }
        }
    }

    /// Uploads the boards of the queries `asked`, padded to `size`.
    fn upload(&self, batch: &Batch, asked: &[usize], size: usize) -> Result<Flow, EvalError> {
        let encoding = self.network.description.encoding;
        if let Encoding::Leela(input) = encoding {
            return Ok(Flow::Cells(self.upload_planes(batch, asked, size, input)));
        }
        let mut boards = Vec::with_capacity(size * packed::BYTES);
        for &at in asked {
            let query = &batch.queries[at];
            packed::pack(encoding, &query.squares, query.turn, &mut boards)?;
        }
        boards.resize(size * packed::BYTES, 0);
        let numbers: Vec<u32> = boards
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        let count = numbers.len();
        let numbers =
            Array::from_data(TensorData::new(numbers, [count]), (&self.device, DType::U32));
        Ok(Flow::Packed(numbers, size))
    }

    fn upload_planes(
        &self,
        batch: &Batch,
        asked: &[usize],
        size: usize,
        input: LeelaInput,
    ) -> Array<4> {
        let mut upload = PlaneUpload::new(size);
        for (row, &at) in asked.iter().enumerate() {
            upload.set(row, &LeelaPlanes::of(&batch.seen(at), input));
        }
        upload.expanded(&self.device, self.layers.dtype)
    }

    /// The places of the moves asked for among all outputs of so many boards. Their
    /// number is padded too, so that few sizes occur.
    fn places(
        &self,
        batch: &Batch,
        asked: &[usize],
        output: HeadOutput,
        [boards, all]: [usize; 2],
    ) -> Array<1, Int> {
        let encoding = self.network.description.encoding;
        let mut places = Vec::new();
        for (row, &at) in asked.iter().enumerate() {
            let query = &batch.queries[at];
            let own = MovePlaces::new(output, encoding, &query.squares);
            let first = row * (all / boards);
            let moves = &batch.moves[query.move_range()];
            places.extend(moves.iter().map(|&index| (first + own.of(index)) as i32));
        }
        let count = places.len().next_power_of_two().max(8 * boards);
        places.resize(count, 0);
        Array::from_data(TensorData::new(places, [count]), (&self.device, DType::I32))
    }

    /// Evaluations a second of all heads in batches of `size`, measured over about 0.2 s after the
    /// kernels are compiled.
    fn rate(&self, size: usize) -> Result<f64, EvalError> {
        let position = board::Position::default();
        let has = |kind| self.network.description.head(kind).is_some();
        let moves = position.legal_moves();
        let mut batch = Batch::default();
        for _ in 0..size {
            batch.push(
                &position,
                has(HeadKind::Value),
                if has(HeadKind::Moves) { moves.as_slice() } else { &[] },
            );
        }
        caught(|| self.scores(&batch))??;
        let start = std::time::Instant::now();
        let mut done = 0;
        while done == 0 || start.elapsed().as_secs_f64() < 0.2 {
            caught(|| self.scores(&batch))??;
            done += size;
        }
        Ok(done as f64 / start.elapsed().as_secs_f64())
    }
}

/// The root cause of an error message, which is the last of its causes.
fn cause(text: &str) -> String {
    let last = text.rsplit("Caused by:").next().unwrap_or(text);
    last.split("No backtrace").next().unwrap_or(last).trim().to_owned()
}

/// The padded batch size of `count` positions.
fn padded(count: usize) -> usize {
    count.next_power_of_two().max(SMALLEST)
}

fn dtype(precision: Precision) -> Result<DType, EvalError> {
    match precision {
        Precision::F16 => Ok(DType::F16),
        Precision::Bf16 => Ok(DType::BF16),
        Precision::F32 => Ok(DType::F32),
        Precision::Int8 => Err(EvalError::Device(
            "GPUs compute in f16, bf16 or f32, not in int8: choose one of those or `--device cpu`"
                .to_owned(),
        )),
    }
}

/// The fastest number format of the device whose scores are practically those of `f32`.
fn best_precision(device: &Device) -> Precision {
    let usable = [(Precision::F16, DType::F16), (Precision::Bf16, DType::BF16)]
        .into_iter()
        .find(|&(_, dtype)| device.supports_dtype(dtype));
    usable.map_or(Precision::F32, |(precision, _)| precision)
}
