//! Where a server is served: at an address, or on standard input and output.

use std::net::SocketAddr;

use tsugite::Server;
use tsugite::transport::http::Http;

use crate::console::Console;
use crate::error::{CliError, ExitStatus, Result};
use crate::page::SharedStartPage;
use crate::signals;

/// Where a server is served.
pub(crate) struct ServeOptions {
    /// The address; none is standard input and output.
    pub(crate) listen: Option<String>,
    /// Hosts that requests may name.
    pub(crate) allowed_hosts: Vec<String>,
}

impl ServeOptions {
    /// Serves until somebody wants it to stop, or until the only client is gone; then comes `after`. Whoever presses Ctrl-C
    /// does not wait for long for either.
    pub(crate) async fn serve(
        self,
        server: Server,
        what: &str,
        page: Option<SharedStartPage>,
        after: impl Future<Output = ()>,
    ) -> Result<()> {
        let enough = signals::interrupt_grace_elapsed();
        let served = async {
            let outcome = self.serve_until_signal(server, what, page).await;
            after.await;
            outcome
        };
        tokio::select! {
            biased;
            outcome = served => outcome,
            () = enough => Ok(()),
        }
    }

    async fn serve_until_signal(
        self,
        server: Server,
        what: &str,
        page: Option<SharedStartPage>,
    ) -> Result<()> {
        let broken = |error: tsugite::Error| {
            CliError::new(ExitStatus::Connect, "the server cannot go on")
                .at_step("serve")
                .detail(error.to_string())
        };
        // From the first moment on: what was started ends with us.
        let stop = signals::shutdown_requested();
        let Some(listen) = self.listen else { return server.serve_stdio().await.map_err(broken) };
        let addresses: Vec<SocketAddr> = match tokio::net::lookup_host(&listen).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let failure = CliError::usage(format!("--listen {listen}: {error}"));
                return Err(failure.hint("an address is HOST:PORT, such as 127.0.0.1:8808"));
            }
        };
        // For clients of 2024-11-05.
        let mut http = Http::new().http_sse();
        let has_page = page.is_some();
        if let Some(page) = page {
            page.update(|about| {
                about.is_public = addresses.iter().any(|address| !address.ip().is_loopback())
            });
            http = http.page("/", move |host| page.render(host));
        }
        let http = self.allowed_hosts.into_iter().fold(http, Http::allow_host);
        let listener = server.http(http).bind_http(addresses.as_slice()).await.map_err(|error| {
            CliError::new(ExitStatus::Connect, format!("cannot listen at {listen}"))
                .at_step("listen")
                .detail(error.to_string())
                .hint("--listen 127.0.0.1:0 takes a port that is free")
        })?;
        let local = listener.local_addr();
        let shown = match local.ip().is_unspecified() {
            true => SocketAddr::from(([127, 0, 0, 1], local.port())),
            false => local,
        };
        let screen = Console::new(false);
        // Whoever does not read the address wants to be served all the same.
        let _ = screen.print_line(&format!("http://{shown}/mcp"));
        screen.note(&match has_page {
            true => format!("{what}, for every revision; http://{shown}/ says how to connect"),
            false => format!("{what}, for every revision"),
        });
        if !local.ip().is_loopback() {
            screen.note("anybody who can reach this address can use the server");
        }
        raise_trim_threshold();
        listener.serve_until(stop).await.map_err(broken)
    }
}

/// Makes glibc keep freed memory for the next large response.
///
/// By default it returns free memory at the end of its heap to the kernel from 128 KiB on, and requests it again for the
/// next response. Freeing one larger block raises that threshold to twice the size of the block.
fn raise_trim_threshold() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(512 << 10)));
}
