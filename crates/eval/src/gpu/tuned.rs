//! Measurements that are kept on disk: the best batch size of a device and the fastest kernels.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use cubecl::config::{
    CubeClRuntimeConfig, RuntimeConfig, cache::CacheConfig, compilation::CompilationConfig,
    environment::EnvironmentConfig,
};

use super::runner::SMALLEST;
use crate::EvalError;

/// The preferred batch is the smallest that reaches this share of the best rate, because a search
/// gains more from smaller batches than from the last few percent of speed.
const GOOD_ENOUGH: f64 = 0.9;

/// The folder for measurements: `batch-first` in the user's cache folder.
fn folder() -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME")
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("batch-first"))
}

/// Sets the folder in which CubeCL keeps compiled kernels and tuning results, unless the user has
/// configured it. This must be done before CubeCL first opens a device.
pub(super) fn keep_kernels() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let Some(folder) = folder() else { return };
        let environment = EnvironmentConfig {
            path: CacheConfig::Directory(folder),
            ..EnvironmentConfig::default()
        };
        // Without autotuning CubeCL cannot keep compiled kernels.
        #[cfg(feature = "autotune")]
        let compilation = CompilationConfig { cache: true, ..CompilationConfig::default() };
        #[cfg(not(feature = "autotune"))]
        let compilation = CompilationConfig::default();
        let config =
            CubeClRuntimeConfig { environment, compilation, ..CubeClRuntimeConfig::default() };
        if !CubeClRuntimeConfig::try_set(config.override_from_env()) {
            tracing::warn!(
                "a device was opened before the folder for its kernels was known: they are not kept"
            );
        }
    });
}

fn file() -> Option<PathBuf> {
    folder().map(|folder| folder.join("preferred-batch.json"))
}

fn read(file: &Path) -> Option<BTreeMap<String, usize>> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// The kept batch size for `key`, if it is at most `largest`.
pub(super) fn known_batch(key: &str, largest: usize) -> Option<usize> {
    read(&file()?)?.get(key).copied().filter(|size| (1..=largest).contains(size))
}

/// Measures the preferred batch size up to `largest` and keeps it under `key`. `rate` measures the
/// evaluations a second of a batch size. If the file cannot be written, the size is measured again
/// the next time.
///
/// # Errors
/// A measurement failed.
pub(super) fn preferred_batch(
    key: &str,
    largest: usize,
    mut rate: impl FnMut(usize) -> Result<f64, EvalError>,
) -> Result<usize, EvalError> {
    let size = sweep(largest, &mut rate)?;
    let Some(file) = file() else { return Ok(size) };
    let mut known = read(&file).unwrap_or_default();
    known.insert(key.to_owned(), size);
    if let Ok(text) = serde_json::to_vec_pretty(&known) {
        let part = file.with_extension(format!("part-{}", std::process::id()));
        let written = fs::create_dir_all(file.parent().unwrap_or(&file))
            .and_then(|()| fs::write(&part, text))
            .and_then(|()| fs::rename(&part, &file));
        if let Err(error) = written {
            tracing::debug!(%error, "the preferred batch could not be kept");
        }
    }
    Ok(size)
}

/// Doubles the batch size until the rate no longer grows, and returns the smallest size that is
/// fast enough.
fn sweep(
    largest: usize,
    rate: &mut impl FnMut(usize) -> Result<f64, EvalError>,
) -> Result<usize, EvalError> {
    let mut rates = Vec::new();
    let mut size = SMALLEST;
    while size <= largest {
        let found = rate(size)?;
        tracing::info!(batch = size, "{found:.0} evaluations a second");
        rates.push((size, found));
        let best_before = rates[..rates.len() - 1].iter().map(|rate| rate.1).fold(0.0, f64::max);
        if found < 1.05 * best_before {
            break;
        }
        size *= 2;
    }
    let best = rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
    let first = rates.iter().find(|rate| rate.1 >= GOOD_ENOUGH * best);
    Ok(first.map_or(SMALLEST, |rate| rate.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweep_takes_the_smallest_good_batch() {
        let of = |rates: &[f64]| {
            let mut left = rates.iter();
            sweep(8192, &mut |_| Ok(*left.next().unwrap_or(&0.0))).unwrap()
        };
        assert_eq!(of(&[100.0, 190.0, 300.0, 310.0, 305.0]), 512);
        assert_eq!(of(&[100.0, 101.0]), 128);
        assert_eq!(of(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]), 8192);
    }
}
