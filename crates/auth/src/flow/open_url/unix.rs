//! Opening a URL on Linux and other Unix systems.

/// The program and its arguments before the URL.
pub(in crate::flow) const OPENER: (&str, &[&str]) = ("xdg-open", &[]);
