//! macOS, which can only be type-checked: zig compiles the C code of dependencies, and nothing is linked.

pub(super) const TARGET: &str = "aarch64-apple-darwin";
