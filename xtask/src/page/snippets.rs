//! The configuration snippets of the start page: whether each host accepts its own, and whether it reaches the server.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use serde_json::{Value, json};

use super::ensure_equal;
use crate::process;

/// Compares the snippets with the formats of the hosts.
pub(super) fn check(found: &Value, host: &str) -> Result<(), String> {
    let url = format!("http://{host}/mcp");
    let text = |id: &str| found.get(id).and_then(Value::as_str).ok_or_else(|| format!("no snippet for {id}"));
    let is = |id: &str, expected: String| ensure_equal(&text(id)?.into(), &expected.into());
    is("address", url.clone())?;
    is("terminal", format!("tsugite info {url}\ntsugite list {url}\ntsugite call {url} add a=1 b=2"))?;
    is("claude-code", format!("claude mcp add --transport http {SERVER_NAME} {url}"))?;
    for (id, key, entry) in [
        ("cursor", "mcpServers", json!({ "url": url })),
        ("vscode", "servers", json!({ "type": "http", "url": url })),
        ("windsurf", "mcpServers", json!({ "serverUrl": url })),
        ("claude-desktop", "mcpServers", json!({ "command": "tsugite", "args": ["bridge", url] })),
    ] {
        let read: Value = serde_json::from_str(text(id)?).map_err(|error| format!("{id}: {error}"))?;
        ensure_equal(&read, &json!({ key: { SERVER_NAME: entry } }))?;
    }
    Ok(())
}

/// Runs the snippets with `tsugite`: its own commands as they are, and each configuration as a file of servers.
pub(super) fn run_snippets(found: &Value, program: &Path, folder: &Path) -> Result<(), String> {
    let text = |id: &str| found.get(id).and_then(Value::as_str).unwrap_or_default();
    // Claude Desktop looks `tsugite` up in `PATH`.
    let mut folders: Vec<PathBuf> = program.parent().map(Path::to_owned).into_iter().collect();
    folders.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    let path = env::join_paths(folders).map_err(|error| error.to_string())?;
    let succeeds = |words: &[&str]| {
        let said = folder.join("said.txt");
        let mut command = process::program(program, words.iter().copied());
        command.env("PATH", &path);
        let (status, said) = process::output_with_timeout(COMMAND_TIMEOUT, command, &said)?;
        match status.success() {
            true => Ok(said),
            false => Err(format!("`tsugite {}` ended with {status}", words.join(" "))),
        }
    };
    for line in text("terminal").lines() {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        succeeds(&words)?;
    }
    for id in ["cursor", "vscode", "windsurf", "claude-desktop"] {
        let file = folder.join(format!("{id}.json"));
        fs::write(&file, text(id)).map_err(|error| format!("{}: {error}", file.display()))?;
        let target = format!("{}:{SERVER_NAME}", file.display());
        // The target folder may be in the current one.
        let said = succeeds(&["info", &target, "--trust-folder", "--json"])?;
        let said: Value = serde_json::from_str(&said).map_err(|error| format!("{id}: {error}"))?;
        ensure_equal(said.pointer("/server/name").unwrap_or(&Value::Null), &SERVER_NAME.into())?;
        let transport = if id == "claude-desktop" { "stdio" } else { "streamable-http" };
        ensure_equal(said.get("transport").unwrap_or(&Value::Null), &transport.into())?;
    }
    Ok(())
}

/// The name of the demo server.
const SERVER_NAME: &str = "tsugite-demo";

const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
