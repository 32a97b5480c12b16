//! The plain reference.
