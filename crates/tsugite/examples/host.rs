//! A chat with three servers: one in this process, one that it starts, one over HTTP.
//!
//! Run: `cargo run -p tsugite --example host`, and type `add 1 2`, `shout hello`, `delete`, or `help`.
//! Instead of a model, a few lines of code take the first word as the name of a tool.

use std::io::{BufRead, Write};

use serde_json::{Map, Value, json};
use tsugite::client::{FormResponse, Host};
use tsugite::prelude::*;

/// Add two numbers.
#[tool]
async fn add(a: f64, b: f64) -> f64 {
    a + b
}

/// Returns the text in capital letters.
#[tool]
async fn shout(text: String) -> String {
    text.to_uppercase()
}

#[derive(Form)]
struct Confirm {
    /// Really?
    sure: bool,
}

/// Deletes everything, after asking.
#[tool(destructive)]
async fn delete(cx: Context) -> Result<&'static str, AskError> {
    let Confirm { sure } = cx.ask("This deletes everything.").await?;
    Ok(if sure { "gone (not really)" } else { "kept" })
}

/// Connects to all three servers.
pub async fn host(command: impl Into<tsugite::client::Command>, url: String) -> Host {
    Host::builder()
        .server("calculator", Client::in_process(&Server::new("calculator", "1.0.0").tool(add)))
        .server("voice", Client::spawn(command))
        .server("files", Client::connect(url))
        .configure_each(|server, builder| {
            let server = server.to_owned();
            builder.on_elicit_form(move |form| {
                let question = format!("{server} asks: {} [y/n] ", form.message);
                async move {
                    match read(&question).await.as_deref() {
                        Some("y") => FormResponse::accept(json!({"sure": true})),
                        Some(_) => FormResponse::Decline,
                        None => FormResponse::Cancel,
                    }
                }
            })
        })
        .connect()
        .await
}

/// Builds the second server, which runs when this program is started with `serve`.
pub fn voice() -> Server {
    Server::new("voice", "1.0.0").tool(shout)
}

/// Builds the server that is served over HTTP.
pub fn files() -> Server {
    Server::new("files", "1.0.0").tool(delete)
}

/// Answers one line of the user.
pub async fn reply(host: &Host, line: &str) -> tsugite::Result<String> {
    let mut words = line.split_whitespace();
    let (wanted, words) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
    let tools = host.list_tools().await.items;
    // A model would get all tools. Here the first tool with a matching name is used.
    let Some(tool) = tools.iter().find(|tool| tool.name.ends_with(&format!("_{wanted}"))) else {
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        return Ok(format!("There is: {}", names.join(", ")));
    };
    let wants = tool.input_schema.keywords().get("properties").and_then(Value::as_object);
    let names = wants.into_iter().flat_map(Map::keys).cloned();
    let values = words.iter().map(|word| serde_json::from_str(word).unwrap_or_else(|_| json!(word)));
    let arguments: Map<String, Value> = names.zip(values).collect();
    let result = host.call_raw(&tool.name, arguments).await?;
    Ok(result.text())
}

async fn read(prompt: &str) -> Option<String> {
    print!("{prompt}");
    std::io::stdout().flush().ok()?;
    let line = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next()).await.ok()??;
    line.ok().map(|line| line.trim().to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> tsugite::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return voice().serve_stdio().await;
    }
    let listener = files().bind_http("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr());
    tokio::spawn(listener.serve());
    let host = host([std::env::current_exe()?, "serve".into()], url).await;
    for failure in host.failures() {
        eprintln!("cannot connect to {}: {}", failure.server, failure.error);
    }
    while let Some(line) = read("> ").await {
        match reply(&host, &line).await {
            Ok(text) => println!("{text}"),
            Err(error) => println!("The call failed: {error}"),
        }
    }
    host.close().await;
    Ok(())
}
