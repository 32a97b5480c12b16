//! The errors of network files.

use std::path::PathBuf;

/// A network that cannot be used; the message is one sentence with a hint.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The file cannot be read or written.
    #[error("cannot use the network file `{path}`: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    /// The bytes are not a safetensors file.
    #[error("`{name}` is not a safetensors file: {reason} (is it a complete download?)")]
    NotSafetensors { name: String, reason: String },
    /// A metadata field is missing or cannot be read.
    #[error("`{name}` is not a Batch First network: metadata field `{field}` {reason}")]
    Metadata { name: String, field: &'static str, reason: String },
    /// A tensor is missing or has the wrong shape or type.
    #[error("`{name}` is damaged: tensor `{tensor}` {reason}")]
    Tensor { name: String, tensor: String, reason: String },
    /// The checksum does not match: some bytes changed after the file was written.
    #[error(
        "`{name}` is damaged: its checksum does not fit its content (download or copy it again)"
    )]
    Damaged { name: String },
    /// A file of Leela's that cannot be read or run.
    #[error("`{name}` cannot be used as a Leela network: {reason}")]
    Leela { name: String, reason: String },
    /// A description that no executor can run.
    #[error("the network description of `{name}` cannot be run: {reason}")]
    Description { name: String, reason: String },
}
