//! Serves a server at an address, or on standard input and output.

use std::net::SocketAddr;

use clap::Args;
use tsugite::Server;
use tsugite::transport::http::Http;

use crate::console::Console;
use crate::error::{CliError, ExitStatus, Result};
use crate::page::{self, SharedStartPage};
use crate::signals;
use crate::unix_socket;

/// The options for serving a server.
pub(crate) struct ServeOptions {
    /// `HOST:PORT` or `unix:PATH`; `None` is standard input and output.
    pub(crate) listen: Option<String>,
    pub(crate) http: HttpOptions,
}

/// The options for serving over HTTP.
#[derive(Debug, Args)]
pub(crate) struct HttpOptions {
    /// Also accept requests for this host name; loopback names and the address itself are always accepted
    #[arg(long = "allow-host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Also accept requests of web pages of this origin, such as https://app.example; loopback origins always are
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    origins: Vec<String>,
    /// Serve at this path
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    path: String,
    /// Give clients up to 2025-11-25 no sessions: each request stands alone, and the server cannot ask
    #[arg(long)]
    no_sessions: bool,
    /// Do not serve HTTP+SSE, the transport of 2024-11-05, at /sse
    #[arg(long)]
    no_sse: bool,
}

impl HttpOptions {
    /// The defaults, with these allowed hosts.
    pub(crate) fn with_hosts(hosts: Vec<String>) -> Self {
        let path = "/mcp".to_owned();
        Self { hosts, origins: Vec::new(), path, no_sessions: false, no_sse: false }
    }

    fn settings(&self) -> Http {
        let mut http = Http::new().path(&self.path).sessions(!self.no_sessions);
        if !self.no_sse {
            http = http.http_sse();
        }
        let http = self.hosts.iter().fold(http, Http::allow_host);
        self.origins.iter().fold(http, Http::allow_origin)
    }
}

impl ServeOptions {
    /// Serves until a signal asks to stop, or until the client on standard input is gone; then runs `after`. Ctrl-C ends
    /// both after a short grace period, a second signal at once.
    pub(crate) async fn serve(
        self,
        server: Server,
        description: &str,
        page: Option<SharedStartPage>,
        after: impl Future<Output = ()>,
    ) -> Result<()> {
        let grace_elapsed = signals::grace_elapsed();
        let served = async {
            let outcome = self.serve_until_signal(server, description, page).await;
            after.await;
            outcome
        };
        tokio::select! {
            biased;
            outcome = served => outcome,
            () = grace_elapsed => Ok(()),
        }
    }

    async fn serve_until_signal(
        self,
        server: Server,
        description: &str,
        page: Option<SharedStartPage>,
    ) -> Result<()> {
        let serve_error = |error: tsugite::Error| {
            CliError::new(ExitStatus::Connect, "the server stopped with an error")
                .at_step("serve")
                .detail(error.to_string())
        };
        // Before anything else, so that processes that were started end with this one.
        let stop = signals::shutdown_requested();
        let Some(listen) = self.listen else { return server.serve_stdio().await.map_err(serve_error) };
        if let Some(socket) = listen.strip_prefix("unix:") {
            let server = server.http(self.http.settings());
            let listener = unix_socket::bind(&server, socket).map_err(|error| {
                CliError::new(ExitStatus::Connect, format!("cannot listen on {listen}"))
                    .at_step("listen")
                    .detail(error.to_string())
            })?;
            let path = Some(&self.http.path).filter(|path| *path != "/mcp").map(|path| format!("#{path}"));
            let console = Console::new(false);
            let _ = console.print_line(&format!("{listen}{}", path.unwrap_or_default()));
            console.note(&format!("serving {description} to this user only"));
            raise_trim_threshold();
            return listener.serve_until(stop).await.map_err(serve_error);
        }
        let addresses: Vec<SocketAddr> = match tokio::net::lookup_host(&listen).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let failure = CliError::usage(format!("--listen {listen}: {error}"));
                return Err(failure.hint("use HOST:PORT, such as 127.0.0.1:8808, or unix:PATH"));
            }
        };
        let (mut http, path) = (self.http.settings(), self.http.path);
        // An endpoint at `/` leaves no place for the page.
        let page = page.filter(|_| path != "/");
        let has_page = page.is_some();
        if let Some(page) = page {
            page.update(|about| {
                about.is_public = addresses.iter().any(|address| !address.ip().is_loopback());
                about.path.clone_from(&path);
                about.has_sse = !self.http.no_sse;
            });
            http = http.page("/", move |host| page.render(host)).page_policy(page::POLICY);
        }
        let listener = server.http(http).bind_http(addresses.as_slice()).await.map_err(|error| {
            CliError::new(ExitStatus::Connect, format!("cannot listen on {listen}"))
                .at_step("listen")
                .detail(error.to_string())
                .hint("--listen 127.0.0.1:0 picks a free port")
        })?;
        let local = listener.local_addr();
        let shown = match local.ip().is_unspecified() {
            true => SocketAddr::from(([127, 0, 0, 1], local.port())),
            false => local,
        };
        let console = Console::new(false);
        // Serve even if nothing reads standard output.
        let _ = console.print_line(&format!("http://{shown}{path}"));
        console.note(&match has_page {
            true => format!("serving {description}; open http://{shown}/ to see how to connect"),
            false => format!("serving {description}"),
        });
        if !local.ip().is_loopback() {
            console.note("warning: the server is open to every machine that can reach this address");
        }
        raise_trim_threshold();
        listener.serve_until(stop).await.map_err(serve_error)
    }
}

/// Makes glibc keep freed memory for the next large response.
///
/// By default it returns free memory at the end of its heap to the kernel from 128 KiB on, and requests it again for the
/// next response. Freeing one larger block raises that threshold to twice the size of the block.
fn raise_trim_threshold() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(512 << 10)));
}
