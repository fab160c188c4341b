//! Streamable HTTP: one endpoint for every revision; and HTTP+SSE, the transport of 2024-11-05, on two paths of its own.
//!
//! [`Http`] holds the settings, [`HttpService`] is a server as a `tower` service, and [`HttpListener`] is a server with a
//! socket. The guide [HTTP](crate::guide::http) explains them with examples.

// - `service`: the stages of a request, one function per method. Start reading here.
// - `request_head`, `client_address`, `headers`, `named_session`, `access`, `web_origin`, `public_url`, `authorization`, `request_body`: the parts of a request and
//   their checks.
// - `post`, `get`, `http_sse_endpoints`: decide and dispatch. `post_response`, `responses`: the response.
// - `exchange`: a request whose handler is running. `sse_body`: event streams. `event_stream`: events that can be resumed.
// - `stream_scopes`: the scopes that requests and resumed streams need.
// - `sessions`, `http_sse_sessions`: the tables of sessions. `http_state`: the state that all connections share.
// - `resource_metadata`, `side_services`: what is served beside the endpoint. `listener`, `unix_listener`: sockets. `accept_loop`, `connections`: connections and their timeouts. `only_http1` or `with_http2`, `tls` or `no_tls`: protocols of a
//   connection, by cargo feature.

mod accept_loop;
mod access;
mod authorization;
mod client_address;
mod connections;
#[cfg(unix)]
mod descriptor_limit;
#[cfg(not(unix))]
#[path = "no_descriptor_limit.rs"]
mod descriptor_limit;
mod event_logs;
mod event_stream;
mod exchange;
mod forwarding;
mod get;
mod headers;
mod http_settings;
mod http_sse_endpoints;
mod http_sse_sessions;
mod http_state;
mod in_flight_record;
mod listener;
mod log_follower;
mod log_writer;
mod maybe_ready;
mod named_session;
#[cfg(not(feature = "tls"))]
mod no_tls;
#[cfg(not(feature = "http2"))]
mod only_http1;
mod post;
mod post_response;
mod public_url;
mod push_log;
mod push_writer;
#[cfg(test)]
mod record_versions;
mod replica_messages;
mod request_body;
mod request_head;
mod resource_metadata;
mod response_body;
mod responses;
mod resumable;
mod service;
mod sessions;
mod shared_get;
mod shared_session;
mod shared_sessions;
mod side_services;
mod sse_body;
mod stored_scopes;
mod stream_scopes;
mod take_up;
#[cfg(feature = "tls")]
mod tls;
#[cfg(unix)]
mod unix_listener;
mod waiting_calls;
mod waiting_record;
mod web_origin;
#[cfg(feature = "http2")]
mod with_http2;
mod withdrawn_calls;

#[cfg(not(feature = "tls"))]
use no_tls as tls;
#[cfg(not(feature = "http2"))]
use only_http1 as hyper_connection;
#[cfg(feature = "http2")]
use with_http2 as hyper_connection;

pub use authorization::{
    ProtectedResource, StaticToken, TokenRequest, TokenScheme, Verified, VerifiedProof, VerifyError,
    VerifyErrorKind, VerifyFuture, VerifyToken,
};
pub use client_address::ClientAddr;
pub use http_settings::{Http, HttpSsePaths, PageRequest};
pub use listener::HttpListener;
pub use resource_metadata::ResourceMetadataService;
pub use response_body::HttpBody;
pub use service::HttpService;
#[cfg(unix)]
pub use unix_listener::HttpUnixListener;

use std::sync::Arc;

use crate::Server;

/// The HTTP settings of a server.
#[derive(Clone)]
struct HttpSettings {
    http: Arc<Http>,
    verifier: Option<Arc<dyn VerifyToken>>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self { http: Arc::new(Http::new()), verifier: None }
    }
}

impl Server {
    /// Sets how the server is served over HTTP.
    #[must_use]
    pub fn http(self, http: Http) -> Self {
        self.configure(|config| {
            config.http.update(|settings: &mut HttpSettings| settings.http = Arc::new(http))
        })
    }

    /// Serves only requests with an access token that the verifier accepts, over HTTP, and calls handlers with its owner as
    /// the [`Principal`](crate::server::Principal).
    ///
    /// Other requests get 401 before their body is read. The health path, the page, and services beside the endpoint need no
    /// token. A second verifier replaces the first. Other transports have callers of their own
    /// ([`Server::stdio_principal`]).
    ///
    /// ```
    /// use tsugite::prelude::*;
    /// use tsugite::transport::http::StaticToken;
    ///
    /// let server = Server::new("notes", "1.0.0").authorize(StaticToken::new("s3cret", Principal::new("ann")));
    /// # let _ = server;
    /// ```
    #[must_use]
    #[doc(alias("auth", "authenticate", "bearer", "token", "OAuth", "AuthSettings", "token_verifier"))]
    pub fn authorize(self, verifier: impl VerifyToken) -> Self {
        let verifier: Arc<dyn VerifyToken> = Arc::new(verifier);
        self.configure(|config| {
            config.http.update(|settings: &mut HttpSettings| settings.verifier = Some(verifier))
        })
    }
}
