//! Serves a server at an address, or on standard input and output.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tsugite::Server;
use tsugite::transport::http::{Http, PageRequest};

use crate::access_token::AccessToken;
use crate::auth_setup::{AuthSetup, ServedAt, choose_port};
use crate::console::Console;
use crate::error::{CliError, ExitStatus, Result};
use crate::issuer_options::IssuerOptions;
use crate::page::{self, SharedStartPage, Visitor};
use crate::signals;
use crate::unix_socket;

/// The options for serving a server.
pub(crate) struct ServeOptions {
    /// `HOST:PORT` or `unix:PATH`; `None` is standard input and output.
    pub(crate) listen: Option<String>,
    pub(crate) http: HttpOptions,
    /// Names the configured servers of the user behind the address, whose clients need a token by default.
    pub(crate) configured_servers: Option<String>,
    /// Whether clients act for the user at a server that the user is logged in to.
    pub(crate) is_personal: bool,
    /// The authorization server beside the server.
    pub(crate) auth: Option<AuthSetup>,
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
    /// Take the address of a client from X-Forwarded-For or Forwarded of this proxy, such as 10.0.0.1 or 10.0.0.0/8
    #[arg(long = "trust-proxy", value_name = "NETWORK")]
    proxies: Vec<String>,
    /// Serve at this path
    #[arg(long, value_name = "PATH", default_value = "/mcp")]
    path: String,
    /// Give clients up to 2025-11-25 no sessions: each request stands alone, and the server cannot ask
    #[arg(long)]
    no_sessions: bool,
    /// Do not serve HTTP+SSE, the transport of 2024-11-05, at /sse
    #[arg(long)]
    no_sse: bool,
    /// Serve only clients that send the token in this file, as `Authorization: Bearer`
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Serve every client that can reach the address, without a token
    #[arg(long, conflicts_with_all = ["token", "tls_client_ca"])]
    no_auth: bool,
    /// Serve https with the certificates in this PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate of the authorities in this PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    #[command(flatten)]
    issuer: IssuerOptions,
}

impl HttpOptions {
    /// The defaults, with these allowed hosts.
    pub(crate) fn with_hosts(hosts: Vec<String>) -> Self {
        let path = "/mcp".to_owned();
        Self {
            hosts,
            origins: Vec::new(),
            proxies: Vec::new(),
            path,
            no_sessions: false,
            no_sse: false,
            token: None,
            no_auth: false,
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            issuer: IssuerOptions::default(),
        }
    }

    fn settings(&self) -> Http {
        let mut http = Http::new().path(&self.path).sessions(!self.no_sessions);
        if !self.no_sse {
            http = http.http_sse();
        }
        if let (Some(certificates), Some(key)) = (&self.tls_cert, &self.tls_key) {
            http = http.tls(certificates, key);
        }
        if let Some(authorities) = &self.tls_client_ca {
            http = http.tls_client_ca(authorities);
        }
        let http = self.hosts.iter().fold(self.issuer.settings(http), Http::allow_host);
        let http = self.origins.iter().fold(http, Http::allow_origin);
        self.proxies.iter().fold(http, Http::trust_proxy)
    }

    /// Whether the addresses of clients are known: no proxy is in front, or it is trusted to say them.
    fn knows_clients_of(&self, issuer: &str) -> bool {
        let has_proxy = issuer.starts_with("https://") && self.tls_cert.is_none();
        !has_proxy || !self.proxies.is_empty()
    }

    /// Whether clients need no token though there are configured servers of the user.
    pub(crate) fn is_open(&self) -> bool {
        self.token.is_none() && (self.no_auth || self.tls_client_ca.is_some() || self.issuer().is_some())
    }

