//! The command `cantle`.
fn main() {}
