//! `config add`: writes the format of each host and changes no other byte.

use std::fs;

use serde_json::{Value, json};

use super::SUPPORT;
use crate::support::{Place, Served};

fn entry(place: &Place, file: &str, list: &str) -> Value {
    let value: Value = serde_json::from_str(&place.plain(&place.text(file))).unwrap();
    value[list].clone()
}

#[test]
fn url_is_written_in_the_format_of_each_host() {
    let place = Place::project();
    let out = place
        .config(&[
            "add",
            "a",
            "https://example.com/mcp",
            "--to",
            "cursor,claude-code,vscode,claude-desktop,tsugite",
            "-H",
            "X-Key: ab ${KEY:}",
        ])
        .fine();
    let expected = format!(
        "\
cursor: `a` added to ~/.cursor/mcp.json
claude-code: `a` added to ~/.claude.json
vscode: `a` added to ~/{SUPPORT}/Code/User/mcp.json
claude-desktop: `a` added to ~/{SUPPORT}/Claude/claude_desktop_config.json
tsugite: `a` added to ~/config/tsugite/mcp.json
"
    );
    assert_eq!(place.plain(&out), expected);
    let (url, headers) = ("https://example.com/mcp", json!({"X-Key": "ab ${KEY:}"}));
    let found = json!({"a": {"url": url, "headers": headers}});
    let typed = json!({"a": {"type": "http", "url": url, "headers": headers}});
    let bridge = json!({"a": {"command": "TSUGITE", "args": ["bridge", url, "-H", "X-Key: ab ${KEY:}"]}});
    assert_eq!(entry(&place, ".cursor/mcp.json", "mcpServers"), found);
    assert_eq!(entry(&place, ".claude.json", "mcpServers"), typed);
    assert_eq!(entry(&place, &format!("{SUPPORT}/Code/User/mcp.json"), "servers"), typed);
    assert_eq!(entry(&place, &format!("{SUPPORT}/Claude/claude_desktop_config.json"), "mcpServers"), bridge);
    assert_eq!(entry(&place, "config/tsugite/mcp.json", "mcpServers"), found);
    // All files can be read again.
    assert_eq!(place.config(&["list"]).code, 0);
}

#[test]
fn transport_option_is_written() {
    for (transport, kind) in [("http", "http"), ("sse", "sse")] {
        let place = Place::project();
        place
            .config(&[
                "add",
                "a",
                "https://h/x",
                "--to",
                "cursor,vscode,claude-desktop,claude-code",
                "--transport",
                transport,
            ])
            .fine();
        let typed = json!({"a": {"type": kind, "url": "https://h/x"}});
        assert_eq!(entry(&place, ".cursor/mcp.json", "mcpServers"), typed);
        assert_eq!(entry(&place, ".claude.json", "mcpServers"), typed);
        assert_eq!(entry(&place, &format!("{SUPPORT}/Code/User/mcp.json"), "servers"), typed);
        let bridge =
            json!({"a": {"command": "TSUGITE", "args": ["bridge", "https://h/x", "--transport", kind]}});
        assert_eq!(
            entry(&place, &format!("{SUPPORT}/Claude/claude_desktop_config.json"), "mcpServers"),
            bridge
        );
    }
}

#[test]
fn url_for_claude_desktop_works_through_a_bridge() {
    let served = Served::start();
    let place = Place::project();
    let old = served.url.replace("/mcp", "/sse");
    place.config(&["add", "new", &served.url, "--to", "claude-desktop", "-H", "X-Key: a b"]).fine();
    place.config(&["add", "old", &old, "--to", "claude-desktop", "--transport", "sse"]).fine();
    for name in ["claude-desktop:new", "claude-desktop:old"] {
        assert_eq!(place.run(["call", name, "add", "a=1", "b=2"]).fine(), "3\n", "{name}");
    }
}

#[test]
fn command_is_written_in_the_format_of_each_host() {
    let place = Place::project();
    let words = [
        "add",
        "a",
        "--to",
        "cursor,claude-code,vscode,tsugite",
        "-e",
        "A=1",
        "-e",
        "B",
        "--",
        "npx",
        "-y",
        "x",
        "--",
        "${Z}",
    ];
    place.config(&words).fine();
    let with = |b: &str| json!({"a": {"type": "stdio", "command": "npx", "args": ["-y", "x", "--", "${Z}"], "env": {"A": "1", "B": b}}});
    assert_eq!(entry(&place, ".cursor/mcp.json", "mcpServers"), with("${env:B}"));
    assert_eq!(entry(&place, ".claude.json", "mcpServers"), with("${B}"));
    assert_eq!(entry(&place, &format!("{SUPPORT}/Code/User/mcp.json"), "servers"), with("${env:B}"));
    let mut own = with("${B}");
    own["a"].as_object_mut().unwrap().shift_remove("type");
    assert_eq!(entry(&place, "config/tsugite/mcp.json", "mcpServers"), own);
    // Claude Desktop does not support variables.
    let err = place.config(&["add", "a", "--to", "claude-desktop", "-e", "B", "--", "npx"]).failed(1);
    assert!(err.contains("try   -e B=VALUE writes the value itself to the file"), "{err}");
}

