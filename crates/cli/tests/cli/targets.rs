//! Targets: names from the files of tsugite and of known hosts.

use serde_json::json;

use crate::support::{Place, Served, TSUGITE, helper};

/// Returns a server list with one working server.
fn listing(list: &str, name: &str) -> String {
    let demo = json!({"command": TSUGITE, "args": ["serve", "--stdio"]});
    json!({list: {name: demo}}).to_string()
}

fn adds(place: &Place, target: &str) {
    assert_eq!(place.run(["call", "--trust-folder", target, "add", "a=1", "b=2"]).fine(), "3\n", "{target}");
}

#[test]
fn name_is_searched_in_user_then_project_configuration() {
    let place = Place::new();
    place.file(".mcp.json", &listing("mcpServers", "one")).file("mcp.json", &listing("servers", "two"));
    place.file("config/tsugite/mcp.json", &listing("mcpServers", "three"));
    for name in ["one", "two", "three"] {
        adds(&place, name);
    }
}

#[test]
fn file_of_any_host_format_is_read() {
    let place = Place::new();
    place.file("claude.json", &listing("mcpServers", "a:b")).file("code.json", &listing("servers", "two"));
    adds(&place, "claude.json:a:b");
    adds(&place, "code.json:two");
}

#[test]
fn host_files_are_found() {
    let place = Place::new();
    let support = if cfg!(target_os = "macos") { "Library/Application Support" } else { "config" };
    place.file(&format!("{support}/Claude/claude_desktop_config.json"), &listing("mcpServers", "desktop"));
    place.file(".cursor/mcp.json", &listing("mcpServers", "cursor"));
    place.file(&format!("{support}/Code/User/mcp.json"), &listing("servers", "code"));
    let own: serde_json::Value = serde_json::from_str(&listing("mcpServers", "local")).unwrap();
    let mut claude: serde_json::Value = serde_json::from_str(&listing("mcpServers", "user")).unwrap();
    // Such a file is larger than the limit for server lists.
    claude["history"] = json!("x".repeat(5 << 20));
    claude["projects"] = json!({place.path.to_str().unwrap(): own});
    place.file(".claude.json", &claude.to_string()).file(".mcp.json", &listing("mcpServers", "project"));
    let targets = [
        "claude-desktop:desktop",
        "cursor:cursor",
        "vscode:code",
        "claude-code:local",
        "claude-code:project",
        "claude-code:user",
    ];
    for target in targets {
        adds(&place, target);
    }
    let err = place.run(["list", "claude-code:proejct"]).failed(1);
    assert!(err.contains("did you mean `project`?"), "{err}");
}

#[test]
fn claude_config_dir_is_respected() {
    let place = Place::new();
    place.file("claude/.claude.json", &listing("mcpServers", "there"));
    let mut command = place.command(["call", "claude-code:there", "add", "a=1", "b=2"]);
    command.env("CLAUDE_CONFIG_DIR", place.path.join("claude"));
    assert_eq!(crate::support::Running::start(command).end().fine(), "3\n");
}

#[test]
fn invalid_entry_does_not_hide_others() {
    let place = Place::new();
    let entries = json!({"mcpServers": {
        "neither": {"args": ["x"]},
        "fine": {"command": TSUGITE, "args": ["serve", "--stdio"]},
    }});
    place.file(".mcp.json", &entries.to_string());
    assert_eq!(place.run(["list", "neither"]).code, 1);
    adds(&place, "fine");
}

#[test]
fn variables_apply_to_files_and_servers() {
    let place = Place::new();
    let entry = json!({"mcpServers": {"demo2": {"command": "${PROGRAM}", "args": ["serve", "--stdio"]}}});
    place.file(".mcp.json", &entry.to_string());
    let program = format!("PROGRAM={TSUGITE}");
    assert_eq!(
        place.run(["call", "--trust-folder", "demo2", "add", "a=1", "b=2", "-e", &program]).fine(),
        "3\n"
    );
}

#[test]
fn variables_are_passed_to_servers() {
    let place = Place::new();
    let run = |env: &str| {
        let mut command =
            place.command(["ping", "-e", env, "--", helper(), "script", "if_environment WOOD oak { serve }"]);
        command.env("WOOD", "oak");
        crate::support::Running::start(command).end().code
    };
    assert_eq!((run("WOOD=oak"), run("WOOD"), run("WOOD=ash"), run("OTHER=x")), (0, 0, 2, 2));
}

#[test]
fn transport_of_an_entry_is_used() {
    let served = Served::start();
    let old = served.url.replace("/mcp", "/sse");
    let place = Place::new();
    let entries = json!({"mcpServers": {
        "new": {"type": "http", "url": served.url},
        "old": {"type": "sse", "url": old},
        "wrong": {"type": "http", "url": old},
    }});
    place.file(".mcp.json", &entries.to_string());
    adds(&place, "new");
    adds(&place, "old");
    let err = place.run(["list", "--trust-folder", "wrong"]).failed(2);
    assert!(err.contains("step  http"), "{err}");
    // The command line overrides the entry.
    assert_eq!(
        place.run(["call", "--trust-folder", "wrong", "add", "a=1", "b=2", "--transport", "sse"]).fine(),
        "3\n"
    );
}
