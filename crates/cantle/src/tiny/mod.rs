//! Tiny.