#[test]
fn relative_command_is_made_absolute_in_global_files() {
    let place = Place::project();
    place.config(&["add", "a", "--to", "cursor", "--", "./bin/x"]).fine();
    place.config(&["add", "a", "--to", "cursor", "--project", "--", "./bin/x"]).fine();
    assert_eq!(entry(&place, ".cursor/mcp.json", "mcpServers")["a"]["command"], "~/shop/bin/x");
    assert_eq!(entry(&place, "shop/.cursor/mcp.json", "mcpServers")["a"]["command"], "./bin/x");
}

#[test]
fn demo_entry_starts_this_program() {
    let place = Place::project();
    let out = place.config(&["add", "d", "demo"]).fine();
    assert_eq!(place.plain(&out), "tsugite: `d` added to ~/config/tsugite/mcp.json\n");
    assert_eq!(place.run(["call", "d", "add", "a=1", "b=2"]).fine(), "3\n");
}

#[test]
fn each_scope_has_its_file() {
    let place = Place::project();
    place.config(&["add", "a", "demo", "--to", "cursor,vscode,claude-code,tsugite", "--project"]).fine();
    for (file, list) in [
        ("shop/.cursor/mcp.json", "mcpServers"),
        ("shop/.vscode/mcp.json", "servers"),
        ("shop/.mcp.json", "mcpServers"),
    ] {
        let demo = json!({"a": {"type": "stdio", "command": "TSUGITE", "args": ["serve", "--stdio"]}});
        assert_eq!(entry(&place, file, list), demo, "{file}");
    }
    place.file(".claude.json", "{\n\t\"numStartups\": 3\n}\n");
    let out = place.config(&["add", "a", "https://h/x", "--to", "claude-code", "--local"]);
    assert_eq!(place.plain(&out.out), "claude-code: `a` added to ~/.claude.json, for ~/shop\n");
    assert_eq!(place.plain(&out.err), "backup saved to ~/.claude.json.bak\n");
    let expected = "{\n\t\"numStartups\": 3,\n\t\"projects\": {\n\t\t\"~/shop\": {\n\t\t\t\"mcpServers\": {\n\t\t\t\t\"a\": {\n\t\t\t\t\t\"type\": \"http\",\n\t\t\t\t\t\"url\": \"https://h/x\"\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n}\n";
    assert_eq!(place.plain(&place.text(".claude.json")), expected);
    // A list that takes precedence is noted.
    let ran = place.config(&["add", "a", "demo", "--to", "cursor"]);
    assert_eq!(ran.err, "note: .cursor/mcp.json also has `a`, and takes precedence for cursor here\n");
    for (words, message) in [
        ("add b demo --to claude-desktop --project", "claude-desktop does not support --project"),
        ("add b demo --to cursor --local", "cursor does not support --local"),
    ] {
        let err = place.config(&words.split(' ').collect::<Vec<_>>()).failed(1);
        assert!(
            err.starts_with(&format!("error: {message}")) && err.contains("try   it supports --global"),
            "{err}"
        );
    }
}

const MINE: &str = "\u{feff}// My servers.\r\n{\r\n    \"inputs\": [ 1 ],\r\n    \"servers\": {\r\n        // the first\r\n        \"one\": { \"command\": \"x\" }, // it works\r\n    },\r\n    \"more\" : { }\r\n}";

#[test]
fn only_the_entry_changes() {
    let place = Place::project();
    place.file("shop/.vscode/mcp.json", MINE);
    let ran = place.config(&["add", "a", "https://h/x", "--to", "vscode", "--project"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "vscode: `a` added to .vscode/mcp.json\n"));
    assert_eq!(place.plain(&ran.err), "backup saved to ~/shop/.vscode/mcp.json.bak\n");
    let added = "it works\r\n        \"a\": {\r\n            \"type\": \"http\",\r\n            \"url\": \"https://h/x\"\r\n        },\r\n    },";
    assert_eq!(place.text("shop/.vscode/mcp.json"), MINE.replace("it works\r\n    },", added));
    assert_eq!(place.text("shop/.vscode/mcp.json.bak"), MINE);
    // Removing the entry restores the file.
    place.config(&["remove", "a", "--from", "vscode"]).fine();
    assert_eq!(place.text("shop/.vscode/mcp.json"), MINE);
    assert!(place.has("shop/.vscode/mcp.json.bak.1") && !place.has("shop/.vscode/mcp.json.bak.2"));
}

