//! Reads a response body up to a size limit.

use std::future::poll_fn;
use std::pin::Pin;

use http_body::Body;
use hyper::body::Incoming;

/// Reads the whole body; `None` if it is larger than `max_bytes`.
pub(super) async fn read_limited(
    body: &mut Incoming,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>, hyper::Error> {
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        let Ok(data) = frame?.into_data() else { continue };
        if all.len() + data.len() > max_bytes {
            return Ok(None);
        }
        all.extend_from_slice(&data);
    }
    Ok(Some(all))
}
