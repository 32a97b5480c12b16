//! A network in memory and its file: safetensors with the description, calibration and origin in
//! the metadata.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use board::{SplitMix64, hex, write_whole};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Calibration, Description, NetError, TensorKind, description::TensorSpec, leela};

/// Version of the metadata layout.
const FORMAT: u32 = 1;

/// The metadata field that holds everything but the weights.
const METADATA: &str = "batch-first";

/// A dense 32-bit tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub data: Vec<f32>,
}

/// The origin of a network: free-form lines, kept in the file and printed by `net info`.
pub type Provenance = BTreeMap<String, String>;

/// Description, weights, calibration and origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The name that users see, such as the name of the training run.
    pub name: String,
    pub description: Description,
    pub tensors: BTreeMap<String, Tensor>,
    pub calibration: Calibration,
    /// The largest output of each step of the computation, the trunk's steps first, then the
    /// heads'. Evaluation in int8 needs them. They are present only where int8 was measured to cost
    /// next to nothing, and any change of the weights makes them invalid.
    pub int8_ranges: Option<Vec<f32>>,
    pub provenance: Provenance,
}

/// The content of [`METADATA`], as JSON.
#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    name: String,
    description: Description,
    calibration: Calibration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    int8_ranges: Option<Vec<f32>>,
    provenance: Provenance,
    /// See [`checksum`]; empty in files written without one.
    #[serde(default)]
    checksum: String,
}

/// The version, read before the other fields so that the error for a later version can name it.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Network {
    /// A network with seeded random weights (He-normal), unit norms: for tests and as a start for
    /// training.
    ///
    /// # Errors
    /// The description cannot be run.
    pub fn random(description: Description, seed: u64) -> Result<Self, NetError> {
        let specs = specs(&description, "random")?;
        let planes = description.encoding.planes() as f32;
        let mut random = SplitMix64::new(seed);
        let mut normal = move || {
            let (radius, angle) = (random.unit().max(1e-7), random.unit());
            (-2.0 * radius.ln()).sqrt() * (std::f32::consts::TAU * angle).cos()
        };
        let mut tensors = BTreeMap::new();
        for spec in specs {
            let count: usize = spec.shape.iter().product();
            let data = match spec.kind {
                TensorKind::Weight => {
                    let mut fan_in = spec.shape[1..].iter().product::<usize>() as f32;
                    if spec.name.contains(".branches.") {
                        // The planes are one-hot and about half of the squares are empty, so few
                        // inputs are set.
                        fan_in /= 2.0 * planes;
                    }
                    let deviation = (2.0 / fan_in).sqrt();
                    (0..count).map(|_| normal() * deviation).collect()
                }
                TensorKind::NormScale | TensorKind::NormVariance => vec![1.0; count],
                TensorKind::Bias | TensorKind::NormShift | TensorKind::NormMean => vec![0.0; count],
            };
            tensors.insert(spec.name, Tensor { shape: spec.shape, data });
        }
        Ok(Self {
            name: format!("random-{seed}"),
            description,
            tensors,
            calibration: Calibration::default(),
            int8_ranges: None,
            provenance: Provenance::new(),
        })
    }

    /// Reads a network file, one of ours or of Leela's (`.pb.gz` or `.pb`).
    ///
    /// # Errors
    /// The file cannot be read, is not a safetensors file, or its tensors do not match its
    /// description.
    pub fn load(path: &Path) -> Result<Self, NetError> {
        let bytes =
            std::fs::read(path).map_err(|source| NetError::Io { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes, &path.display().to_string())
    }

    /// Reads a network from memory, one of ours or of Leela's; `name` is the file's, for messages.
    ///
    /// # Errors
    /// As [`Network::load`].
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Self, NetError> {
        if leela::is_leela(bytes) {
            return leela::read(bytes, name);
        }
        let not_safetensors = |error: safetensors::SafeTensorError| NetError::NotSafetensors {
            name: name.to_owned(),
            reason: error.to_string(),
        };
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
        let bad =
            |reason: String| NetError::Metadata { name: name.to_owned(), field: METADATA, reason };
        let fields = metadata.metadata().clone().unwrap_or_default();
        let text = fields.get(METADATA).ok_or_else(|| bad("is missing".to_owned()))?;
        let format: Format =
            serde_json::from_str(text).map_err(|error| bad(format!("is unreadable: {error}")))?;
        if format.format != FORMAT {
            return Err(bad(format!(
                "has format {}; this version reads format {FORMAT}",
                format.format
            )));
        }
        let header: Header =
            serde_json::from_str(text).map_err(|error| bad(format!("is unreadable: {error}")))?;
        if !header.calibration.is_valid() {
            return Err(bad("holds a calibration that does not rise".to_owned()));
        }
        let is_range = |&range: &f32| range == 0.0 || (1e-20..1e20).contains(&range);
        if !header.int8_ranges.iter().flatten().all(is_range) {
            return Err(bad("holds a range that no layer has".to_owned()));
        }
        let file = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
        let mut tensors = BTreeMap::new();
        for spec in specs(&header.description, name)? {
            let damaged = |reason: String| NetError::Tensor {
                name: name.to_owned(),
                tensor: spec.name.clone(),
                reason,
            };
            let view = file.tensor(&spec.name).map_err(|_| damaged("is missing".to_owned()))?;
            if view.dtype() != Dtype::F32 || view.shape() != spec.shape {
                return Err(damaged(format!(
                    "is {:?} {:?} instead of F32 {:?}",
                    view.dtype(),
                    view.shape(),
                    spec.shape
                )));
            }
            let data: Vec<f32> = view
                .data()
                .chunks_exact(4)
                .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                .collect();
            if !data.iter().all(|value| value.is_finite()) {
                return Err(damaged("holds a value that is not finite".to_owned()));
            }
            if spec.kind == TensorKind::NormVariance && data.iter().any(|&value| value < 0.0) {
                return Err(damaged("holds a negative variance".to_owned()));
            }
            tensors.insert(spec.name.clone(), Tensor { shape: spec.shape.clone(), data });
        }
        if !header.checksum.is_empty() {
            let unsigned = text.replacen(&header.checksum, "", 1);
            if checksum(&unsigned, tensors.iter()) != header.checksum {
                return Err(NetError::Damaged { name: name.to_owned() });
            }
        }
        Ok(Self {
            name: header.name,
            description: header.description,
            tensors,
            calibration: header.calibration,
            int8_ranges: header.int8_ranges,
            provenance: header.provenance,
        })
    }

    /// The file's bytes. Equal networks give equal bytes.
    ///
    /// # Errors
    /// A tensor that the description asks for is missing or has another shape.
    pub fn to_bytes(&self) -> Result<Vec<u8>, NetError> {
        let mut bytes = Vec::new();
        for spec in specs(&self.description, &self.name)? {
            let tensor = self.tensors.get(&spec.name).filter(|tensor| tensor.shape == spec.shape);
            let Some(tensor) = tensor else {
                return Err(NetError::Tensor {
                    name: self.name.clone(),
                    tensor: spec.name,
                    reason: "is missing or has another shape".to_owned(),
                });
            };
            let data: Vec<u8> = tensor.data.iter().flat_map(|value| value.to_le_bytes()).collect();
            bytes.push((spec.name, tensor.shape.clone(), data));
        }
        let invalid = |reason: String| NetError::Description { name: self.name.clone(), reason };
        let mut views = Vec::with_capacity(bytes.len());
        for (name, shape, data) in &bytes {
            let view = TensorView::new(Dtype::F32, shape.clone(), data)
                .map_err(|error| invalid(error.to_string()))?;
            views.push((name.as_str(), view));
        }
        let mut header = Header {
            format: FORMAT,
            name: self.name.clone(),
            description: self.description.clone(),
            calibration: self.calibration.clone(),
            int8_ranges: self.int8_ranges.clone(),
            provenance: self.provenance.clone(),
            checksum: String::new(),
        };
        let text = |header: &Header| {
            serde_json::to_string(header).map_err(|error| invalid(error.to_string()))
        };
        let written =
            self.tensors.iter().filter(|(name, _)| bytes.iter().any(|(other, ..)| other == *name));
        header.checksum = checksum(&text(&header)?, written);
        let header = text(&header)?;
        // One field only: the order of several fields would differ from run to run.
        let metadata = HashMap::from([(METADATA.to_owned(), header)]);
        safetensors::serialize(views, Some(metadata)).map_err(|error| invalid(error.to_string()))
    }

    /// Writes the file under a temporary name, then renames it.
    ///
    /// # Errors
    /// As [`Network::to_bytes`], and when the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), NetError> {
        write_whole(path, &self.to_bytes()?)
            .map_err(|source| NetError::Io { path: path.to_owned(), source })
    }

    /// The first 12 hexadecimal digits of the SHA-256 of description and weights: the name of a
    /// network in logs.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(serde_json::to_vec(&self.description).unwrap_or_default());
        hash_tensors(&mut hash, self.tensors.iter());
        hex(&hash.finalize()[..6])
    }

    /// A tensor by name; present for every name of the description.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }
}

