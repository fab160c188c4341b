//! The body of a request, read within its limits of size and time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body::Body;

use super::http_state::HttpState;
use super::maybe_ready::MaybeReady;
use super::request_head::RequestHead;
use super::response_body::HttpBody;
use super::responses::StatusError;
use crate::server::limits::{LimitError, LimitPermit};

/// Reads a body. A body that has arrived already is neither copied nor timed.
pub(super) fn read_body<B>(
    mut body: B,
    state: &HttpState,
    head: &RequestHead,
    cx: &mut Context<'_>,
) -> MaybeReady<Result<Bytes, StatusError>>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    let mut reader = match RequestBodyReader::new(&body, state.config.limits.max_message_bytes) {
        Ok(reader) => reader,
        Err(error) => return MaybeReady::Ready(Err(error.into())),
    };
    if let Poll::Ready(read) = reader.poll(Pin::new(&mut body), cx) {
        return MaybeReady::Ready(read.map_err(StatusError::from));
    }
    // From now on the bytes that have arrived are counted: the rest may come late or never.
    match state.limits.acquire(head.caller_key(), None, reader.len()) {
        Ok(permit) => reader.permit = Some(permit),
        Err(error) => return MaybeReady::Ready(Err(error.into())),
    }
    let timeout = state.http.body_read_timeout;
    MaybeReady::pending(async move { reader.read_to_end(body, timeout).await.map_err(StatusError::from) })
}

/// Reads and discards the body of a request that is refused before its body, then returns the response.
///
/// A connection with unread bytes is closed after the response, and a client that has begun its next request there would
/// see it fail. A body that is long or late is not waited for, and neither is one that its client holds back (`Expect`).
pub(super) fn discard_body<B>(
    mut body: B,
    is_held_back: bool,
    response: Response<HttpBody>,
) -> MaybeReady<Response<HttpBody>>
where
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
{
    if is_held_back || body.is_end_stream() {
        return MaybeReady::Ready(response);
    }
    MaybeReady::pending(async move {
        let discard = async {
            let mut left = MAX_DISCARDED_BYTES;
            while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Buf::remaining));
                if left == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(DISCARD_TIMEOUT, discard).await;
        response
    })
}

const MAX_DISCARDED_BYTES: usize = 64 << 10;
const DISCARD_TIMEOUT: Duration = Duration::from_millis(100);

/// Why a body was not read.
enum RequestBodyError {
    /// The body has more bytes than the limit.
    TooLarge(usize),
    Timeout,
    Incomplete,
    Limit(LimitError),
}

impl From<RequestBodyError> for StatusError {
    fn from(error: RequestBodyError) -> Self {
        match error {
            RequestBodyError::TooLarge(limit) => StatusError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "Content too large: the body is over the limit of this server",
            )
            .limit(limit),
            RequestBodyError::Timeout => {
                StatusError::new(StatusCode::REQUEST_TIMEOUT, "The body took too long to arrive")
            }
            RequestBodyError::Limit(error) => error.into(),
            RequestBodyError::Incomplete => {
                StatusError::new(StatusCode::BAD_REQUEST, "The body ended before it was whole")
            }
        }
    }
}

/// The part of a body that has arrived.
struct RequestBodyReader {
    first_chunk: Bytes,
    /// All chunks, if there was more than one.
    buffer: Option<BytesMut>,
    max_bytes: usize,
    /// Counts the bytes of a body that is not complete.
    permit: Option<LimitPermit>,
}

impl RequestBodyReader {
    /// Fails if the length that the body declares is over the limit.
    fn new<B: Body>(body: &B, max_bytes: usize) -> Result<Self, RequestBodyError> {
        match body.size_hint().lower() > max_bytes as u64 {
            true => Err(RequestBodyError::TooLarge(max_bytes)),
            false => Ok(Self { first_chunk: Bytes::new(), buffer: None, max_bytes, permit: None }),
        }
    }

    /// Reads the rest.
    async fn read_to_end<B: Body + Unpin>(
        mut self,
        mut body: B,
        timeout: Duration,
    ) -> Result<Bytes, RequestBodyError> {
        let read = poll_fn(|cx| self.poll(Pin::new(&mut body), cx));
        tokio::time::timeout(timeout, read).await.unwrap_or(Err(RequestBodyError::Timeout))
    }

    fn len(&self) -> usize {
        self.buffer.as_ref().map_or(self.first_chunk.len(), BytesMut::len)
    }

    fn take_bytes(&mut self) -> Bytes {
        self.buffer.take().map_or_else(|| std::mem::take(&mut self.first_chunk), BytesMut::freeze)
    }

    fn poll<B: Body>(
        &mut self,
        mut body: Pin<&mut B>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, RequestBodyError>> {
        loop {
            let frame = match body.as_mut().poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(self.take_bytes())),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(RequestBodyError::Incomplete)),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            let Ok(mut data) = frame.into_data() else { continue };
            let length = data.remaining();
            if self.len() + length > self.max_bytes {
                return Poll::Ready(Err(RequestBodyError::TooLarge(self.max_bytes)));
            }
            if let Some(permit) = &mut self.permit
                && let Err(error) = permit.grow(length)
            {
                return Poll::Ready(Err(RequestBodyError::Limit(error)));
            }
            match &mut self.buffer {
                None if self.first_chunk.is_empty() => self.first_chunk = data.copy_to_bytes(length),
                None => {
                    let mut whole = BytesMut::from(self.first_chunk.as_ref());
                    whole.extend_from_slice(&data.copy_to_bytes(length));
                    self.buffer = Some(whole);
                }
                Some(whole) => whole.extend_from_slice(&data.copy_to_bytes(length)),
            }
            // Most bodies declare their length, so the end is known without another poll.
            if body.is_end_stream() {
                return Poll::Ready(Ok(self.take_bytes()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body::Frame;
    use tokio::time::{Instant, Sleep};

    use super::super::responses::empty;
    use super::*;

    /// A body of three chunks, each of which arrives after a pause.
    struct SlowBody {
        pause: Duration,
        sleep: Pin<Box<Sleep>>,
        chunks: usize,
        read: Arc<AtomicUsize>,
    }

    impl SlowBody {
        fn new(pause: Duration) -> (Self, Arc<AtomicUsize>) {
            let read = Arc::<AtomicUsize>::default();
            let sleep = Box::pin(tokio::time::sleep(pause));
            (Self { pause, sleep, chunks: 3, read: read.clone() }, read)
        }
    }

    impl Body for SlowBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.chunks == 0 {
                return Poll::Ready(None);
            }
            std::task::ready!(self.sleep.as_mut().poll(cx));
            let next = Instant::now() + self.pause;
            self.sleep.as_mut().reset(next);
            self.chunks -= 1;
            self.read.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"chunk")))))
        }
    }

    async fn chunks_read(pause: Duration, is_held_back: bool) -> usize {
        let (body, read) = SlowBody::new(pause);
        let response = discard_body(body, is_held_back, empty(StatusCode::UNAUTHORIZED)).wait().await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        read.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn refused_body_is_read_if_it_arrives_soon() {
        assert_eq!(chunks_read(Duration::from_millis(10), false).await, 3);
        assert_eq!(chunks_read(Duration::from_secs(3600), false).await, 0);
        assert_eq!(chunks_read(Duration::from_millis(10), true).await, 0);
    }
}
