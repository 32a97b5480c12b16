//! Training runs, with a callback for every line of the journal.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use ::train::{Config, Ending, Event, Progress, StepReport};
use pyo3::{
    prelude::*,
    types::{PyDict, PyMapping, PyString},
};

use crate::failure::failure;

/// Levels of mappings within a configuration's; more than any has.
const SECTION_DEPTH: usize = 8;

/// Trains as `batch-first train` does.
#[pyfunction]
#[pyo3(signature = (config, *, settings=Vec::new(), resume=false, on_event=None))]
pub(crate) fn train<'py>(
    py: Python<'py>,
    config: &Bound<'py, PyAny>,
    settings: Vec<String>,
    resume: bool,
    on_event: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let config = read_config(config, &settings)?;
    let stop = AtomicBool::new(false);
    let mut callback = Callback { on_event, stop: &stop, failed: None };
    let outcome = py.detach(|| ::train::train_all(&config, resume, &stop, &mut callback));
    if let Some(error) = callback.failed {
        return Err(error);
    }
    let outcome = outcome.map_err(failure)?;
    let result = PyDict::new(py);
    result.set_item("finished", outcome.ending != Ending::Interrupted)?;
    result.set_item("step", outcome.step)?;
    result.set_item("folder", outcome.folder)?;
    result.set_item("network", outcome.network)?;
    let measures = serde_json::to_string(&outcome.measures).map_err(failure)?;
    result.set_item("measures", from_json(py, &measures)?)?;
    Ok(result)
}

/// A configuration file, or its sections as a mapping.
fn read_config(config: &Bound<'_, PyAny>, settings: &[String]) -> PyResult<Config> {
    let Ok(sections) = config.cast::<PyMapping>() else {
        let path: PathBuf = config.extract()?;
        return Config::load(Path::new(&path), settings).map_err(failure);
    };
    let sections = as_dict(sections, SECTION_DEPTH)?;
    let text = config.py().import("json")?.call_method1("dumps", (sections,))?;
    let sections: serde_json::Value =
        serde_json::from_str(&text.cast::<PyString>()?.to_cow()?).map_err(failure)?;
    let text = toml::to_string(&sections).map_err(failure)?;
    Config::parse(&text, settings).map_err(failure)
}

/// A mapping as a dictionary, which `json` wants; so are those in it, down to `depth` levels.
fn as_dict<'py>(mapping: &Bound<'py, PyMapping>, depth: usize) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(mapping.py());
    for item in mapping.items()? {
        let (name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
        match value.cast::<PyMapping>() {
            Ok(inner) if depth > 0 => dictionary.set_item(name, as_dict(inner, depth - 1)?)?,
            _ => dictionary.set_item(name, value)?,
        }
    }
    Ok(dictionary)
}

fn from_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}

/// Gives events to Python. The first exception there, Ctrl-C included, ends the run, whose
/// checkpoint is saved.
struct Callback<'a> {
    on_event: Option<Py<PyAny>>,
    stop: &'a AtomicBool,
    failed: Option<PyErr>,
}

impl Callback<'_> {
    fn keep(&mut self, result: PyResult<()>) {
        if let Err(error) = result {
            self.stop.store(true, Ordering::Relaxed);
            self.failed.get_or_insert(error);
        }
    }
}

impl Progress for Callback<'_> {
    fn step(&mut self, _: &StepReport) {
        self.keep(Python::attach(|py| py.check_signals()));
    }

    fn event(&mut self, event: &Event) {
        let Some(on_event) = &self.on_event else { return };
        let called = Python::attach(|py| {
            let text = serde_json::to_string(event).map_err(failure)?;
            on_event.call1(py, (from_json(py, &text)?,))?;
            Ok(())
        });
        self.keep(called);
    }
}
