//! Opening a URL on macOS.

/// The program and its arguments before the URL.
pub(in crate::flow) const OPENER: (&str, &[&str]) = ("open", &[]);