    /// The issuer whose tokens clients need.
    pub(crate) fn issuer(&self) -> Option<&str> {
        self.issuer.issuer()
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    pub(crate) fn no_auth(&self) -> bool {
        self.no_auth
    }

    /// The token that clients need: that of `--token`, or one made for the configured servers of the user.
    fn access_token(&self, configured: Option<&str>, is_personal: bool) -> Result<Option<AccessToken>> {
        match (&self.token, configured) {
            (Some(path), _) => AccessToken::read(path).map(Some),
            // A certificate may be that of another person.
            (None, Some(servers)) if is_personal || !self.is_open() => {
                AccessToken::for_servers(servers).map(Some)
            }
            (None, _) => Ok(None),
        }
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
        let Some(listen) = self.listen.clone() else {
            return server.serve_stdio().await.map_err(serve_error);
        };
        if let Some(socket) = listen.strip_prefix("unix:") {
            let listener = self.bind_socket(server, socket, description)?;
            raise_trim_threshold();
            return listener.serve_until(stop).await.map_err(serve_error);
        }
        let mut addresses: Vec<SocketAddr> = match tokio::net::lookup_host(&listen).await {
            Ok(addresses) => addresses.collect(),
            Err(error) => {
                let failure = CliError::usage(format!("--listen {listen}: {error}"));
                return Err(failure.hint("use HOST:PORT, such as 127.0.0.1:8808, or unix:PATH"));
            }
        };
        let is_public = addresses.iter().any(|address| !address.ip().is_loopback());
        let token = match &self.auth {
            Some(_) => None,
            None => self.http.access_token(self.configured_servers.as_deref(), self.is_personal)?,
        };
        self.http.issuer.check_address(&listen, is_public)?;
        if is_public && token.is_none() && self.auth.is_none() && !self.http.is_open() {
            return Err(CliError::usage(format!(
                "other machines could use the server at {listen} without a token"
            ))
            .at_step("listen")
            .hint(
                "--token FILE requires the token in a file, --tls-client-ca FILE a certificate of the client",
            )
            .hint("--issuer URL requires a token of an issuer")
            .hint("--no-auth serves every client that can reach the address"));
        }
        let scheme = if self.http.tls_cert.is_some() { "https" } else { "http" };
        let token = token.map(Arc::new);
        let (mut http, path) = (self.http.settings(), self.http.path.clone());
        let mut server = match &token {
            Some(token) => server.authorize(token.verifier()),
            None => self.http.issuer.authorize(server),
        };
        let mut issuer = None;
        if let Some(setup) = &self.auth {
            choose_port(&mut addresses)?;
            if let Some(address) = addresses.first().copied() {
                let auth = setup.serve_at(&ServedAt { address, is_public, scheme, path: &path })?;
                issuer = Some(auth.issuer().to_owned());
                (server, http) = auth.apply(server, http);
            }
        }
        // An endpoint at `/` leaves no place for the page.
        let page = page.filter(|_| path != "/");
        let has_page = page.is_some();
        if let Some(page) = page {
            page.update(|about| {
                about.is_public = is_public;
                about.scheme = scheme;
                about.path.clone_from(&path);
                about.has_sse = !self.http.no_sse;
            });
            let token = token.clone();
            let has_logins = token.is_none() && (self.auth.is_some() || self.http.issuer().is_some());
            let render = move |request: &PageRequest<'_>| {
                let visitor = match has_logins {
                    true => Visitor::Unknown,
                    false => visitor(token.as_deref(), request.query, is_public),
                };
                page.render(request.host, visitor)
            };
            http = http.page("/", render).page_policy(page::POLICY);
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
        let _ = console.print_line(&format!("{scheme}://{shown}{path}"));
        // The token is shown only to a person.
        let query = match &token {
            Some(token) if console.is_stderr_terminal() => format!("?token={}", token.text()),
            _ => String::new(),
        };
        console.note(&match has_page {
            true => format!("serving {description}; open {scheme}://{shown}/{query} to see how to connect"),
            false => format!("serving {description}"),
        });
        if let Some(token) = &token {
            if !is_public {
                token.record_address(local)?;
            }
            console.note(&format!("clients need the token in {}", token.path.display()));
        } else if let (Some(setup), Some(issuer)) = (&self.auth, &issuer) {
            console.note(&format!("users log in at {issuer}"));
            setup.note(&console);
            if !self.http.knows_clients_of(issuer) {
                console.note(
                    "warning: all clients of the proxy in front count as one address, so wrong passwords of one of them lock \
                     out all; --trust-proxy NETWORK names the proxy",
                );
            }
        } else if let Some(issuer) = self.http.issuer() {
            console.note(&format!("clients need a token of {issuer}"));
        } else if is_public && self.http.tls_client_ca.is_none() {
            console.note("warning: the server is open to every machine that can reach this address");
        }
        raise_trim_threshold();
        listener.serve_until(stop).await.map_err(serve_error)
    }
}

impl ServeOptions {
    /// Listens on a Unix socket, and says so.
    fn bind_socket(&self, server: Server, socket: &str, description: &str) -> Result<unix_socket::Listener> {
        if self.auth.is_some() {
            return Err(CliError::usage("--auth needs an address that a browser can reach").at_step("auth"));
        }
        let mut server = server.http(self.http.settings());
        if let Some(token) = self.http.access_token(None, false)? {
            server = server.authorize(token.verifier());
        }
        server = self.http.issuer.authorize(server);
        let listener = unix_socket::bind(&server, socket).map_err(|error| {
            CliError::new(ExitStatus::Connect, format!("cannot listen on unix:{socket}"))
                .at_step("listen")
                .detail(error.to_string())
        })?;
        let path = Some(&self.http.path).filter(|path| *path != "/mcp").map(|path| format!("#{path}"));
        let console = Console::new(false);
        let _ = console.print_line(&format!("unix:{socket}{}", path.unwrap_or_default()));
        console.note(&format!("serving {description} to this user only"));
        Ok(listener)
    }
}

/// The reader of the start page, by the token in the query.
fn visitor<'a>(token: Option<&'a AccessToken>, query: &str, is_public: bool) -> Visitor<'a> {
    let Some(token) = token else { return Visitor::Anyone };
    let given = query.split('&').find_map(|pair| pair.strip_prefix("token="));
    match given.is_some_and(|given| token.verifier().matches(given)) && !is_public {
        true => Visitor::Owner { token: token.text() },
        false => Visitor::Stranger,
    }
}

/// Makes glibc keep freed memory for the next large response.
///
/// By default it returns free memory at the end of its heap to the kernel from 128 KiB on, and requests it again for the
/// next response. Freeing one larger block raises that threshold to twice the size of the block.
fn raise_trim_threshold() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(512 << 10)));
}
