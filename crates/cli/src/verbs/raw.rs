//! `tsugite raw`: any request at all, and what comes back, untouched.

use clap::Args;
use serde::Deserialize;
use tsugite::client::{ClientError, ErrorKind};
use tsugite::jsonrpc::RawJson;

use super::{expect_no_more, take_first};
use crate::arguments;
use crate::connection::Connection;
use crate::error::{CliError, Result};
use crate::options::CommonOptions;
use crate::output;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// Send any request, and show its result as it came
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite raw [OPTIONS] TARGET REQUEST\n       tsugite raw [OPTIONS] REQUEST -- COMMAND…",
    after_help = "A REQUEST is JSON with `method` and `params`, @file.json, or @- for standard input. Its id is ours, and the\nclaims every request of 2026-07-28 must make are put into `_meta` unless they are there.\n\nExamples:\n  tsugite raw demo '{\"method\":\"tools/list\"}'\n  tsugite raw demo '{\"method\":\"tools/call\",\"params\":{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":2}}}' --json"
)]
pub(crate) struct Raw {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    replies: PresetAnswers,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// What is sent.
#[derive(Deserialize)]
pub(crate) struct RawRequest {
    method: String,
    params: Option<RawJson>,
}

impl Raw {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "raw")?;
        let request = RawRequest::new(rest)?;
        let session = Connection::open(found, &self.common, self.replies).await?;
        let outcome = request.run_on(&session).await;
        session.finish(outcome).await
    }
}

impl RawRequest {
    /// `words` are the request, or where it stands.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let word = take_first(&mut words, "raw", "a request", "'{\"method\":\"tools/list\"}'")?;
        expect_no_more(&words)?;
        parse_request(&word)
    }

    pub(crate) async fn run_on(&self, session: &Connection) -> Result<()> {
        let Self { method, params } = self;
        let outcome = session.client.request_raw(method, params.clone()).await;
        if let (true, Err(ErrorKind::ErrorResponse { error, .. })) =
            (session.console.json, outcome.as_ref().map_err(ClientError::kind))
        {
            // The error is what came back.
            session.console.print_json(error)?;
        }
        let result = session.check_result(outcome, "raw")?;
        match session.console.json {
            true => session.console.print_raw_json(result.text()),
            false => {
                session.console.print_line(&session.console.sanitized(&output::pretty_json(result.text())))
            }
        }
    }
}

fn parse_request(word: &str) -> Result<RawRequest> {
    let text = match word.strip_prefix('@') {
        Some(path) => arguments::read_input(path).map_err(|failure| failure.at_step("arguments"))?,
        None => word.to_owned(),
    };
    let wrong = |seen: String| {
        let failure = CliError::usage("the request is no request").at_step("arguments").detail(seen);
        failure.hint("'{\"method\":\"tools/list\"}' is one")
    };
    let json = RawJson::parse(text).map_err(|error| wrong(format!("no JSON: {error}")))?;
    if !json.is_object() {
        return Err(wrong("it must be an object".to_owned()));
    }
    let request: RawRequest = json.read().map_err(|error| wrong(error.to_string()))?;
    if request.params.as_ref().is_some_and(|params| !params.is_object()) {
        return Err(wrong("`params` must be an object".to_owned()));
    }
    if request.method.starts_with("notifications/") {
        return Err(wrong("a notification has no answer".to_owned()));
    }
    Ok(request)
}
