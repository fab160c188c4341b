//! Whether a bridge may open connections to a server.

/// Whether connections to a server may be opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Gate {
    #[default]
    Open,
    /// Requests wait until it opens.
    Paused,
    /// Requests fail with this reason until it opens.
    Failed(String),
}

impl Gate {
    pub(super) fn is_open(&self) -> bool {
        *self == Gate::Open
    }
}
