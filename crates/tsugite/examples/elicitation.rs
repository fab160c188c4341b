//! Elicitation: a tool asks the user, in every revision that supports it.
//!
//! Run: `cargo run -p tsugite --example elicitation`

use std::io;

use tsugite::prelude::*;

#[derive(Form)]
struct Confirm {
    /// Delete anyway?
    sure: bool,
}

/// Deletes a directory, after asking if there is something in it.
#[tool(destructive)]
async fn delete(path: String, cx: Context) -> Result<String, HandlerError> {
    let files = cx.once("count", count(&path)).await?;
    if files > 0 && !cx.ask::<Confirm>(format!("{path} holds {files} files.")).await?.sure {
        return Ok("kept".into());
    }
    remove(&path).await?;
    Ok(format!("deleted {path}"))
}

#[derive(Form)]
enum Size {
    #[form(title = "Small")]
    Small,
    #[form(title = "Quite large")]
    Large,
}

#[derive(Form)]
struct Order {
    /// How should it be cut?
    size: Size,
    #[form(title = "How many", min = 1, max = 12, default = 2)]
    count: u32,
    #[form(format = "email")]
    receipt: Option<String>,
}

/// Orders planks.
#[tool]
async fn order(cx: Context) -> Result<String, HandlerError> {
    match cx.ask::<Order>("What shall it be?").await {
        Ok(Order { size, count, receipt }) => {
            let size = if matches!(size, Size::Large) { "large" } else { "small" };
            let receipt = receipt.map(|to| format!(", receipt to {to}")).unwrap_or_default();
            Ok(format!("{count} {size} planks{receipt}"))
        }
        Err(AskError::Declined) => Ok("no planks then".into()),
        Err(other) => Err(other.into()),
    }
}

/// Stands for counting the files of a directory.
async fn count(path: &str) -> io::Result<usize> {
    Ok(path.len() % 4)
}

/// Stands for removing a directory.
async fn remove(_path: &str) -> io::Result<()> {
    Ok(())
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("elicitation", "1.0.0").tool(delete).tool(order)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
