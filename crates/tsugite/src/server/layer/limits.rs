//! Ready-made limits: timeout, concurrency and rate limit. Change streams are exempt because they stay open by design.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;
use tsugite_core::jsonrpc::{ErrorObject, code};
use tsugite_core::revision::RpcError;

use super::{BoxError, LayerRequest, LayerResponse};
use crate::error::Chain;
use crate::lock::lock;
use crate::replica::digest;
use crate::server::principal::Principal;
use crate::server::purge;
use crate::shared::log;
use crate::shared::principal::CallerIdentity;
use crate::store::SpendLimit;

type LimitFuture = Pin<Box<dyn Future<Output = Result<LayerResponse, BoxError>> + Send>>;

/// Ends requests that take too long with an error. Time spent waiting for the user counts too;
/// [`Tool::timeout`](crate::server::Tool::timeout) leaves it out.
#[derive(Debug, Clone, Copy)]
#[doc(alias("TimeoutMiddleware", "time_limit"))]
pub struct Timeout(Duration);

impl Timeout {
    /// Limits each request to `limit`.
    pub fn new(limit: Duration) -> Self {
        Self(limit)
    }
}

/// Limits how many requests run at once; further requests wait.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimit(Arc<Semaphore>);

impl ConcurrencyLimit {
    /// Allows `requests` at once, over all callers.
    pub fn new(requests: usize) -> Self {
        Self(Arc::new(Semaphore::new(requests.clamp(1, Semaphore::MAX_PERMITS))))
    }
}

/// Rejects requests above a rate: a burst of `requests`, refilled over the period.
#[derive(Debug, Clone)]
#[doc(alias("rate_limit", "RateLimitingMiddleware", "throttle"))]
pub struct RateLimit {
    requests: u32,
    period: Duration,
    per_principal: bool,
    shared: bool,
    buckets: Arc<Mutex<Buckets>>,
}

/// The instant at which each caller's bucket is empty.
#[derive(Debug, Default)]
struct Buckets {
    empty_at: HashMap<Option<CallerIdentity>, Instant>,
    /// The number of callers at which idle ones are removed.
    sweep_threshold: usize,
}

impl RateLimit {
    /// Allows `requests` per `period`, over all callers.
    pub fn new(requests: u32, period: Duration) -> Self {
        Self {
            requests: requests.max(1),
            period,
            per_principal: false,
            shared: false,
            buckets: Arc::default(),
        }
    }

    /// Limits each authenticated caller separately; unauthenticated callers share one limit.
    #[must_use]
    pub fn per_principal(mut self) -> Self {
        self.per_principal = true;
        self
    }

    /// Counts in the [`Server::store`](crate::Server::store), so that replicas share the limit. Limits with the same rate
    /// share one count. A store that fails makes requests fail, over HTTP with 503.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// The rate limit in a store, and its key.
    fn shared_limit(&self, principal: Option<&Principal>) -> (String, SpendLimit) {
        let principal = principal.filter(|_| self.per_principal);
        let caller = principal.map_or_else(String::new, |principal| {
            let CallerIdentity { issuer, subject, client_id } = principal.identity();
            digest(format!("{issuer}\n{subject}\n{client_id}").as_bytes())
        });
        let key = format!("rate/{}/{}/{caller}", self.requests, self.period.as_nanos());
        let per_second = f64::from(self.requests) / self.period.as_secs_f64().max(1e-9);
        (key, SpendLimit { burst: self.requests, per_second })
    }

    /// Takes one request from the bucket. Fails with the time to wait.
    ///
    /// A bucket is stored as the instant at which it is empty: each request moves that instant forward by its share of the
    /// period, and it may lie at most one period ahead.
    fn acquire(&self, principal: Option<&Principal>) -> Result<(), Duration> {
        let now = Instant::now();
        let share = (self.period / self.requests).max(Duration::from_nanos(1));
        let mut buckets = lock(&self.buckets);
        if buckets.empty_at.len() >= buckets.sweep_threshold.max(MAX_BUCKETS) {
            buckets.empty_at.retain(|_, empty| *empty > now);
            buckets.sweep_threshold = 2 * buckets.empty_at.len();
        }
        let principal = principal.filter(|_| self.per_principal);
        let key = principal.map(Principal::identity);
        let empty = buckets.empty_at.entry(key).or_insert(now);
        // A period that overflows the clock is still a limit.
        let Some(next) = (*empty).max(now).checked_add(share) else {
            return if *empty > now {
                Err(self.period)
            } else {
                *empty = far_future(now);
                Ok(())
            };
        };
        match (next - now).checked_sub(self.period) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *empty = next;
                Ok(())
            }
        }
    }
}

