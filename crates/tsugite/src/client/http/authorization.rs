//! The credentials of the requests to one server: asks its [`Authorizer`], and counts its challenges.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};

use super::authorizer::{Authorizer, Credentials, RequestInfo, ResponseInfo};
use super::pool::RequestKind;
use crate::client::challenge::{Challenge, ChallengeKind};
use crate::client::client_error::ClientError;
use crate::client::pausable_clock::PausableClock;

/// The authorizer of one server.
pub(in crate::client) struct Authorization {
    authorizer: Arc<dyn Authorizer>,
    server: String,
    clock: Arc<PausableClock>,
}

/// The challenges to one request so far.
#[derive(Default)]
pub(super) struct ChallengeCounts(HashMap<ChallengeKind, u32>);

impl ChallengeCounts {
    /// Counts a challenge. False if there were too many of its kind.
    fn count(&mut self, kind: ChallengeKind) -> bool {
        let count = self.0.entry(kind).or_default();
        *count += 1;
        *count <= MAX_CHALLENGES
    }
}

impl Authorization {
    pub(super) fn new(authorizer: Arc<dyn Authorizer>, server: &str, clock: Arc<PausableClock>) -> Self {
        Self { authorizer, server: server.to_owned(), clock }
    }

    /// The user or application that requests are sent for now.
    pub(in crate::client) fn subject(&self) -> Option<String> {
        self.authorizer.identity(&self.server).map(|identity| identity.subject)
    }

    pub(super) fn request_info<'a>(
        &'a self,
        kind: RequestKind<'a>,
        verb: &'a str,
        url: &'a str,
    ) -> RequestInfo<'a> {
        let call = kind.call();
        let (method, name) = (call.map(|call| call.method), call.and_then(|call| call.name));
        RequestInfo { server: &self.server, verb, url, method, name }
    }

    /// Adds the credentials to the headers of a request.
    pub(super) async fn authorize(
        &self,
        kind: RequestKind<'_>,
        request: RequestInfo<'_>,
        headers: &mut HeaderMap,
    ) -> Result<Credentials, ClientError> {
        let credentials = self.without_timeout(kind, self.authorizer.authorize(request)).await?;
        for (name, value) in credentials.headers() {
            let parsed = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
            let (name, mut value) = parsed.ok_or_else(|| {
                ClientError::config(format!("the authorizer returned an invalid `{name}` header"))
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(credentials)
    }

    /// Shows the head of a response to the authorizer.
    pub(super) fn observe(&self, request: RequestInfo<'_>, status: u16, headers: &HeaderMap) {
        let headers: Vec<(&str, &str)> =
            headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
        self.authorizer.observe(request, ResponseInfo::new(status, &headers));
    }

    /// Asks the authorizer whether the request is to be sent again.
    pub(super) async fn handle_challenge(
        &self,
        kind: RequestKind<'_>,
        request: RequestInfo<'_>,
        rejected: &Credentials,
        challenge: &Challenge,
        counts: &mut ChallengeCounts,
    ) -> Result<bool, ClientError> {
        if !counts.count(challenge.kind) {
            return Ok(false);
        }
        self.without_timeout(kind, self.authorizer.handle_challenge(request, rejected, challenge)).await
    }

    /// Waits for the authorizer. Meanwhile neither the timer of the call nor the clock of the client runs.
    async fn without_timeout<T>(
        &self,
        kind: RequestKind<'_>,
        mut work: Pin<Box<dyn Future<Output = T> + Send + '_>>,
    ) -> T {
        // Most credentials are there already.
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
            return done;
        }
        let _timer = kind.call().map(|call| call.call.pause_timer());
        let _clock = self.clock.pause();
        work.await
    }
}

/// Describes a challenge.
pub(super) fn challenge(status: u16, url: String, headers: &HeaderMap) -> Challenge {
    let all = headers.get_all(WWW_AUTHENTICATE).iter();
    Challenge::new(status, url, all.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect())
}

/// How often a request is sent again after challenges of one kind: an expired token is renewed, the new one needs a
/// nonce, has too few scopes, and the next one needs a nonce again.
const MAX_CHALLENGES: u32 = 2;
