//! The errors of all crates as one exception, whose text is their sentence.

use pyo3::{PyErr, create_exception, exceptions::PyException};

create_exception!(
    batch_first,
    BatchFirstError,
    PyException,
    "A file, board, option or setting cannot be used. The text is one sentence that names it."
);

/// The exception of an error.
pub(crate) fn failure(error: impl std::fmt::Display) -> PyErr {
    BatchFirstError::new_err(error.to_string())
}
