//! Without the cargo feature `http` there is no HTTP, and whoever asks for it hears how to get it.

use std::convert::Infallible;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tsugite_core::session::probe::ProbeRecord;

use super::calls::Waiting;
use super::carrier::{Answered, Outgoing};
use super::error::{Challenge, Error, Result};
use super::link::{Link, Trouble};
use super::shared::Shared;

/// Gives credentials over HTTP, which this program was built without.
pub trait Authorizer: Send + Sync + 'static {
    /// What to send as `Authorization` with the next request, if anything.
    fn authorization(&self) -> Pin<Box<dyn Future<Output = Result<Option<String>>> + Send + '_>>;

    /// The server refused. True when the request is to be sent again.
    fn challenged(&self, challenge: Challenge) -> Pin<Box<dyn Future<Output = Result<bool>> + Send + '_>>;
}

/// How a server would be reached.
#[derive(Clone)]
#[allow(dead_code, reason = "nobody can follow it")]
pub(super) struct Url {
    pub(super) text: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    pub(super) trusted: Vec<PathBuf>,
    pub(super) limit: Duration,
    pub(super) only_sse: bool,
    pub(super) only_streamable: bool,
}

impl Url {
    pub(super) fn new(text: String) -> Self {
        let limit = Duration::ZERO;
        Self {
            text,
            headers: Vec::new(),
            authorizer: None,
            trusted: Vec::new(),
            limit,
            only_sse: false,
            only_streamable: false,
        }
    }
}

pub(super) async fn open(
    _: &Arc<Shared>,
    _: &Url,
    _: Option<ProbeRecord>,
) -> Result<(Arc<Link>, Option<ProbeRecord>)> {
    let text =
        "HTTP is spoken only with the cargo feature `http` of tsugite, which this program was built without";
    Err(Error::setting(text))
}

pub(super) async fn hear(_: &Arc<Link>) {}

/// Streamable HTTP, of which there is none.
pub(super) struct Http(Infallible);

impl Http {
    pub(super) async fn exchange(
        &self,
        _: &Arc<Link>,
        _: &Arc<Waiting>,
        _: Outgoing<'_>,
    ) -> Result<Answered, Trouble> {
        match self.0 {}
    }

    pub(super) async fn tell(&self, _: &Arc<Link>, _: Vec<u8>) -> Result<(), Trouble> {
        match self.0 {}
    }

    pub(super) async fn close(&self, _: &Arc<Link>) {
        match self.0 {}
    }

    pub(super) fn kill(&self) {
        match self.0 {}
    }
}

/// HTTP+SSE, of which there is none.
pub(super) struct Sse(Infallible);

impl Sse {
    pub(super) async fn send(&self, _: Outgoing<'_>) -> Result<(), Trouble> {
        match self.0 {}
    }

    pub(super) async fn tell(&self, _: Vec<u8>) -> Result<(), Trouble> {
        match self.0 {}
    }
}
