//! Tests of a server: in process, on any revision, without a port.
//!
//! Run: `cargo test -p tsugite --example testing`

use tsugite::prelude::*;

#[derive(Form)]
struct Name {
    /// What is your name?
    name: String,
}

/// Greets the user by name.
#[tool]
async fn greet(cx: Context) -> Result<String, AskError> {
    let Name { name } = cx.ask("Who is there?").await?;
    Ok(format!("Hello, {name}!"))
}

/// Builds the server.
pub fn server() -> Server {
    Server::new("greeter", "1.0.0").tool(greet)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    server().serve_stdio().await
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tsugite::client::FormResponse;

    use super::*;

    #[tokio::test]
    async fn greets_by_name() -> tsugite::Result<()> {
        for revision in [Revision::V2025_06_18, Revision::V2026_07_28] {
            let client = Client::in_process(&server())
                .revision(revision)
                .on_elicit_form(async |_| FormResponse::accept(json!({"name": "Kiku"})))
                .await?;
            let greeting: String = client.call("greet", json!({})).await?;
            assert_eq!(greeting, "Hello, Kiku!");
        }
        Ok(())
    }

    #[tokio::test]
    async fn declining_fails_the_call() -> tsugite::Result<()> {
        let client = Client::in_process(&server()).on_elicit_form(async |_| FormResponse::Decline).await?;
        assert_eq!(client.call_raw("greet", json!({})).await?.is_error, Some(true));
        Ok(())
    }
}
