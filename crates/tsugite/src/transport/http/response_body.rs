//! The body of a response: complete from the start, or an event stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::connections::RequestGuard;
use super::sse_body::{EndedSseBody, ExpiringSseBody, SseBody};
use crate::server::token_expiry::TokenWatch;

/// The body of a response: bytes, or an event stream. Bodies of [other services](super::Http::route_service) are made from
/// bytes or text.
pub struct HttpBody(BodyKind);

enum BodyKind {
    Full(Bytes),
    /// A complete body on HTTP/2, whose client may not take it.
    Guarded {
        bytes: Bytes,
        _guard: RequestGuard,
    },
    Sse(Box<dyn SseBody>, Option<RequestGuard>),
}

impl HttpBody {
    pub(super) fn empty() -> Self {
        Self::full(Bytes::new())
    }

    pub(super) fn full(bytes: impl Into<Bytes>) -> Self {
        Self(BodyKind::Full(bytes.into()))
    }

    pub(super) fn sse(events: impl SseBody + 'static) -> Self {
        Self(BodyKind::Sse(Box::new(events), None))
    }

    /// Ends an event stream when the token of its caller has expired.
    pub(super) fn end_with_token(&mut self, watch: TokenWatch) {
        if let BodyKind::Sse(events, _) = &mut self.0 {
            let inner = std::mem::replace(events, Box::new(EndedSseBody));
            *events = Box::new(ExpiringSseBody::new(inner, watch));
        }
    }

    /// Keeps the connection marked as busy until an event stream ends, or on HTTP/2 until a body was taken. Other bodies are
    /// complete already.
    pub(super) fn attach_guard(&mut self, guard: RequestGuard) {
        match &mut self.0 {
            BodyKind::Sse(_, slot) => *slot = Some(guard),
            BodyKind::Full(bytes) if guard.is_multiplexed() && !bytes.is_empty() => {
                self.0 = BodyKind::Guarded { bytes: std::mem::take(bytes), _guard: guard };
            }
            BodyKind::Full(_) | BodyKind::Guarded { .. } => {}
        }
    }
}

impl<T: Into<Bytes>> From<T> for HttpBody {
    fn from(bytes: T) -> Self {
        Self::full(bytes)
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            BodyKind::Full(bytes) | BodyKind::Guarded { bytes, .. } if bytes.is_empty() => Poll::Ready(None),
            BodyKind::Full(bytes) | BodyKind::Guarded { bytes, .. } => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            BodyKind::Sse(events, guard) => {
                if let Some(guard) = guard {
                    guard.mark_polled();
                }
                events.poll_events(cx).map(|events| events.map(|events| Ok(Frame::data(events))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Full(bytes) | BodyKind::Guarded { bytes, .. } => bytes.is_empty(),
            BodyKind::Sse(events, _) => events.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Full(bytes) | BodyKind::Guarded { bytes, .. } => {
                SizeHint::with_exact(bytes.len() as u64)
            }
            BodyKind::Sse(..) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpBody").finish_non_exhaustive()
    }
}
