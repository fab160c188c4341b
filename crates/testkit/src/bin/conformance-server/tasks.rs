//! Tools of the tasks extension.

use std::time::Duration;

use tsugite::prelude::*;
use tsugite::revision::RpcError;

pub(crate) fn register(server: Server) -> Server {
    server
        .tool(greet)
        .tool(slow_compute)
        .tool(failing_job)
        .tool(protocol_error_job)
        .tool(confirm_delete)
        .tool(multi_input)
        .tool(test_tool_with_task)
}

/// Greets at once.
#[tool]
async fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Takes as long as it is told, as a task if it can.
#[tool(task = "optional")]
async fn slow_compute(
    #[arg(default = 0)] seconds: u64,
    label: Option<String>,
    cx: Context,
) -> Result<String, HandlerError> {
    cx.start_task().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    Ok(format!("{} took {seconds} s", label.as_deref().unwrap_or("the work")))
}

/// Fails after a second.
#[tool(task = "required")]
async fn failing_job() -> Result<String, HandlerError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Err(HandlerError::new("the job has failed"))
}

/// Ends with an error of the protocol.
#[tool(task = "required")]
async fn protocol_error_job() -> Result<String, HandlerError> {
    Err(HandlerError::from_rpc_error(RpcError::Internal))
}

#[derive(Form)]
struct Confirmation {
    /// Go on?
    confirm: bool,
}

/// Asks before it deletes a file.
#[tool(task = "required")]
async fn confirm_delete(
    #[arg(default = String::new())] filename: String,
    cx: Context,
) -> Result<String, HandlerError> {
    let Confirmation { confirm } = cx.ask(format!("Delete {filename}?")).await?;
    Ok(format!("{filename} is {}", if confirm { "deleted" } else { "kept" }))
}

/// Asks two questions at once.
#[tool(task = "required")]
async fn multi_input(cx: Context) -> Result<String, HandlerError> {
    let (one, other) =
        tokio::join!(cx.ask::<Confirmation>("The first?"), cx.ask::<Confirmation>("The second?"));
    Ok(format!("{} and {}", one?.confirm, other?.confirm))
}

#[derive(Form)]
struct Name {
    name: String,
}

/// Asks for a name, and greets in a task.
#[tool(task = "optional")]
async fn test_tool_with_task(cx: Context) -> Result<String, HandlerError> {
    let Name { name } = cx.ask("What is your name?").key("user_name").await?;
    cx.start_task().await?;
    Ok(format!("Hello, {name}!"))
}
