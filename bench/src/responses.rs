//! The responses of the bare server: prepared bytes, except for the id and the echoed text.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Appends the response to a message. Returns false for a message that gets none.
pub(crate) fn write_response(message: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(request) = serde_json::from_slice::<IncomingRequest<'_>>(message) else { return false };
    let Some(id) = request.id else { return false };
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.get().as_bytes());
    let params = request.params.unwrap_or_default();
    match request.method {
        INITIALIZE => out.extend_from_slice(INITIALIZE_RESULT),
        "server/discover" => out.extend_from_slice(DISCOVER_RESULT),
        "tools/list" => out.extend_from_slice(LIST_RESULT),
        "tools/call" => {
            let stateless = params.meta.is_some_and(|meta| meta.revision.is_some());
            out.extend_from_slice(if stateless { STATELESS_CALL_RESULT_PREFIX } else { CALL_RESULT_PREFIX });
            out.extend_from_slice(params.arguments.map_or("\"\"", |echo| echo.text.get()).as_bytes());
            out.extend_from_slice(CALL_RESULT_SUFFIX);
        }
        _ => out.extend_from_slice(METHOD_NOT_FOUND),
    }
    true
}

#[derive(Deserialize)]
struct IncomingRequest<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<IncomingParams<'a>>,
}

#[derive(Deserialize, Default)]
struct IncomingParams<'a> {
    #[serde(borrow)]
    arguments: Option<IncomingArguments<'a>>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<IncomingMeta<'a>>,
}

#[derive(Deserialize)]
struct IncomingArguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
struct IncomingMeta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    revision: Option<&'a RawValue>,
}

pub(crate) const INITIALIZE: &str = "initialize";
const INITIALIZE_RESULT: &[u8] = br#","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare","version":"1"}}}"#;
const DISCOVER_RESULT: &[u8] = br#","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bare","version":"1"}}}}"#;
const LIST_RESULT: &[u8] = br#","result":{"resultType":"complete","tools":[{"name":"echo","description":"Gives the text back.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}],"ttlMs":0,"cacheScope":"private"}}"#;
const CALL_RESULT_PREFIX: &[u8] = br#","result":{"content":[{"type":"text","text":"#;
const STATELESS_CALL_RESULT_PREFIX: &[u8] =
    br#","result":{"resultType":"complete","content":[{"type":"text","text":"#;
const CALL_RESULT_SUFFIX: &[u8] = br#"}],"isError":false}}"#;
const METHOD_NOT_FOUND: &[u8] = br#","error":{"code":-32601,"message":"unknown method"}}"#;
