//! `tsugite info`: describes a server and its capabilities.

use clap::Args;
use serde_json::{Value, json};
use tsugite::client::TransportKind;

use super::expect_no_more;
use super::ping::milliseconds;
use crate::connection::{Connection, ServerDetails};
use crate::console::Style;
use crate::error::Result;
use crate::options::CommonOptions;
use crate::server_requests::PresetAnswers;
use crate::targets;

/// Describe a server: revision, capabilities, extensions, timings
#[derive(Debug, Args)]
#[command(
    override_usage = "tsugite info [OPTIONS] TARGET\n       tsugite info [OPTIONS] -- COMMAND…",
    after_help = "Examples:\n  tsugite info demo\n  tsugite info https://example.com/mcp --rev 2025-11-25 --json"
)]
pub(crate) struct Info {
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

impl Info {
    pub(crate) async fn run(self) -> Result<()> {
        let (found, rest) = targets::resolve(self.words, &self.common, "info").await?;
        expect_no_more(&rest)?;
        let connection = Connection::open(found, &self.common, PresetAnswers::default()).await?;
        let outcome = show(&connection).await;
        connection.finish(outcome).await
    }
}

pub(crate) async fn show(connection: &Connection) -> Result<()> {
    let ServerDetails { server, capabilities, instructions } = connection.server_details().await?;
    let transport =
        match (connection.transport, connection.client.probe_record().map(|record| record.transport)) {
            ("http", Some(TransportKind::HttpSse)) => "http+sse",
            ("http", _) => "streamable-http",
            (transport, _) => transport,
        };
    let revision = connection.client.revision().as_str();
    let connect = milliseconds(connection.connect_elapsed);
    let capabilities = serde_json::to_value(&capabilities).unwrap_or_default();
    let console = &connection.console;
    if console.json {
        return console.print_json(&json!({
            "revision": revision,
            "transport": transport,
            "server": server,
            "capabilities": capabilities,
            "instructions": instructions,
            "timings": {"connectMs": connect},
        }));
    }
    let row = |name: &str, value: &str| {
        console.print_line(&format!(
            "{} {}",
            console.paint(Style::Bold, &format!("{name:<12}")),
            console.sanitized(value)
        ))
    };
    match server {
        Some(server) => {
            let title = server.title.map(|title| format!(" ({title})")).unwrap_or_default();
            row("server", &format!("{} {}{title}", server.name, server.version))?;
        }
        None => row("server", "unnamed")?,
    }
    row("revision", revision)?;
    row("transport", transport)?;
    let members = capabilities.as_object().into_iter().flatten();
    for (number, (name, value)) in members.filter(|(name, _)| !is_extension_group(name)).enumerate() {
        row(if number == 0 { "capabilities" } else { "" }, &format!("{name}{}", capability_details(value)))?;
    }
    for extra in ["extensions", "experimental"] {
        let members = capabilities.get(extra).and_then(Value::as_object).into_iter().flatten();
        for (number, (name, value)) in members.enumerate() {
            row(if number == 0 { extra } else { "" }, &format!("{name}{}", capability_details(value)))?;
        }
    }
    if let Some(instructions) = instructions {
        row("instructions", &instructions.trim_end().replace('\n', "\n             "))?;
    }
    row("connected in", &format!("{connect} ms"))
}

fn is_extension_group(name: &str) -> bool {
    matches!(name, "extensions" | "experimental")
}

/// Formats the details of a capability: `(listChanged, subscribe)`.
fn capability_details(value: &Value) -> String {
    let Some(members) = value.as_object() else { return String::new() };
    let words: Vec<String> = members
        .iter()
        .filter(|(_, value)| **value != Value::Bool(false))
        .map(|(name, value)| match value {
            Value::Bool(true) | Value::Object(_) => name.clone(),
            other => format!("{name}: {other}"),
        })
        .collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}
