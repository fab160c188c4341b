//! Streamable HTTP: one endpoint for every revision, and on two paths of its own the transport of 2024-11-05.
//!
//! - [`Http`]: settings. [`HttpService`]: the server as a `tower` service. [`HttpListener`]: the same with a socket.
//! - `door`: who is let in. `post`, `get`, `sse`: what a request wants. `answer`: responses that are whole.
//! - `events`: responses that are streams; a handler runs inside the body that carries what it says. `track`: streams that
//!   can be taken up again.
//! - `only_http1` or `with_http2`, and `tls` or `no_tls`: what a connection speaks, by cargo feature.
//! - `guests`: the connections of a listener. `session`: who was here before. `hub`: what all connections share.

mod access;
mod connections;
mod event_stream;
mod get;
mod http_settings;
mod http_sse_endpoints;
mod http_state;
mod listener;
#[cfg(not(feature = "tls"))]
mod no_tls;
#[cfg(not(feature = "http2"))]
mod only_http1;
mod post;
mod response_body;
mod responses;
mod service;
mod sessions;
mod sse_body;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "http2")]
mod with_http2;

#[cfg(not(feature = "tls"))]
use no_tls as tls;
#[cfg(not(feature = "http2"))]
use only_http1 as hyper_connection;
#[cfg(feature = "http2")]
use with_http2 as hyper_connection;

pub use http_settings::{Http, HttpSsePaths};
pub use listener::HttpListener;
pub use response_body::HttpBody;
pub use service::HttpService;

use std::sync::Arc;

use crate::Server;
use crate::store::{MemoryStore, Store};

/// What a server keeps for this transport.
#[derive(Clone)]
struct HttpSettings {
    http: Arc<Http>,
    store: Arc<dyn Store>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self { http: Arc::new(Http::new()), store: Arc::new(MemoryStore::new()) }
    }
}

impl Server {
    /// Sets how it is served over HTTP.
    #[must_use]
    pub fn http(self, http: Http) -> Self {
        self.configure(|config| {
            config.http.update(|settings: &mut HttpSettings| settings.http = Arc::new(http))
        })
    }

    /// Where sessions and the events of streams are kept; in memory unless told.
    #[must_use]
    pub fn store(self, store: impl Store) -> Self {
        self.configure(|config| {
            config.http.update(|settings: &mut HttpSettings| settings.store = Arc::new(store))
        })
    }
}
