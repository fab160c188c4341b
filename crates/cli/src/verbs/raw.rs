//! `tsugite raw`: sends any request and prints the result unchanged.

use clap::Args;
use serde::Deserialize;
use tsugite::client::{ClientError, ErrorKind};
use tsugite::jsonrpc::RawJson;

use super::{expect_no_more, take_first};
use crate::arguments;
use crate::connection::Connection;
use crate::error::{CliError, Result};
use crate::json_text;
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// Send any request and print its result unchanged
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite raw [OPTIONS] TARGET REQUEST\n       tsugite raw [OPTIONS] REQUEST -- COMMAND…",
    after_help = "A REQUEST is JSON with `method` and `params`, @file.json, or @- for standard input. tsugite sets\nthe id, and adds the `_meta` fields that revision 2026-07-28 requires unless they are present.\n\nExamples:\n  tsugite raw demo '{\"method\":\"tools/list\"}'\n  tsugite raw demo '{\"method\":\"tools/call\",\"params\":{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":2}}}' --json"
)]
pub(crate) struct Raw {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    answers: PresetAnswers,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// A request to send.
#[derive(Deserialize)]
pub(crate) struct RawRequest {
    method: String,
    params: Option<RawJson>,
}

impl Raw {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "raw").await?;
        let request = RawRequest::new(rest)?;
        let connection = Connection::open(found, &self.common, self.answers).await?;
        let outcome = request.run_on(&connection).await;
        connection.finish(outcome).await
    }
}

impl RawRequest {
    /// Parses the request, or reads it from `@file.json`.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let word = take_first(&mut words, "raw", "a request", "'{\"method\":\"tools/list\"}'")?;
        expect_no_more(&words)?;
        parse_request(&word)
    }

    pub(crate) async fn run_on(&self, connection: &Connection) -> Result<()> {
        let Self { method, params } = self;
        let outcome = connection.client.request_raw(method, params.clone()).await;
        if let (true, Err(ErrorKind::ErrorResponse { error, .. })) =
            (connection.console.json, outcome.as_ref().map_err(ClientError::kind))
        {
            // With --json the error of the server is a result, too.
            connection.console.print_json(error)?;
        }
        let result = connection.check_result(outcome, "raw")?;
        match connection.console.json {
            true => connection.console.print_raw_json(result.text()),
            false => connection
                .console
                .print_line(&connection.console.sanitized(&json_text::pretty(result.text()))),
        }
    }
}

fn parse_request(word: &str) -> Result<RawRequest> {
    let text = match word.strip_prefix('@') {
        Some(path) => arguments::read_input(path).map_err(|failure| failure.at_step("arguments"))?,
        None => word.to_owned(),
    };
    let invalid = |detail: String| {
        let failure = CliError::usage("invalid request").at_step("arguments").detail(detail);
        failure.hint("for example: '{\"method\":\"tools/list\"}'")
    };
    let json = RawJson::parse(text).map_err(|error| invalid(format!("not valid JSON: {error}")))?;
    if !json.is_object() {
        return Err(invalid("it must be an object".to_owned()));
    }
    let request: RawRequest = json.read().map_err(|error| invalid(error.to_string()))?;
    if request.params.as_ref().is_some_and(|params| !params.is_object()) {
        return Err(invalid("`params` must be an object".to_owned()));
    }
    if request.method.starts_with("notifications/") {
        return Err(invalid("a notification has no response; send a request".to_owned()));
    }
    Ok(request)
}
