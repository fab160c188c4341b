//! Stands in for HTTP where the cargo feature `http` is off.

/// Nothing can be set.
#[derive(Clone, Default)]
pub(crate) struct HttpSettings {}
