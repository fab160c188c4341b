//! Opening a URL on Windows. Not `start`: the shell would read the `&` in the URL.

/// The program and its arguments before the URL.
pub(in crate::flow) const OPENER: (&str, &[&str]) = ("rundll32.exe", &["url.dll,FileProtocolHandler"]);
