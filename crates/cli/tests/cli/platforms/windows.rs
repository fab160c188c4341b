//! What only Windows has: batch files, and the folders of its users.

use std::fs;

use crate::support::{Place, TSUGITE};

/// Writes a batch file that starts a server, as npm does for `npx`, beside a script for other shells.
fn write_batch(place: &Place) {
    place.file("bin/srv.cmd", &format!("@echo off\r\n\"{TSUGITE}\" %*\r\n"));
    place.file("bin/srv", "#!/bin/sh\nexit 1\n");
}

#[test]
fn batch_file_is_found_by_its_name_alone() {
    let place = Place::new();
    write_batch(&place);
    let mut command = place.command(["call", "add", "a=1", "b=2", "--", "srv", "serve", "--stdio"]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(place.path.join("bin")).chain(std::env::split_paths(&path));
    command.env("Path", std::env::join_paths(folders).unwrap());
    assert_eq!(crate::support::Running::start(command).end().fine(), "3\n");
    assert_eq!(place.run(["call", "add", "a=1", "b=2", "--", r"bin\srv", "serve", "--stdio"]).fine(), "3\n");
}

#[test]
fn configuration_of_hosts_is_in_the_folders_of_windows() {
    let place = Place::new();
    let run = |words: &[&str]| {
        let mut command = place.command(words);
        let (local, roaming) = (place.path.join("Local"), place.path.join("Roaming"));
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME").env_remove("HOME");
        command.env("USERPROFILE", &place.path).env("APPDATA", roaming).env("LOCALAPPDATA", local);
        crate::support::Running::start(command).end().fine()
    };
    run(&["config", "add", "mine", "--to", "claude-desktop", "--", TSUGITE, "serve", "--stdio"]);
    assert!(place.path.join(r"Roaming\Claude\claude_desktop_config.json").exists());
    run(&["config", "add", "mine", "--", TSUGITE, "serve", "--stdio"]);
    let own = fs::read_to_string(place.path.join(r"Roaming\tsugite\mcp.json")).unwrap();
    assert!(own.contains("mine"), "{own}");
    run(&["config", "add", "mine", "--to", "cursor", "--", TSUGITE, "serve", "--stdio"]);
    assert!(place.path.join(r".cursor\mcp.json").exists());
}
