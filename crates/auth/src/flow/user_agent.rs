//! [`UserAgent`]: how a person gets to the login page. A [`Browser`] on this machine, or a [`Prompt`] without one.

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::open_url::OPENER;
use crate::error::{AuthError, Result, shown};
use crate::net::Url;

/// The future that [`UserAgent::open`] returns.
pub type UserAgentFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<String>>> + Send + 'a>>;

/// The page on which a person logs in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoginPage {
    /// The URL of the page, with `https`, or with `http` on the loopback interface.
    pub url: String,
    /// The URL that the answer is redirected to.
    pub redirect_uri: String,
    /// The server that requires the login.
    pub server: String,
    /// The authorization server.
    pub issuer: String,
}

/// An authorization server that registers no clients by itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientQuestion {
    /// The authorization server.
    pub issuer: String,
    /// The redirect URI that the client must be registered with; without a port, any port must be allowed.
    pub redirect_uri: String,
}

/// Shows the login page to a person.
pub trait UserAgent: Send + Sync + 'static {
    /// Shows the page. Returns the URL of the redirect if the agent receives it, for example because the user pastes it;
    /// `None` if the answer will arrive at the redirect URI, where this process listens meanwhile.
    fn open(&self, page: LoginPage) -> UserAgentFuture<'_>;

    /// Asks for the id of a public client that a person has registered. It is stored when the login succeeds. `None`, the
    /// default, fails the login with an error that says what to do.
    fn client_id(&self, _: ClientQuestion) -> UserAgentFuture<'_> {
        Box::pin(async { Ok(None) })
    }
}

/// The browser of this machine. The URL is one argument of a program; no shell reads it.
#[derive(Debug, Clone, Default)]
pub struct Browser {
    program: Option<OsString>,
}

impl Browser {
    /// The program that opens URLs on this system: `xdg-open`, `open` on macOS, `rundll32` on Windows.
    pub fn system() -> Self {
        Self::default()
    }

    /// Another program, which gets the URL as its only argument.
    pub fn program(program: impl Into<OsString>) -> Self {
        Self { program: Some(program.into()) }
    }
}

impl UserAgent for Browser {
    fn open(&self, page: LoginPage) -> UserAgentFuture<'_> {
        Box::pin(async move {
            // Only http and https, and no character that a program could take for something else.
            let url = Url::parse(&page.url)?;
            let (system, arguments) = OPENER;
            let (program, arguments) = match &self.program {
                Some(program) => (program.clone(), &[][..]),
                None => (system.into(), arguments),
            };
            let mut command = Command::new(&program);
            command
                .args(arguments)
                .arg(url.as_str())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut child = command.spawn().map_err(|error| {
                let program = program.to_string_lossy();
                AuthError::login(format!("cannot open a browser ({program}: {error}); log in without one"))
            })?;
            // A browser may run for long; its exit must be read at some time.
            std::thread::spawn(move || child.wait());
            Ok(None)
        })
    }
}

/// A function that shows the URL, and returns the URL of the redirect if the user pastes it.
#[derive(Clone)]
pub struct Prompt {
    open: Arc<dyn Fn(LoginPage) -> UserAgentFuture<'static> + Send + Sync>,
    /// Whether a person at the terminal can be asked for a client id.
    is_terminal: bool,
}

impl Prompt {
    /// Uses a function. If its future returns `None`, or never, the answer may still arrive at the redirect URI.
    pub fn new<F, A>(prompt: F) -> Self
    where
        F: Fn(LoginPage) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Option<String>>> + Send + 'static,
    {
        Self { open: Arc::new(move |page| Box::pin(prompt(page))), is_terminal: false }
    }

    /// Prints the URL to the standard error output and reads the pasted answer from the standard input.
    pub fn terminal() -> Self {
        let prompt = Self::new(|page| async move {
            eprintln!("Log in to {} at this address:\n\n{}\n", page.server, page.url);
            eprintln!("If the browser is on another machine, it cannot open the last page.");
            eprintln!("Then copy the address of that page and paste it here:");
            Ok(read_line().await)
        });
        Self { is_terminal: true, ..prompt }
    }
}

/// Reads a line of the standard input; `None` if it is empty.
async fn read_line() -> Option<String> {
    // A thread of its own: the process may end while it reads, if the answer arrives in another way.
    let (sender, line) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        let _ = sender.send(read.ok().map(|_| line));
    });
    line.await.ok().flatten().filter(|line| !line.trim().is_empty())
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prompt")
    }
}

impl UserAgent for Prompt {
    fn open(&self, page: LoginPage) -> UserAgentFuture<'_> {
        (self.open)(page)
    }

    fn client_id(&self, question: ClientQuestion) -> UserAgentFuture<'_> {
        Box::pin(async move {
            if !self.is_terminal {
                return Ok(None);
            }
            let issuer = shown(&question.issuer);
            eprintln!("The authorization server {issuer:?} registers no clients by itself.");
            eprintln!("Register one there with the redirect URI {}.", question.redirect_uri);
            eprintln!("Then enter its client id:");
            Ok(read_line().await)
        })
    }
}
