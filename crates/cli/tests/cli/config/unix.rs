//! Modes of files and symbolic links.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::SUPPORT;
use crate::support::Place;

fn mode(place: &Place, file: &str) -> u32 {
    fs::metadata(place.path.join(file)).unwrap().permissions().mode() & 0o777
}

#[test]
fn new_file_is_private_and_changed_file_keeps_its_mode() {
    let place = Place::project();
    place.file("shop/.vscode/mcp.json", "{}");
    fs::set_permissions(place.path.join("shop/.vscode/mcp.json"), fs::Permissions::from_mode(0o640)).unwrap();
    for (host, scope) in [("cursor", "--global"), ("vscode", "--project")] {
        place.config(&["add", "a", "https://h/x", "--to", host, scope]).fine();
    }
    // It may hold secrets.
    assert_eq!(mode(&place, ".cursor/mcp.json"), 0o600);
    assert_eq!(mode(&place, "shop/.vscode/mcp.json"), 0o640);
    assert_eq!(mode(&place, "shop/.vscode/mcp.json.bak"), 0o640);
}

#[test]
fn unwritable_folder_stops_all_changes() {
    let place = Place::project();
    place.file(".cursor/mcp.json", "{}").file("config/other", "");
    // A dangling symbolic link: creating the folder fails only when it is attempted.
    symlink("nowhere/at/all", place.path.join("config/tsugite")).unwrap();
    let err = place.plain(&place.config(&["add", "a", "demo", "--to", "cursor,tsugite"]).failed(1));
    assert!(err.starts_with("error: cannot write ~/config/tsugite/mcp.json\n  step  write\n"), "{err}");
    assert_eq!(place.text(".cursor/mcp.json"), "{}");
    assert!(!place.has(".cursor/mcp.json.bak"));
    let left: Vec<_> = fs::read_dir(place.path.join(".cursor")).unwrap().collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn links_are_kept_and_lead_to_one_file() {
    let place = Place::project();
    place.file("dotfiles/mcp.json", "{\"mcpServers\": {}}\n");
    fs::create_dir_all(place.path.join(".cursor")).unwrap();
    fs::create_dir_all(place.path.join("config/tsugite")).unwrap();
    for link in [".cursor/mcp.json", "config/tsugite/mcp.json"] {
        symlink(place.path.join("dotfiles/mcp.json"), place.path.join(link)).unwrap();
    }
    let ran = place.config(&["add", "a", "https://h/x", "--to", "cursor,tsugite"]);
    let expected =
        "cursor: `a` added to ~/.cursor/mcp.json\ntsugite: `a` is already in ~/config/tsugite/mcp.json\n";
    assert_eq!(place.plain(&ran.out), expected);
    assert_eq!(place.plain(&ran.err), "backup saved to ~/dotfiles/mcp.json.bak\n");
    assert_eq!(place.text("dotfiles/mcp.json"), "{\"mcpServers\": {\"a\": {\"url\": \"https://h/x\"}}}\n");
    assert!(fs::symlink_metadata(place.path.join(".cursor/mcp.json")).unwrap().is_symlink());
}

#[test]
fn same_file_is_listed_once() {
    let place = Place::new();
    place.file(".cursor/mcp.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    fs::create_dir_all(place.path.join(SUPPORT).join("Claude")).unwrap();
    let link = place.path.join(SUPPORT).join("Claude/claude_desktop_config.json");
    symlink(place.path.join(".cursor/mcp.json"), link).unwrap();
    let out = place.run(["config", "list"]).fine();
    let expected =
        format!("~/{SUPPORT}/Claude/claude_desktop_config.json (claude-desktop, cursor)\n  a  x\n");
    assert_eq!(place.plain(&out), expected);
}