#[test]
fn dry_run_shows_the_diff_and_writes_nothing() {
    let place = Place::project();
    place.file("shop/.vscode/mcp.json", MINE);
    let words = ["add", "a", "https://h/x", "--to", "vscode,cursor", "--project", "--dry-run"];
    let ran = place.config(&words);
    let expected = "\
vscode: `a` would be added to .vscode/mcp.json
cursor: `a` would be added to .cursor/mcp.json
--- .vscode/mcp.json
+++ .vscode/mcp.json
@@ -4,6 +4,10 @@
     \"servers\": {
         // the first
         \"one\": { \"command\": \"x\" }, // it works
+        \"a\": {
+            \"type\": \"http\",
+            \"url\": \"https://h/x\"
+        },
     },
     \"more\" : { }
 }
\\ No newline at end of file
--- /dev/null
+++ .cursor/mcp.json
@@ -0,0 +1,7 @@
+{
+  \"mcpServers\": {
+    \"a\": {
+      \"url\": \"https://h/x\"
+    }
+  }
+}
";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, expected, ""));
    assert_eq!(place.text("shop/.vscode/mcp.json"), MINE);
    assert!(!place.has("shop/.vscode/mcp.json.bak") && !place.has("shop/.cursor"));
    let json: Value =
        serde_json::from_str(&place.config(&[&words[..], &["--json"]].concat()).fine()).unwrap();
    assert_eq!((&json["dryRun"], &json["changes"][0]["backup"]), (&json!(true), &Value::Null));
    assert!(json["changes"][0]["diff"].as_str().unwrap().starts_with("@@ -4,6 +4,10 @@\n"), "{json}");
}

#[test]
fn changes_are_printed_as_json() {
    let place = Place::project();
    place.file(".cursor/mcp.json", "{}");
    let out = place.config(&["add", "a", "demo", "--to", "cursor", "--json"]).fine();
    let expected = json!({"name": "a", "dryRun": false, "changes": [{
        "host": "cursor", "path": "~/.cursor/mcp.json", "project": null, "done": "added",
        "backup": "~/.cursor/mcp.json.bak", "diff": null,
    }]});
    assert_eq!(serde_json::from_str::<Value>(&place.plain(&out)).unwrap(), expected);
    let out = place.config(&["add", "a", "demo", "--to", "cursor", "--json"]).fine();
    assert!(out.contains("\"done\":\"already there\",\"backup\":null"), "{out}");
}

#[test]
fn replacing_a_different_server_needs_force() {
    let place = Place::project();
    let text = "{\n  \"mcpServers\": {\n    \"b\": {},\n    // as I like it\n    \"a\": {\"url\": \"https://h/x\"} // stays\n  }\n}\n";
    place.file(".cursor/mcp.json", text);
    let out = place.config(&["add", "a", "https://h/x", "--to", "cursor"]).fine();
    assert_eq!(place.plain(&out), "cursor: `a` is already in ~/.cursor/mcp.json\n");
    let err = place.config(&["add", "a", "https://h/y", "--to", "claude-desktop,cursor"]).failed(1);
    let expected = "error: cursor already has a different `a`\n  step  edit\n  seen  ~/.cursor/mcp.json, line 5; nothing was written\n  try   --force replaces it\n  try   choose another name\n";
    assert_eq!(place.plain(&err), expected);
    assert_eq!(place.text(".cursor/mcp.json"), text);
    assert!(!place.has(".cursor/mcp.json.bak") && !place.has(&format!("{SUPPORT}/Claude")));
    let ran = place.config(&["add", "a", "https://h/y", "--to", "cursor", "--force"]);
    assert_eq!(place.plain(&ran.out), "cursor: `a` replaced in ~/.cursor/mcp.json\n");
    let after = text.replace("{\"url\": \"https://h/x\"}", "{\n      \"url\": \"https://h/y\"\n    }");
    assert_eq!(place.text(".cursor/mcp.json"), after);
}

