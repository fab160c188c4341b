//! The bare client over HTTP: one connection per concurrent call, serde_json, and no logic.
//!
//! `bare_pipes` writes and reads the same messages.

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::net::TcpStream;

use crate::worker::EchoClient;
use crate::{BoxError, Era};

pub(crate) struct HyperConnection {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    era: Era,
    last_id: u64,
}

/// One connection for each concurrent call.
pub(crate) async fn connect(url: &str, era: Era, many: usize) -> Result<Vec<HyperConnection>, BoxError> {
    let host = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .ok_or("the URL must begin with `http://`")?;
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::try_from(host)?);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert("mcp-protocol-version", HeaderValue::from_static(era.revision()));
    match era {
        Era::Handshake => {
            let mut first = HyperConnection::open(host, headers.clone(), era).await?;
            let session = first.initialize().await?;
            headers.insert("mcp-session-id", session);
        }
        Era::Stateless => {
            headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
            headers.insert("mcp-name", HeaderValue::from_static("echo"));
        }
    }
    let mut all = Vec::with_capacity(many);
    for _ in 0..many {
        all.push(HyperConnection::open(host, headers.clone(), era).await?);
    }
    Ok(all)
}

impl HyperConnection {
    async fn open(host: &str, headers: HeaderMap, era: Era) -> Result<Self, BoxError> {
        let socket = TcpStream::connect(host).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(socket)).await?;
        // A broken connection fails the call that used it.
        tokio::spawn(async move { connection.await.ok() });
        Ok(Self { sender, headers, era, last_id: 0 })
    }

    /// Opens a session and returns its id.
    async fn initialize(&mut self) -> Result<HeaderValue, BoxError> {
        let (headers, _) = self.post(INITIALIZE.into()).await?;
        let session = headers.get("mcp-session-id").ok_or("no session was opened")?.clone();
        self.headers.insert("mcp-session-id", session.clone());
        self.post(INITIALIZED.into()).await?;
        Ok(session)
    }

    async fn post(&mut self, message: Vec<u8>) -> Result<(HeaderMap, Bytes), BoxError> {
        let mut request = Request::post("/mcp").body(Full::from(message))?;
        *request.headers_mut() = self.headers.clone();
        self.sender.ready().await?;
        let (head, body) = self.sender.send_request(request).await?.into_parts();
        if !head.status.is_success() {
            return Err(head.status.as_str().into());
        }
        Ok((head.headers, body.collect().await?.to_bytes()))
    }
}

impl EchoClient for HyperConnection {
    async fn echo(&mut self, text: String) -> Result<String, BoxError> {
        self.last_id += 1;
        let mut message = Vec::with_capacity(256);
        write_call(&mut message, self.last_id, &text, self.era)?;
        let (_, body) = self.post(message).await?;
        let (id, text) = read_response(&body)?;
        if id != self.last_id {
            return Err("the answer to another call came back".into());
        }
        Ok(text.into_owned())
    }
}

/// Appends a call.
pub(crate) fn write_call(out: &mut Vec<u8>, id: u64, text: &str, era: Era) -> Result<(), BoxError> {
    let meta = match era {
        Era::Handshake => None,
        Era::Stateless => REQUEST_META.as_deref(),
    };
    let params = CallParams { name: "echo", arguments: EchoArguments { text }, meta };
    serde_json::to_writer(out, &Call { jsonrpc: "2.0", id, method: "tools/call", params })?;
    Ok(())
}

/// The id and the text of a response.
pub(crate) fn read_response(bytes: &[u8]) -> Result<(u64, Cow<'_, str>), BoxError> {
    let answer: CallResponse<'_> = serde_json::from_slice(bytes)?;
    let [content] = answer.result.content;
    Ok((answer.id, content.text))
}

#[derive(Serialize)]
struct Call<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: CallParams<'a>,
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'static str,
    arguments: EchoArguments<'a>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct EchoArguments<'a> {
    text: &'a str,
}

#[derive(Deserialize)]
struct CallResponse<'a> {
    id: u64,
    #[serde(borrow)]
    result: CallResult<'a>,
}

#[derive(Deserialize)]
struct CallResult<'a> {
    #[serde(borrow)]
    content: [Content<'a>; 1],
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
static REQUEST_META: LazyLock<Option<Box<RawValue>>> =
    LazyLock::new(|| RawValue::from_string(REQUEST_META_JSON.to_owned()).ok());
pub(crate) const REQUEST_META_JSON: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bare","version":"1"}}"#;
