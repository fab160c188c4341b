//! `tsugite raw`: any request at all, and what comes back, untouched.

use clap::Args;
use serde::Deserialize;
use tsugite::client::{ClientError, ErrorKind};
use tsugite::core::jsonrpc::RawJson;

use super::{first, no_more};
use crate::arguments;
use crate::asking::Replies;
use crate::fail::{Failure, Result};
use crate::options::Common;
use crate::output;
use crate::session::Session;
use crate::target;

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
    replies: Replies,
    #[command(flatten)]
    pub(super) common: Common,
}

/// What is sent.
#[derive(Deserialize)]
pub(crate) struct Request {
    method: String,
    params: Option<RawJson>,
}

impl Raw {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = target::find(self.words, &self.common, "raw")?;
        let request = Request::new(rest)?;
        let session = Session::open(found, &self.common, self.replies).await?;
        let outcome = request.on(&session).await;
        session.finish(outcome).await
    }
}

impl Request {
    /// `words` are the request, or where it stands.
    pub(crate) fn new(mut words: Vec<String>) -> Result<Self> {
        let word = first(&mut words, "raw", "a request", "'{\"method\":\"tools/list\"}'")?;
        no_more(&words)?;
        read(&word)
    }

    pub(crate) async fn on(&self, session: &Session) -> Result<()> {
        let Self { method, params } = self;
        let outcome = session.client.request_raw(method, params.clone()).await;
        if let (true, Err(ErrorKind::ErrorResponse { error, .. })) =
            (session.screen.json, outcome.as_ref().map_err(ClientError::kind))
        {
            // The error is what came back.
            session.screen.json(error)?;
        }
        let result = session.gave(outcome, "raw")?;
        match session.screen.json {
            true => session.screen.json_text(result.text()),
            false => session.screen.line(&session.screen.words(&output::pretty(result.text()))),
        }
    }
}

fn read(word: &str) -> Result<Request> {
    let text = match word.strip_prefix('@') {
        Some(path) => arguments::file(path).map_err(|failure| failure.at("arguments"))?,
        None => word.to_owned(),
    };
    let wrong = |seen: String| {
        let failure = Failure::usage("the request is no request").at("arguments").seen(seen);
        failure.hint("'{\"method\":\"tools/list\"}' is one")
    };
    let json = RawJson::parse(text).map_err(|error| wrong(format!("no JSON: {error}")))?;
    if !json.is_object() {
        return Err(wrong("it must be an object".to_owned()));
    }
    let request: Request = json.read().map_err(|error| wrong(error.to_string()))?;
    if request.params.as_ref().is_some_and(|params| !params.is_object()) {
        return Err(wrong("`params` must be an object".to_owned()));
    }
    if request.method.starts_with("notifications/") {
        return Err(wrong("a notification has no answer".to_owned()));
    }
    Ok(request)
}
