//! The chatcron binary.

fn main() {}
