//! Tools that are added and removed while the server runs.
//!
//! Run: `cargo run -p tsugite --example dynamic`

use serde::Deserialize;
use serde_json::json;
use tsugite::prelude::*;
use tsugite::protocol::Schema;
use tsugite::server::ListKind;

#[derive(Deserialize)]
struct Greet {
    name: String,
}

/// Teaches the server to greet in another language.
#[tool]
async fn learn(
    /// The name of the new tool.
    language: String,
    /// The greeting that it returns.
    greeting: String,
    cx: Context,
) -> Result<String, HandlerError> {
    let schema = Schema::from(json!({
        "type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"],
    }));
    let tool = Tool::new(&language)
        .description(format!("Greets a person in {language}."))
        .input_schema(schema)
        .raw_handler(move |arguments, _| {
            let greeting = greeting.clone();
            async move {
                let Greet { name } = arguments.read()?;
                Ok::<_, HandlerError>(format!("{greeting}, {name}!"))
            }
        });
    cx.server().add(tool).map_err(|error| HandlerError::new(error.to_string()))?;
    Ok(format!("learnt {language}"))
}

/// Forgets a language.
#[tool(destructive)]
async fn forget(language: String, cx: Context) -> bool {
    cx.server().remove(ListKind::Tool, &language)
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("dynamic", "1.0.0").tool(learn).tool(forget)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}
