//! The body of a request, read within its limits of size and time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;

/// Why a body was not read.
pub(super) enum RequestBodyError {
    TooLarge,
    Timeout,
    Incomplete,
}

/// A body that is being read. One that is there already is neither copied nor timed.
pub(super) struct RequestBodyReader {
    first_chunk: Bytes,
    /// What has come, if that was more than one piece.
    buffer: Option<BytesMut>,
    max_bytes: usize,
}

impl RequestBodyReader {
    /// Fails if it says itself that it is too large.
    pub(super) fn new<B: Body>(body: &B, most: usize) -> Result<Self, RequestBodyError> {
        match body.size_hint().lower() > most as u64 {
            true => Err(RequestBodyError::TooLarge),
            false => Ok(Self { first_chunk: Bytes::new(), buffer: None, max_bytes: most }),
        }
    }

    /// Reads on.
    pub(super) async fn read_to_end<B: Body + Unpin>(
        mut self,
        mut body: B,
        within: Duration,
    ) -> Result<Bytes, RequestBodyError> {
        let read = poll_fn(|cx| self.poll(Pin::new(&mut body), cx));
        tokio::time::timeout(within, read).await.unwrap_or(Err(RequestBodyError::Timeout))
    }

    fn take_bytes(&mut self) -> Bytes {
        self.buffer.take().map_or_else(|| std::mem::take(&mut self.first_chunk), BytesMut::freeze)
    }

    pub(super) fn poll<B: Body>(
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
            let so_far = self.buffer.as_ref().map_or(self.first_chunk.len(), BytesMut::len);
            if so_far + length > self.max_bytes {
                return Poll::Ready(Err(RequestBodyError::TooLarge));
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
            // Most bodies say their length: there is no need to ask for more.
            if body.is_end_stream() {
                return Poll::Ready(Ok(self.take_bytes()));
            }
        }
    }
}