#[test]
fn unreadable_file_stops_all_changes() {
    let broken = "{\n  \"mcpServers\": {\n    \"x\": {\"command\": \"y\",,}\n  }\n}";
    for (text, seen) in [
        (broken, "line 3, column 26, mcpServers.x: expected a name in double quotes or `}`"),
        ("{\"mcpServers\": []}", "line 1, mcpServers: expected an object, found an array"),
        ("[]", "line 1, the file: expected an object, found an array"),
        ("{\"servers\": {}}", "its servers are in `servers`, but cursor reads `mcpServers`"),
        ("{\"mcpServers\": {\"a\": 1,\n\"a\": 2}}", "line 2, mcpServers.a: duplicate name, on lines 1 and 2"),
    ] {
        let place = Place::project();
        place.file(".cursor/mcp.json", text);
        let err = place.config(&["add", "a", "demo", "--to", "vscode,cursor,tsugite", "--force"]).failed(1);
        let err = place.plain(&err);
        let subjects = ["read", "change"].map(|verb| format!("error: cannot {verb} ~/.cursor/mcp.json\n"));
        assert!(subjects.iter().any(|subject| err.starts_with(subject)), "{err}");
        assert!(err.contains(&format!("  seen  {seen}; nothing was written\n")), "{err}");
        assert_eq!(place.text(".cursor/mcp.json"), text);
        assert!(!place.has(&format!("{SUPPORT}/Code")) && !place.has("config/tsugite"), "{text}");
    }
    // The same as JSON.
    let place = Place::project();
    place.file(".cursor/mcp.json", broken);
    let err: Value =
        serde_json::from_str(&place.config(&["add", "a", "demo", "--to", "cursor", "--json"]).failed(1))
            .unwrap();
    assert_eq!((&err["error"]["step"], &err["error"]["exit"]), (&json!("read"), &json!(1)));
}

#[test]
fn large_file_keeps_every_other_byte() {
    let place = Place::project();
    let history: Vec<String> = (0..120_000).map(|number| format!("      {{\"display\": \"line {number} of a long story, told {{}} at length\", \"n\": {number}}}")).collect();
    let text = format!(
        "{{\n  \"numStartups\": 1,\n  \"history\": [\n{}\n  ],\n  \"mcpServers\": {{\n    \"x\": {{\"command\": \"y\"}}\n  }},\n  \"last\": true\n}}",
        history.join(",\n")
    );
    assert!(text.len() > 8 << 20);
    place.file(".claude.json", &text);
    place.config(&["add", "a", "https://h/x", "--to", "claude-code"]).fine();
    let added = "\"y\"},\n    \"a\": {\n      \"type\": \"http\",\n      \"url\": \"https://h/x\"\n    }\n";
    assert!(place.text(".claude.json") == text.replace("\"y\"}\n", added));
    assert!(place.text(".claude.json.bak") == text);
    assert!(place.config(&["list"]).fine().contains("  a  https://h/x (http)\n"));
}

#[test]
fn empty_file_is_treated_as_missing() {
    let place = Place::project();
    place.file(".cursor/mcp.json", "\n");
    place.config(&["add", "a", "https://h/x", "--to", "cursor"]).fine();
    assert_eq!(
        place.text(".cursor/mcp.json"),
        "{\n  \"mcpServers\": {\n    \"a\": {\n      \"url\": \"https://h/x\"\n    }\n  }\n}\n"
    );
}

#[test]
fn usage_errors_write_nothing() {
    let place = Place::project();
    for (words, message) in [
        (&["add"][..], "`config add` needs a name for the server"),
        (&["add", "a"], "`config add` needs a TARGET"),
        (&["add", "", "demo"], "\"\" is not a valid server name"),
        (&["add", "a\u{1b}", "demo"], "\"a\\u{1b}\" is not a valid server name"),
        (&["add", "a", "demo", "more"], "unexpected argument \"more\""),
        (&["add", "a", "demo", "--", "x"], "unexpected argument \"demo\""),
        (&["add", "a", "--", ""], "the command is empty"),
        (&["add", "a", "ftp://h"], "unsupported URL scheme `ftp`"),
        (&["add", "a", "nothing"], "no server named `nothing`"),
        (&["add", "a", "demo", "--to", "curser"], "unknown host `curser`"),
        (&["add", "a", "demo", "-H", "K: v"], "-H only applies to servers with a URL"),
        (&["add", "a", "demo", "--transport", "sse"], "--transport only applies to servers with a URL"),
        (&["add", "a", "https://h", "-e", "K=v"], "-e only applies to servers that the host starts"),
    ] {
        let err = place.config(words).failed(1);
        assert!(err.starts_with(&format!("error: {message}")), "{words:?}: {err}");
    }
    let err = place.config(&["add", "a", "demo", "--global", "--project"]).failed(1);
    assert!(err.contains("cannot be used with"), "{err}");
    assert_eq!(fs::read_dir(&place.path).unwrap().count(), 1);
}
