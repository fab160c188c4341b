//! `config add` with a server of another file: references to variables are translated for each host.

use serde_json::{Value, json};

use super::SUPPORT;
use crate::support::Place;

fn cursor() -> Place {
    let place = Place::project();
    let servers = json!({"mcpServers": {
        "web": {"url": "https://${env:HOST}/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}, "auth": {"CLIENT_ID": "x"}},
        "run": {"command": "${userHome}/bin/x", "args": ["${env:A}", "--port=1"], "env": {"T": "${env:TOKEN}"}},
        "here": {"command": "x", "cwd": "sub"},
        "both": {"command": "x", "url": "y"},
        "file": {"command": "x", "envFile": "/etc/x.env"},
    }});
    place.file("shop/.cursor/mcp.json", &servers.to_string());
    place
}

fn read(place: &Place, file: &str, list: &str, name: &str) -> Value {
    let value: Value = serde_json::from_str(&place.text(file)).unwrap();
    value[list][name].clone()
}

#[test]
fn variables_are_translated_and_never_resolved() {
    let place = cursor();
    let ran = place.config(&["add", "web", "cursor:web", "--to", "claude-code,vscode,tsugite"]);
    let notes =
        "note: claude-code does not support auth; omitted\nnote: vscode does not support auth; omitted\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, notes));
    let typed =
        |host: &str, token: &str| json!({"type": "http", "url": host, "headers": {"Authorization": token}});
    assert_eq!(
        read(&place, ".claude.json", "mcpServers", "web"),
        typed("https://${HOST}/mcp", "Bearer ${TOKEN}")
    );
    assert_eq!(
        read(&place, &format!("{SUPPORT}/Code/User/mcp.json"), "servers", "web"),
        typed("https://${env:HOST}/mcp", "Bearer ${env:TOKEN}")
    );
    let own = json!({"url": "https://${env:HOST}/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}, "auth": {"CLIENT_ID": "x"}});
    assert_eq!(read(&place, "config/tsugite/mcp.json", "mcpServers", "web"), own);
    // A copy within a host keeps all fields.
    place.config(&["add", "web", "cursor:web", "--to", "cursor"]).fine();
    assert_eq!(read(&place, ".cursor/mcp.json", "mcpServers", "web"), own);

    place.config(&["add", "r", "cursor:run", "--to", "claude-code"]).fine();
    let run = json!({"type": "stdio", "command": "${HOME}/bin/x", "args": ["${A}", "--port=1"], "env": {"T": "${TOKEN}"}});
    assert_eq!(read(&place, ".claude.json", "mcpServers", "r"), run);
    // And back.
    place.config(&["add", "r", "claude-code:r", "--to", "vscode"]).fine();
    assert_eq!(
        read(&place, &format!("{SUPPORT}/Code/User/mcp.json"), "servers", "r")["env"]["T"],
        "${env:TOKEN}"
    );
}

#[test]
fn options_override_the_copied_entry() {
    let place = cursor();
    place
        .config(&[
            "add",
            "web",
            ".cursor/mcp.json:web",
            "-H",
            "Authorization: no",
            "-H",
            "X: y",
            "--transport",
            "sse",
            "--to",
            "vscode",
        ])
        .fine();
    let expected = json!({"type": "sse", "url": "https://${env:HOST}/mcp", "headers": {"Authorization": "no", "X": "y"}});
    assert_eq!(read(&place, &format!("{SUPPORT}/Code/User/mcp.json"), "servers", "web"), expected);
}

#[test]
fn unsupported_entry_is_rejected() {
    let place = cursor();
    place.file("shop/.vscode/mcp.json", r#"{"servers": {"i": {"command": "x", "args": ["${input:key}"]}, "n": {"command": "x", "env": {"A": null}}}}"#);
    place.file("shop/.mcp.json", r#"{"mcpServers": {"d": {"command": "${A:-b}"}}}"#);
    for (from, to, seen, hint) in [
        ("cursor:run", "claude-desktop", "command: claude-desktop does not support `${userHome}`", ""),
        ("cursor:web", "claude-desktop", "url: claude-desktop does not support `${env:HOST}`", ""),
        ("cursor:here", "claude-code", "claude-code does not support `cwd`", ""),
        ("cursor:file", "claude-desktop", "claude-desktop does not support `envFile`", ""),
        ("cursor:here", "vscode", "`cwd` is a relative path that would change its meaning in this file", ""),
        ("vscode:i", "cursor", "args[0]: cursor does not support `${input:key}`", ""),
        ("vscode:n", "claude-code", "env.A is null, but claude-code accepts only strings", ""),
        ("d", "cursor", "command: cursor does not support `${A:-b}`", ""),
    ] {
        let err = place.config(&["add", "copy", from, "--to", to]).failed(1);
        assert!(
            err.starts_with(&format!(
                "error: {to} does not support this server\n  step  entry\n  seen  {seen}\n"
            )),
            "{err}"
        );
        assert!(err.contains(hint), "{err}");
    }
    let err = place.config(&["add", "copy", "cursor:both", "--to", "vscode"]).failed(1);
    assert!(
        err.contains("invalid entry `both` in .cursor/mcp.json")
            && err.contains("it has both `command` and `url`"),
        "{err}"
    );
    assert!(!place.has(".claude.json") && !place.has(".cursor") && !place.has(SUPPORT));
    // In the same folder a relative path keeps its meaning.
    place.config(&["add", "here", "cursor:here", "--to", "vscode", "--project"]).fine();
    // An option can replace a variable by its value.
    place.file("shop/mcp.json", r#"{"mcpServers": {"t": {"command": "x", "env": {"T": "${TOKEN}"}}}}"#);
    let err = place.config(&["add", "t", "t", "--to", "claude-desktop"]).failed(1);
    assert!(err.contains("try   -e T=VALUE writes the value itself to the file"), "{err}");
    place.config(&["add", "t", "t", "--to", "claude-desktop", "-e", "T=1"]).fine();
    assert_eq!(
        read(&place, &format!("{SUPPORT}/Claude/claude_desktop_config.json"), "mcpServers", "t"),
        json!({"command": "x", "env": {"T": "1"}})
    );
}