/// SHA-256 over the metadata with an empty checksum and over every tensor, names in order, in
/// hexadecimal.
fn checksum<'a>(unsigned: &str, tensors: impl Iterator<Item = (&'a String, &'a Tensor)>) -> String {
    let mut hash = Sha256::new();
    hash.update(unsigned);
    hash_tensors(&mut hash, tensors);
    hex(&hash.finalize())
}

fn hash_tensors<'a>(hash: &mut Sha256, tensors: impl Iterator<Item = (&'a String, &'a Tensor)>) {
    for (name, tensor) in tensors {
        hash.update(name.as_bytes());
        let bytes: Vec<u8> = tensor.data.iter().flat_map(|value| value.to_le_bytes()).collect();
        hash.update(bytes);
    }
}

fn specs(description: &Description, name: &str) -> Result<Vec<TensorSpec>, NetError> {
    description.tensors().map_err(|reason| NetError::Description { name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadKind;

    #[test]
    fn a_network_survives_its_file() {
        let network =
            Network::random(Description::batch_first(&[HeadKind::Value, HeadKind::Moves]), 1)
                .unwrap();
        let bytes = network.to_bytes().unwrap();
        let back = Network::from_bytes(&bytes, "test").unwrap();
        assert!(network == back);
        assert!(bytes == back.to_bytes().unwrap(), "equal networks give equal bytes");
    }

    #[test]
    fn ranges_are_kept_and_checked() {
        let network = Network::random(Description::batch_first(&[HeadKind::Value]), 1).unwrap();
        let with = |ranges: Vec<f32>| Network { int8_ranges: Some(ranges), ..network.clone() };
        let ranged = with(vec![3.5, 0.0, 7.0]);
        assert!(ranged == Network::from_bytes(&ranged.to_bytes().unwrap(), "test").unwrap());
        assert_eq!(ranged.fingerprint(), network.fingerprint(), "the weights are the same");
        for wrong in [-1.0, 1e-43, 1e30] {
            let error = Network::from_bytes(&with(vec![3.5, wrong]).to_bytes().unwrap(), "test")
                .unwrap_err();
            assert!(error.to_string().contains("range"), "{error}");
        }
    }
}
