//! The Python package `batch_first`: networks evaluated in batches, searches, shards of training
//! data and training, for programs in Python.
//!
//! Everything is done by the other crates; here Python's objects become theirs. Calls that evaluate,
//! search, read or train release the interpreter's lock. What users read is `batch_first.pyi`.
//!
//! | module | what it does |
//! |---|---|
//! | [`boards`] | FENs and boards of python-chess become positions |
//! | [`networks`], [`batches`], [`evaluation`] | networks, many boards at once, and what they answer |
//! | [`engines`], [`lender`] | searches, as iterators |
//! | [`shards`] | training data as NumPy arrays |
//! | [`training`] | runs with a callback |
//! | [`failure`] | errors become exceptions |

mod batches;
mod boards;
mod engines;
mod evaluation;
mod failure;
mod lender;
mod networks;
mod shards;
mod training;

use pyo3::{prelude::*, types::PyDict};

/// Chess networks and searches of Batch First.
#[pymodule]
mod batch_first {
    #[pymodule_export]
    use super::boards::Board;
    #[pymodule_export]
    use super::engines::{Engine, Info, Search};
    #[pymodule_export]
    use super::evaluation::Evaluation;
    #[pymodule_export]
    use super::failure::BatchFirstError;
    #[pymodule_export]
    use super::networks::Network;
    #[pymodule_export]
    use super::shards::{import_games, read_shard, squares, write_shards};
    #[pymodule_export]
    use super::training::train;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // The stubs say which keys these dictionaries have.
        let dictionary = module.py().get_type::<PyDict>();
        module.add("Records", &dictionary)?;
        module.add("Run", dictionary)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
