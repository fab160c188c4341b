//! Streamable HTTP: one endpoint for every revision; and HTTP+SSE, the transport of 2024-11-05, on two paths of its own.
//!
//! [`Http`] holds the settings, [`HttpService`] is a server as a `tower` service, and [`HttpListener`] is a server with a
//! socket. The guide [HTTP](crate::guide::http) explains them with examples.

// - `service`: the stages of a request, one function per method. Start reading here.
// - `request_head`, `client_address`, `headers`, `named_session`, `access`, `web_origin`, `authentication`, `token_verifier`, `request_body`: the parts of a request and
//   their checks.
// - `post`, `get`, `http_sse_endpoints`: decide and dispatch. `post_response`, `responses`: the response.
// - `exchange`: a request whose handler is running. `sse_body`: event streams. `event_stream`: events that can be resumed.
// - `sessions`, `http_sse_sessions`: the tables of sessions. `http_state`: the state that all connections share.
// - `listener`, `unix_listener`: sockets. `accept_loop`, `connections`: connections and their timeouts. `only_http1` or `with_http2`, `tls` or `no_tls`: protocols of a
//   connection, by cargo feature.

mod accept_loop;
mod access;
mod authentication;
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
mod push_log;
#[cfg(test)]
mod record_versions;
mod replica_messages;
mod request_body;
mod request_head;
mod response_body;
mod responses;
mod resumable;
mod service;
mod sessions;
mod shared_get;
mod shared_session;
mod shared_sessions;
mod sse_body;
mod take_up;
#[cfg(feature = "tls")]
mod tls;
mod token_verifier;
#[cfg(unix)]
mod unix_listener;
mod waiting_calls;
mod waiting_record;
mod web_origin;
#[cfg(feature = "http2")]
mod with_http2;

#[cfg(not(feature = "tls"))]
use no_tls as tls;
#[cfg(not(feature = "http2"))]
use only_http1 as hyper_connection;
#[cfg(feature = "http2")]
use with_http2 as hyper_connection;

pub use client_address::ClientAddr;
pub use http_settings::{Http, HttpSsePaths, PageRequest};
pub use listener::HttpListener;
pub use response_body::HttpBody;
pub use service::HttpService;
pub use token_verifier::{StaticToken, VerifyError, VerifyFuture, VerifyToken};
#[cfg(unix)]
pub use unix_listener::HttpUnixListener;

use std::sync::Arc;

use crate::Server;

/// The HTTP settings of a server.
#[derive(Clone)]
struct HttpSettings {
    http: Arc<Http>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self { http: Arc::new(Http::new()) }
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
}
