//! The checks of a request of the stateless era, in order. The first failure is reported.
//!
//! Steps 1 to 5 are here. Steps 6 (params), 8 (capabilities) and 9 (dispatch) belong to the handler of the method, step
//! 7 to [`HeaderParams`](super::super::header::HeaderParams), which needs the schema of the tool.

use super::super::header;
use super::super::request_meta::RequestMeta;
use super::{HttpError, OptionalHeader};
use crate::jsonrpc::Request;
use crate::revision::{Revision, RpcError, canonical_method};

/// The headers that mirror the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MirrorHeaders<'a> {
    /// `Mcp-Method`.
    pub method: OptionalHeader<'a>,
    /// `Mcp-Name`.
    pub name: OptionalHeader<'a>,
}

/// Checks `_meta`, the headers and the method. `offers` returns whether the server has the method and advertises the
/// capability it belongs to.
///
/// The version was compared with its header by [`decide_post`](super::decide_post).
pub fn check_stateless_headers(
    revision: Revision,
    request: &Request<'_>,
    meta: &RequestMeta<'_>,
    headers: &MirrorHeaders<'_>,
    offers: impl FnOnce(&str) -> bool,
) -> Result<(), HttpError> {
    let deny = |status, error| HttpError::new(status, error, revision);
    let mismatch = |text: &'static str, header: &str, expected: &str, received: OptionalHeader<'_>| {
        let error = RpcError::HeaderMismatch(text.into()).with("header", header).with("expected", expected);
        deny(
            400,
            match received {
                OptionalHeader::Present(received) => error.with("received", received),
                OptionalHeader::Absent | OptionalHeader::Ambiguous => error,
            },
        )
    };
    // 1. The client's description of itself.
    meta.check_client_meta().map_err(|error| deny(400, error))?;
    // 2. The version and its header: checked by the decision that led here.
    // 3. `Mcp-Method`. Whitespace around a value is not part of it; case matters.
    let wrong_method = |text| mismatch(text, "Mcp-Method", &request.method, headers.method);
    match headers.method {
        OptionalHeader::Present(method) if method.trim_ascii() == request.method => {}
        OptionalHeader::Absent => return Err(wrong_method("`Mcp-Method` is missing")),
        _ => return Err(wrong_method("`Mcp-Method` differs from the method in the body")),
    }
    // 4. `Mcp-Name`, if the method has one. If the body lacks it, step 6 reports that.
    let method = canonical_method(&request.method);
    if let Some(Some(name)) = meta.mcp_name(method) {
        let wrong_name = |text| mismatch(text, "Mcp-Name", name, headers.name);
        match headers.name {
            OptionalHeader::Absent => return Err(wrong_name("`Mcp-Name` is missing")),
            OptionalHeader::Present(value) if header::decode(value).as_deref() == Some(name) => {}
            _ => return Err(wrong_name("`Mcp-Name` differs from the name in the body")),
        }
    }
    // 5. The method: known to the protocol here, or the server's own.
    if revision.is_unavailable_method(method) || !offers(method) {
        return Err(deny(404, RpcError::MethodNotFound { method: method.to_owned() }));
    }
    Ok(())
}
