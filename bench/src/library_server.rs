//! A server made with the library, over pipes, with the same tool as the bare one.

use serde::Deserialize;
use tsugite::prelude::*;

use crate::BoxError;

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "tsugite::schemars")]
struct Echo {
    text: String,
}

/// Serves until its input ends.
pub(crate) fn serve_stdio() -> Result<(), BoxError> {
    let echo = Tool::new("echo").handler(|Args(echo): Args<Echo>| async move { echo.text });
    let server = Server::new("library", "1.0.0").tool(echo);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(server.serve_stdio())?)
}
