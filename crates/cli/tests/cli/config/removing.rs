//! `config remove`: removes one server from the named files and changes nothing else.

use serde_json::{Value, json};

use super::SUPPORT;
use crate::support::Place;

const LIST: &str = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, // one\n    \"b\": {\"command\": \"y\"}\n  }\n}\n";

#[test]
fn only_the_named_server_is_removed() {
    let place = Place::project();
    place.file(".cursor/mcp.json", LIST).file("config/tsugite/mcp.json", LIST);
    let ran = place.config(&["remove", "a", "--from", "cursor"]);
    assert_eq!(place.plain(&ran.out), "cursor: `a` removed from ~/.cursor/mcp.json\n");
    assert_eq!(place.plain(&ran.err), "backup saved to ~/.cursor/mcp.json.bak\n");
    assert_eq!(
        place.text(".cursor/mcp.json"),
        "{\n  \"mcpServers\": {\n    // one\n    \"b\": {\"command\": \"y\"}\n  }\n}\n"
    );
    assert_eq!(
        (place.text(".cursor/mcp.json.bak").as_str(), place.text("config/tsugite/mcp.json").as_str()),
        (LIST, LIST)
    );
}

#[test]
fn ambiguous_removal_needs_scope_or_all() {
    let place = Place::project();
    let settings = "{\n  // mine\n  \"mcp\": {\"servers\": {\"a\": {\"command\": \"x\"}}},\n}";
    place.file(".cursor/mcp.json", LIST).file("shop/.cursor/mcp.json", LIST).file("shop/.mcp.json", LIST);
    place.file(&format!("{SUPPORT}/Code/User/settings.json"), settings);
    let err = place.plain(&place.config(&["remove", "a", "--from", "cursor"]).failed(1));
    let expected = "\
error: cursor has `a` in more than one list
  step  name
  seen  .cursor/mcp.json
        ~/.cursor/mcp.json; nothing was written
  try   --project removes the one in .cursor/mcp.json
  try   --global removes the one in ~/.cursor/mcp.json
  try   --from all removes it everywhere
";
    assert_eq!(err, expected);
    let ran = place.config(&["remove", "a", "--from", "all", "--dry-run"]);
    assert_eq!((ran.code, place.text(".cursor/mcp.json").as_str()), (0, LIST));
    let out = place.config(&["remove", "a", "--from", "cursor", "--project"]).fine();
    assert_eq!(out, "cursor: `a` removed from .cursor/mcp.json\n");
    let out = place.config(&["remove", "a", "--from", "all", "--json"]).fine();
    let out: Value = serde_json::from_str(&place.plain(&out)).unwrap();
    let done: Vec<_> = out["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (&change["host"], &change["path"], &change["done"]))
        .collect();
    let expected = [
        ("tsugite, claude-code", "~/shop/.mcp.json".to_owned()),
        ("cursor", "~/.cursor/mcp.json".to_owned()),
        ("vscode", format!("~/{SUPPORT}/Code/User/settings.json")),
    ];
    let expected = expected.map(|(host, path)| (json!(host), json!(path), json!("removed")));
    assert_eq!(done, expected.iter().map(|(a, b, c)| (a, b, c)).collect::<Vec<_>>());
    assert_eq!(
        place.text(&format!("{SUPPORT}/Code/User/settings.json")),
        settings.replace("{\"a\": {\"command\": \"x\"}}", "{}")
    );
}

#[test]
fn hosts_sharing_a_file_make_one_change() {
    let place = Place::project();
    place.file("shop/.mcp.json", LIST);
    let out = place.config(&["remove", "a", "--from", "claude-code,tsugite"]).fine();
    assert_eq!(out, "claude-code: `a` removed from .mcp.json\n");
}

#[test]
fn unknown_name_gets_a_suggestion() {
    let place = Place::project();
    place.file(".cursor/mcp.json", &LIST.replace("\"a\"", "\"issues\""));
    place.file("config/tsugite/mcp.json", &LIST.replace("\"a\"", "\"isues\""));
    let err = place.plain(&place.config(&["remove", "isues", "--from", "tsugite,cursor"]).failed(1));
    let expected = "\
error: cursor has no server named `isues`
  step  name
  seen  searched
        .cursor/mcp.json (not found)
        ~/.cursor/mcp.json (2 other servers)
  try   did you mean `issues`?
";
    assert_eq!(err, expected);
    assert!(!place.has("config/tsugite/mcp.json.bak"));
    let err = place.config(&["remove", "x", "--from", "all"]).failed(1);
    assert!(err.starts_with("error: no configuration file has a server named `x`"), "{err}");
    let err = place.config(&["remove", "x", "--from", "vscod"]).failed(1);
    assert!(err.contains("did you mean `vscode`?"), "{err}");
    let err = place.config(&["remove", "x"]).failed(1);
    assert!(err.contains("--from"), "{err}");
    let err = place.config(&["remove", "x", "--from", "claude-desktop", "--local"]).failed(1);
    assert!(err.starts_with("error: claude-desktop does not support --local"), "{err}");
}

#[test]
fn unreadable_file_prevents_removal() {
    let place = Place::project();
    place.file("shop/.cursor/mcp.json", "{\n\"mcpServers\": {\"a\": }}").file(".cursor/mcp.json", LIST);
    for from in ["cursor", "all"] {
        let err = place.config(&["remove", "a", "--from", from]).failed(1);
        assert!(err.starts_with("error: cannot read .cursor/mcp.json\n  step  read\n  seen  line 2, column 21, mcpServers.a: expected a value; nothing was written\n"), "{err}");
    }
    assert_eq!(place.text(".cursor/mcp.json"), LIST);
    // A file outside the scope is not read.
    place.config(&["remove", "a", "--from", "cursor", "--global"]).fine();
}
