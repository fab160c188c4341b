//! Bodies: what is read of a request, and what is sent.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use super::events::Events;
use super::guests::Visit;

/// The body of a response.
pub struct HttpBody(Inner);

enum Inner {
    Whole(Bytes),
    Events(Box<dyn Events>, Option<Visit>),
}

impl HttpBody {
    pub(super) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(bytes.into()))
    }

    pub(super) fn events(events: impl Events + 'static) -> Self {
        Self(Inner::Events(Box::new(events), None))
    }

    /// What is not there yet belongs to the visit as well.
    pub(super) fn keep(&mut self, visit: Visit) {
        if let Inner::Events(_, kept) = &mut self.0 {
            *kept = Some(visit);
        }
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
            Inner::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Inner::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Inner::Events(events, _) => {
                events.poll_events(cx).map(|events| events.map(|events| Ok(Frame::data(events))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Whole(bytes) => bytes.is_empty(),
            Inner::Events(events, _) => events.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Events(..) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpBody").finish_non_exhaustive()
    }
}

/// Why a body was not read.
pub(super) enum Unread {
    TooLarge,
    TooSlow,
    Broken,
}

/// A body that is being read. One that is there already is neither copied nor timed.
pub(super) struct Reading {
    first: Bytes,
    /// What has come, if that was more than one piece.
    rest: Option<BytesMut>,
    most: usize,
}

impl Reading {
    /// Fails if it says itself that it is too large.
    pub(super) fn begin<B: Body>(body: &B, most: usize) -> Result<Self, Unread> {
        match body.size_hint().lower() > most as u64 {
            true => Err(Unread::TooLarge),
            false => Ok(Self { first: Bytes::new(), rest: None, most }),
        }
    }

    /// Reads on.
    pub(super) async fn rest<B: Body + Unpin>(
        mut self,
        mut body: B,
        within: Duration,
    ) -> Result<Bytes, Unread> {
        let read = poll_fn(|cx| self.poll(Pin::new(&mut body), cx));
        tokio::time::timeout(within, read).await.unwrap_or(Err(Unread::TooSlow))
    }

    fn whole(&mut self) -> Bytes {
        self.rest.take().map_or_else(|| std::mem::take(&mut self.first), BytesMut::freeze)
    }

    pub(super) fn poll<B: Body>(
        &mut self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Unread>> {
        loop {
            let frame = match body.as_mut().poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(self.whole())),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Unread::Broken)),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            let Ok(mut data) = frame.into_data() else { continue };
            let length = data.remaining();
            let so_far = self.rest.as_ref().map_or(self.first.len(), BytesMut::len);
            if so_far + length > self.most {
                return Poll::Ready(Err(Unread::TooLarge));
            }
            match &mut self.rest {
                None if self.first.is_empty() => self.first = data.copy_to_bytes(length),
                None => {
                    let mut whole = BytesMut::from(self.first.as_ref());
                    whole.extend_from_slice(&data.copy_to_bytes(length));
                    self.rest = Some(whole);
                }
                Some(whole) => whole.extend_from_slice(&data.copy_to_bytes(length)),
            }
            // Most bodies say their length: there is no need to ask for more.
            if body.is_end_stream() {
                return Poll::Ready(Ok(self.whole()));
            }
        }
    }
}
