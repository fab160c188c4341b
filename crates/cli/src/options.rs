//! The options shared by all verbs that connect to a server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tsugite::revision::Revision;

use crate::suggest::did_you_mean;
use crate::trust::ConsentPolicy;

/// Options for connecting to a server and for the output.
#[derive(Debug, Args)]
pub(crate) struct CommonOptions {
    /// The protocol revision: `auto`, or one such as 2025-11-25
    #[arg(long, value_name = "REVISION", default_value = "auto", value_parser = parse_revision)]
    pub(crate) rev: RevisionArg,
    /// The transport for a URL: http is Streamable HTTP, sse is HTTP+SSE, auto tries both
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    pub(crate) transport: Transport,
    /// Send a header with every request, such as -H 'Accept-Language: ja'; -H @FILE reads a file of headers
    // Parsed by `headers`: an error of clap would show the value.
    #[arg(short = 'H', long = "header", value_name = "K: V")]
    pub(crate) headers: Vec<String>,
    /// Send the token in this environment variable, as `Authorization: Bearer`
    #[arg(long, value_name = "NAME")]
    pub(crate) bearer_env: Option<String>,
    /// Set an environment variable of the server, or pass one on (-e NAME)
    #[arg(short, long = "env", value_name = "K=V", value_parser = parse_env_var)]
    pub(crate) env: Vec<(String, Option<String>)>,
    /// How long to wait for a response or progress [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Print results and errors as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Use the configuration files of the current folder without asking
    #[arg(long)]
    pub(crate) trust_folder: bool,
    #[command(flatten)]
    pub(crate) login: LoginOptions,
    /// Write every message on the wire to a file, as lines of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Log more, and show the server's standard error; -vv logs everything
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// The server to start
    #[arg(last = true, hide = true)]
    pub(crate) command: Vec<OsString>,
}

impl CommonOptions {
    /// Returns the defaults, as if no option was given.
    pub(crate) fn defaults() -> Self {
        Self {
            rev: RevisionArg::Auto,
            transport: Transport::Auto,
            headers: Vec::new(),
            bearer_env: None,
            env: Vec::new(),
            timeout: None,
            json: false,
            trust_folder: false,
            login: LoginOptions::default(),
            trace: None,
            verbose: 0,
            command: Vec::new(),
        }
    }

    /// Returns the names of the given options on which depends which server is reached, and as whom.
    pub(crate) fn reaching_options(&self) -> Vec<&'static str> {
        let given = [
            ("--transport", self.transport != Transport::Auto),
            ("-H", !self.headers.is_empty()),
            ("--bearer-env", self.bearer_env.is_some()),
            ("-e", !self.env.is_empty()),
            ("--client-id", self.login.client_id.is_some()),
            ("--client-secret-file", self.login.client_secret_file.is_some()),
            ("--scope", !self.login.scopes.is_empty()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    pub(crate) fn consent_policy(&self) -> ConsentPolicy {
        match self.trust_folder {
            true => ConsentPolicy::TrustFolder,
            false => ConsentPolicy::Ask,
        }
    }
}

/// The options for a login, where a server requires one.
#[derive(Debug, Default, Args)]
pub(crate) struct LoginOptions {
    /// Log in with the id of a client that was registered beforehand
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// The file with the secret of that client
    #[arg(long, value_name = "FILE", requires = "client_id")]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// Ask for this scope when logging in, instead of those that the server names; repeat it for more
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// Log in without a browser on this machine: print the address, and read the pasted answer
    #[arg(long)]
    pub(crate) no_browser: bool,
    #[arg(skip)]
    pub(crate) mode: LoginMode,
}

impl LoginOptions {
    /// Whether one of the options was given.
    pub(crate) fn is_given(&self) -> bool {
        self.client_id.is_some() || !self.scopes.is_empty() || self.no_browser
    }
}

/// The use that a verb makes of logins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LoginMode {
    /// Uses stored tokens, and asks the user to log in on a terminal.
    #[default]
    Ask,
    /// Uses stored tokens only.
    StoredOnly,
    /// Like `Ask`, for clients of a bridge, which are told how to log in.
    Bridge,
    /// Uses no token, because clients without one of their own are served.
    Off,
}

/// The value of `--rev`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RevisionArg {
    Auto,
    Only(Revision),
}

/// The value of `--transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    // No doc comments: clap would print them as help and switch to its long format.
    Auto,
    Http,
    Sse,
}

/// Parses `k=v`, for options.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected k=v".to_owned()),
    }
}

pub(crate) fn parse_revision(text: &str) -> Result<RevisionArg, String> {
    if text == "auto" {
        return Ok(RevisionArg::Auto);
    }
    text.parse().map(RevisionArg::Only).map_err(|_| {
        let all = Revision::ALL.iter().rev().map(|revision| revision.as_str());
        let advice = did_you_mean(text, all.clone()).map(|advice| format!("; {advice}")).unwrap_or_default();
        format!("expected auto, {}{advice}", all.collect::<Vec<_>>().join(", "))
    })
}

pub(crate) fn parse_env_var(text: &str) -> Result<(String, Option<String>), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    match name.is_empty() {
        true => Err("expected NAME=VALUE or NAME".to_owned()),
        false => Ok((name.to_owned(), value)),
    }
}

pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let expected = "expected a number of seconds up to a year, such as 10 or 0.5";
    let seconds: f64 = text.parse().map_err(|_| expected)?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| expected)?;
    match time.is_zero() || time > MAX_TIMEOUT {
        true => Err(expected.to_owned()),
        false => Ok(time),
    }
}

/// The longest timeout: a year.
const MAX_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The help of `--timeout` for verbs that forward calls.
pub(crate) const CALL_TIMEOUT_HELP: &str = "How long a call may take without progress [default: 600]";
