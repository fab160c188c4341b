//! `config list`: lists all servers and shows no secret.

use serde_json::{Value, json};

use super::SUPPORT;
use crate::support::Place;

fn full() -> Place {
    let place = Place::project();
    place.file("shop/.mcp.json", r#"{"mcpServers": {"one": {"type": "http", "url": "https://u:secret@example.com/mcp?api_key=secret-secret", "headers": {"X-Key": "secret"}}}}"#);
    place.file("shop/mcp.json", r#"{"servers": {"two": {"type": "sse", "url": "https://example.com/sse"}}}"#);
    place.file(
        "config/tsugite/mcp.json",
        r#"{"mcpServers": {"three": {"command": "npx", "args": ["-y", "a b", "--token", "secret-secret"], "env": {"KEY": "secret"}}, "off": {"command": "x", "disabled": true}}}"#,
    );
    place.file(
        &format!("{SUPPORT}/Claude/claude_desktop_config.json"),
        "{\n  // mine\n  \"mcpServers\": {\n    \"broken\": {\"args\": []},\n    \"number\": {\"command\": \"x\",\n      \"args\": [\"a\", 1]},\n  },\n}",
    );
    let here = place.path.join("shop");
    let project = json!({"mcpServers": {"local": {"command": "l", "env": {"A": "${NO_SUCH_VARIABLE}"}}}});
    let claude = json!({"mcpServers": {"user": {"command": "u"}}, "projects": {here.to_str().unwrap(): project, "/elsewhere": {}}});
    place.file(".claude.json", &serde_json::to_string_pretty(&claude).unwrap());
    place.file("shop/.cursor/mcp.json", "{\n  \"mcpServers\": {\n    \"a\": {\"command\": x}\n  }\n}");
    place.file(".cursor/mcp.json", r#"{"mcpServers": {}}"#);
    place.file(
        &format!("{SUPPORT}/Code/User/settings.json"),
        r#"{"editor.tabSize": 2, "mcp": {"servers": {"old": {"command": "o"}}}}"#,
    );
    place
}

#[test]
fn all_files_are_listed_despite_invalid_ones() {
    let place = full();
    let ran = place.config(&["list"]);
    let expected = format!(
        "\
~/config/tsugite/mcp.json (tsugite)
  three  npx -y \"a b\" --token … (env KEY)
  off    x  disabled
.mcp.json (tsugite, claude-code)
  one  https://…@example.com/mcp?api_key=… (http; headers X-Key)
mcp.json (tsugite)
  two  https://example.com/sse (sse)
~/{SUPPORT}/Claude/claude_desktop_config.json (claude-desktop)
  broken  ?
          invalid: line 4, mcpServers.broken: it has neither `command` nor `url`
  number  x a ?
          invalid: line 6, mcpServers.number.args[1]: expected a string, found a number
~/.claude.json, for ~/shop (claude-code)
  local  l (env A)
         invalid: line 13, projects[\"~/shop\"].mcpServers.local.env.A: the variable NO_SUCH_VARIABLE is not set
~/.claude.json (claude-code)
  user  u
.cursor/mcp.json (cursor)
  error: line 3, column 22, mcpServers.a.command: expected a value
~/.cursor/mcp.json (cursor)
~/{SUPPORT}/Code/User/settings.json (vscode)
  old  o
"
    );
    assert_eq!((ran.code, place.plain(&ran.out), ran.err.as_str()), (1, expected, ""));
}

#[test]
fn list_as_json_is_one_object() {
    let place = full();
    let ran = place.config(&["list", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(!ran.out.contains("secret"), "{}", ran.out);
    let out: Value = serde_json::from_str(&place.plain(&ran.out)).unwrap();
    let files = out["files"].as_array().unwrap();
    assert_eq!(files.len(), 9);
    assert_eq!(
        files[1],
        json!({
            "path": "~/shop/.mcp.json", "project": null, "hosts": ["tsugite", "claude-code"],
            "servers": [{
                "name": "one", "disabled": false, "transport": "http",
                "url": "https://…@example.com/mcp?api_key=…", "env": [], "headers": ["X-Key"], "problem": null,
            }],
            "error": null,
        })
    );
    let three = &files[0]["servers"][0];
    assert_eq!(
        (&three["transport"], &three["command"], &three["args"]),
        (&json!("stdio"), &json!("npx"), &json!(["-y", "a b", "--token", "…"]))
    );
    assert_eq!(files[0]["servers"][1]["disabled"], true);
    let problem = json!({"line": 6, "column": null, "field": "mcpServers.number.args[1]", "message": "expected a string, found a number"});
    assert_eq!(files[3]["servers"][1]["problem"], problem);
    assert_eq!(files[4]["project"], "~/shop");
    let error =
        json!({"line": 3, "column": 22, "field": "mcpServers.a.command", "message": "expected a value"});
    assert_eq!((&files[6]["error"], &files[6]["servers"]), (&error, &json!([])));
}

#[test]
fn without_files_the_searched_paths_are_shown() {
    let place = Place::project();
    let ran = place.config(&["list"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    let searched = "no servers found; searched\n~/config/tsugite/mcp.json\n.mcp.json\nmcp.json\n";
    assert!(place.plain(&ran.err).starts_with(searched), "{}", ran.err);
    assert_eq!(place.config(&["list", "--json"]).fine(), "{\"files\":[]}\n");
}

#[test]
fn claude_config_dir_is_respected() {
    let place = Place::project();
    place.file(".claude.json", r#"{"mcpServers": {"wrong": {"command": "x"}}}"#);
    place.file("claude/.claude.json", r#"{"mcpServers": {"right": {"command": "x"}}}"#);
    let mut command = place.command(["config", "list"]);
    command.env("CLAUDE_CONFIG_DIR", place.path.join("claude"));
    let out = crate::support::Running::start(command).end().fine();
    assert_eq!(place.plain(&out), "~/claude/.claude.json (claude-code)\n  right  x\n");
}

#[test]
fn every_file_error_is_reported() {
    for (text, error) in [
        (&b"{\n\xff}"[..], "line 2: invalid UTF-8"),
        (b"", "line 1, column 1: expected a value"),
        (b"[]", "line 1, the file: expected an object, found an array"),
        (b"{\n\"mcpServers\": 1}", "line 2, mcpServers: expected an object, found a number"),
        (
            b"{\"mcpServers\": {},\n\"mcpServers\": {}}",
            "line 2, mcpServers: duplicate name, on lines 1 and 2",
        ),
        (
            b"{\"servers\": {},\n\"mcpServers\": {}}",
            "line 1, servers: the file also has `mcpServers`; keep only one of them",
        ),
        (
            b"\xef\xbb\xbf{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
            "the file begins with a byte order mark; it must be UTF-8 without one",
        ),
        (
            b"{\"mcpServers\": {\"a\": {\"b\": \"c}}}",
            "line 1, column 28, mcpServers.a.b: unterminated string",
        ),
    ] {
        let place = Place::project();
        std::fs::write(place.path.join("shop/.mcp.json"), text).unwrap();
        place.file(".cursor/mcp.json", r#"{"mcpServers": {"fine": {"command": "x"}}}"#);
        let ran = place.config(&["list"]);
        let expected = format!(
            ".mcp.json (tsugite, claude-code)\n  error: {error}\n~/.cursor/mcp.json (cursor)\n  fine  x\n"
        );
        assert_eq!((ran.code, place.plain(&ran.out)), (1, expected));
    }
}

#[test]
fn error_in_the_list_of_one_project_is_reported() {
    let place = Place::project();
    let here = place.path.join("shop");
    let claude = json!({"mcpServers": {"a": {"command": "x"}}, "projects": {here.to_str().unwrap(): {"mcpServers": []}}});
    place.file(".claude.json", &claude.to_string());
    let ran = place.config(&["list"]);
    let expected = "~/.claude.json, for ~/shop (claude-code)\n  error: line 1, projects[\"~/shop\"].mcpServers: expected an object, found an array\n~/.claude.json (claude-code)\n  a  x\n";
    assert_eq!((ran.code, place.plain(&ran.out).as_str()), (1, expected));
    // An error of the whole file is reported only once.
    place.file(".claude.json", "{");
    let ran = place.config(&["list"]);
    let expected =
        "~/.claude.json (claude-code)\n  error: line 1, column 2: expected a name in double quotes or `}`\n";
    assert_eq!((ran.code, place.plain(&ran.out).as_str()), (1, expected));
}
