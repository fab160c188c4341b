//! Where a server is served: at an address, or on standard input and output.

use std::net::SocketAddr;

use tsugite::Server;
use tsugite::transport::http::Http;

use crate::fail::{Exit, Failure, Result};
use crate::page::Live;
use crate::screen::Screen;
use crate::signals;

/// Where a server is served.
pub(crate) struct Door {
    /// The address; none is standard input and output.
    pub(crate) listen: Option<String>,
    /// Hosts that requests may name.
    pub(crate) hosts: Vec<String>,
}

impl Door {
    /// Serves until somebody wants it to stop, or until the only client is gone; then comes `after`. Whoever presses Ctrl-C
    /// does not wait for long for either.
    pub(crate) async fn serve(
        self,
        server: Server,
        what: &str,
        page: Option<Live>,
        after: impl Future<Output = ()>,
    ) -> Result<()> {
        let enough = signals::enough();
        let served = async {
            let outcome = self.serve_in_peace(server, what, page).await;
            after.await;
            outcome
        };
        tokio::select! {
            biased;
            outcome = served => outcome,
            () = enough => Ok(()),
        }
    }

    async fn serve_in_peace(self, server: Server, what: &str, page: Option<Live>) -> Result<()> {
        let broken = |error: tsugite::Error| {
            Failure::new(Exit::Connect, "the server cannot go on").at("serve").seen(error.to_string())
        };
        // From the first moment on: what was started ends with us.
        let stop = signals::asked_to_stop();
        let Some(listen) = self.listen else { return server.serve_stdio().await.map_err(broken) };
        let addresses: Vec<SocketAddr> = match tokio::net::lookup_host(&listen).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let failure = Failure::usage(format!("--listen {listen}: {error}"));
                return Err(failure.hint("an address is HOST:PORT, such as 127.0.0.1:8808"));
            }
        };
        // For clients of 2024-11-05.
        let mut http = Http::new().http_sse();
        let has_page = page.is_some();
        if let Some(page) = page {
            page.change(|about| about.is_open = addresses.iter().any(|address| !address.ip().is_loopback()));
            http = http.page("/", move |host| page.page(host));
        }
        let http = self.hosts.into_iter().fold(http, Http::allow_host);
        let listener = server.http(http).bind_http(addresses.as_slice()).await.map_err(|error| {
            Failure::new(Exit::Connect, format!("cannot listen at {listen}"))
                .at("listen")
                .seen(error.to_string())
                .hint("--listen 127.0.0.1:0 takes a port that is free")
        })?;
        let local = listener.local_addr();
        let shown = match local.ip().is_unspecified() {
            true => SocketAddr::from(([127, 0, 0, 1], local.port())),
            false => local,
        };
        let screen = Screen::new(false);
        // Whoever does not read the address wants to be served all the same.
        let _ = screen.line(&format!("http://{shown}/mcp"));
        screen.note(&match has_page {
            true => format!("{what}, for every revision; http://{shown}/ says how to connect"),
            false => format!("{what}, for every revision"),
        });
        if !local.ip().is_loopback() {
            screen.note("anybody who can reach this address can use the server");
        }
        listener.serve_until(stop).await.map_err(broken)
    }
}