/// An instant far in the future.
fn far_future(now: Instant) -> Instant {
    now + Duration::from_secs(1 << 30)
}

/// The number of callers at which idle ones are removed.
const MAX_BUCKETS: usize = 10_000;

macro_rules! limit_service {
    ($(#[$doc:meta])* $layer:ident => $service:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $service<S> {
            limit: $layer,
            inner: S,
        }

        impl<S> Layer<S> for $layer {
            type Service = $service<S>;

            fn layer(&self, inner: S) -> $service<S> {
                $service { limit: self.clone(), inner }
            }
        }

        impl<S> Service<LayerRequest> for $service<S>
        where
            S: Service<LayerRequest, Response = LayerResponse> + Clone + Send + 'static,
            S::Error: Into<BoxError>,
            S::Future: Send + 'static,
        {
            type Response = LayerResponse;
            type Error = BoxError;
            type Future = LimitFuture;

            fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
                self.inner.poll_ready(cx).map_err(Into::into)
            }

            fn call(&mut self, request: LayerRequest) -> LimitFuture {
                if request.is_listen() {
                    let answer = self.inner.call(request);
                    return Box::pin(async move { answer.await.map_err(Into::into) });
                }
                self.call_limited(request)
            }
        }
    };
}

limit_service! {
    /// The service of a [`Timeout`].
    Timeout => TimeoutService
}

limit_service! {
    /// The service of a [`ConcurrencyLimit`].
    ConcurrencyLimit => ConcurrencyLimited
}

limit_service! {
    /// The service of a [`RateLimit`].
    RateLimit => RateLimited
}

impl<S> TimeoutService<S>
where
    S: Service<LayerRequest, Response = LayerResponse>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    fn call_limited(&mut self, request: LayerRequest) -> LimitFuture {
        let (limit, answer) = (self.limit.0, self.inner.call(request));
        Box::pin(async move {
            match tokio::time::timeout(limit, answer).await {
                Ok(outcome) => outcome.map_err(Into::into),
                Err(_) => Err(limit_error(format!("The request took longer than {limit:?}"), None).into()),
            }
        })
    }
}

impl<S> ConcurrencyLimited<S>
where
    S: Service<LayerRequest, Response = LayerResponse> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    fn call_limited(&mut self, request: LayerRequest) -> LimitFuture {
        // The ready service moves into the request, so that it starts only when its turn comes.
        let next = self.inner.clone();
        let (permits, mut inner) = (self.limit.0.clone(), std::mem::replace(&mut self.inner, next));
        Box::pin(async move {
            let _permit = permits.acquire_owned().await?;
            inner.call(request).await.map_err(Into::into)
        })
    }
}

impl<S> RateLimited<S>
where
    S: Service<LayerRequest, Response = LayerResponse> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    fn call_limited(&mut self, request: LayerRequest) -> LimitFuture {
        if self.limit.shared {
            let (key, limit) = self.limit.shared_limit(request.principal());
            let connection = &request.parts.connection;
            purge::start(&connection.server.shared);
            let spent = connection.config.store.spend(&key, 1, limit);
            // The ready service moves into the request, so that it starts only if the limit allows it.
            let next = self.inner.clone();
            let mut inner = std::mem::replace(&mut self.inner, next);
            return Box::pin(async move {
                match spent.await {
                    Ok(Ok(())) => inner.call(request).await.map_err(Into::into),
                    Ok(Err(wait)) => Err(limit_error("Too many requests".to_owned(), Some(wait)).into()),
                    Err(error) => {
                        log::error!(error = %Chain(&*error), "a shared rate limit could not be read");
                        let text = "Service unavailable: the rate limit cannot be read now; try again later";
                        Err(RpcError::Other(ErrorObject::new(code::UNAVAILABLE, text)).into())
                    }
                }
            });
        }
        if let Err(wait) = self.limit.acquire(request.principal()) {
            let error = limit_error("Too many requests".to_owned(), Some(wait));
            return Box::pin(std::future::ready(Err(error.into())));
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}

fn limit_error(text: String, wait: Option<Duration>) -> RpcError {
    let error = ErrorObject::new(code::INTERNAL_ERROR, text);
    RpcError::Other(match wait {
        Some(wait) => error.data(&serde_json::json!({"retryAfterMs": wait.as_millis() as u64})),
        None => error,
    })
}
