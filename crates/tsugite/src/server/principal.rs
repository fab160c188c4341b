//! The authenticated caller and the headers of a request, where the transport provides them.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use tsugite_core::session::http::OptionalHeader;

use super::caller_key::CallerKey;
use super::kept_call::KeptRequest;
use super::key_state::KeyedRun;
use super::task_state::RunningTask;
pub use crate::shared::principal::Principal;

/// The caller, as far as the transport knows it.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    pub(crate) principal: Option<Principal>,
    pub(crate) headers: Headers,
    /// The network address of the client.
    pub(crate) address: Option<IpAddr>,
    /// Set if the request can be stored while its handler waits.
    pub(crate) kept: Option<Arc<KeptRequest>>,
    /// Set if the call is a task that another process began.
    pub(crate) resumed_task: Option<Arc<RunningTask>>,
    /// Set if the idempotency key of the call was looked up, and the call runs.
    pub(crate) keyed_run: Option<KeyedRun>,
}

impl CallerKey {
    pub(crate) fn of_caller(caller: &Caller) -> Option<Self> {
        Self::new(caller.principal.as_ref(), caller.address)
    }
}

/// The HTTP headers of the request; empty for other transports. Cheap to clone.
#[derive(Clone, Default)]
pub struct Headers(Option<Arc<dyn HeaderSource>>);

/// A source of headers, independent of the transport's representation.
pub(crate) trait HeaderSource: Send + Sync {
    /// All values of a header, in order.
    fn values(&self, name: &str) -> Vec<&str>;

    /// The single value of a header: absent, present once, or invalid (repeated or not text).
    fn single(&self, name: &str) -> OptionalHeader<'_>;

    /// All headers, in order.
    fn pairs(&self) -> Vec<(&str, &str)>;
}

impl HeaderSource for Vec<(String, String)> {
    fn values(&self, name: &str) -> Vec<&str> {
        let same = self.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.as_str()).collect()
    }

    fn single(&self, name: &str) -> OptionalHeader<'_> {
        match self.values(name)[..] {
            [] => OptionalHeader::Absent,
            [value] => OptionalHeader::Present(value),
            _ => OptionalHeader::Ambiguous,
        }
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

impl Headers {
    /// The first value of a header. Names are compared without case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values(name).first().copied()
    }

    /// All values of a header, in order.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.0.as_ref().map_or_else(Vec::new, |named| named.values(name))
    }

    /// All headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.as_ref().map_or_else(Vec::new, |named| named.pairs()).into_iter()
    }

    /// The value of a header that may occur only once.
    pub(crate) fn single(&self, name: &str) -> OptionalHeader<'_> {
        self.0.as_ref().map_or(OptionalHeader::Absent, |named| named.single(name))
    }

    /// Wraps the headers of a transport.
    pub(crate) fn from_source(named: Arc<dyn HeaderSource>) -> Self {
        Self(Some(named))
    }

    /// Whether the transport has headers.
    pub(crate) fn is_present(&self) -> bool {
        self.0.is_some()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs: Vec<_> = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self(Some(Arc::new(pairs)))
    }
}

/// Prints names only: a value may be a secret.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}
