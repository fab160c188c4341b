//! `config doctor`: reports problems with their position and a hint.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use super::SUPPORT;
use crate::paths::tsugite_path;
use crate::support::{LONG, Place, Running, Served, TSUGITE, always, helper};

/// Runs `config doctor` with a known PATH, in which only `tsugite` is found.
fn doctor(place: &Place, words: &[&str]) -> crate::support::Ran {
    let mut command = place.command(["config", "doctor"].iter().chain(words));
    command.current_dir(place.path.join("shop")).env("PATH", path(place)).env_remove("NO_SUCH_VARIABLE");
    Running::start(command).end()
}

fn path(place: &Place) -> OsString {
    let folders = [place.path.join("nowhere"), Path::new(tsugite_path()).parent().unwrap().to_owned()];
    std::env::join_paths(folders).unwrap()
}

#[test]
fn valid_servers_have_no_findings() {
    let place = Place::project();
    place.file(
        "config/tsugite/mcp.json",
        &json!({"mcpServers": {"demo2": {"command": TSUGITE}, "found": {"command": "tsugite"}}}).to_string(),
    );
    place.file(".cursor/mcp.json", r#"{"mcpServers": {}}"#);
    let out = doctor(&place, &[]).fine();
    let expected = "\
~/config/tsugite/mcp.json (tsugite)
  demo2  ok
  found  ok
~/.cursor/mcp.json (cursor)
  no servers
2 files, 2 servers: 0 problems, 0 warnings
";
    assert_eq!(place.plain(&out), expected);
    assert_eq!(doctor(&Place::project(), &[]).fine(), "0 files, 0 servers: 0 problems, 0 warnings\n");
}

#[test]
fn findings_have_line_field_and_hint() {
    let place = Place::project();
    place.file(
        "shop/.mcp.json",
        r#"{
  "mcpServers": {
    "typo": {"comand": "x"},
    "gone": {"command": "no-such-program"},
    "path": {"command": "./no/such"},
    "unset": {"command": "tsugite", "env": {"A": "${NO_SUCH_VARIABLE}", "B": "${NO_SUCH_VARIABLE:-b}"}},
    "wrong": {"type": "http", "url": "https://h/", "headers": {"K": "${env:HOME}"}},
    "untyped": {"url": "https://h/mcp"},
    "bare": {"type": "http", "url": "example.com/mcp"},
    "strange": {"type": "http", "url": "ws://example.com/mcp", "transport": "ws"},
    "open": {"type": "http", "url": "http://example.com/mcp"},
    "near": {"type": "http", "url": "http://127.0.0.1:8808/mcp"},
    "secret": {"type": "http", "url": "https://h/?token=abcdefghij", "headers": {"Authorization": "Bearer abcdefghij"}},
    "args": {"command": "tsugite", "args": ["--api-key", "abcdefghij"], "env": {"T": "ghp_abcdefghij"}},
    "off": {"command": "no-such-program", "disabled": true}
  }
}"#,
    );
    let ran = doctor(&place, &[]);
    let path = place.plain(path(&place).to_str().unwrap());
    let missing = fs::metadata(place.path.join("shop/no/such")).unwrap_err();
    let expected = format!(
        r#".mcp.json (tsugite, claude-code)
  typo
    problem: line 3, mcpServers.typo: it has neither `command` nor `url`
    problem: line 3, mcpServers.typo.comand: no host supports this field
      try did you mean `command`?
  gone
    problem: line 4, mcpServers.gone.command: `no-such-program` not found in PATH: {path}
  path
    problem: line 5, mcpServers.path.command: cannot start `./no/such`: {missing}
  unset
    problem: line 6, mcpServers.unset.env.A: the environment variable NO_SUCH_VARIABLE is not set
      try set it in the environment of the host
  wrong
    problem: line 7, mcpServers.wrong.headers.K: claude-code does not support `${{env:HOME}}`
      try write `${{HOME}}` for claude-code
  untyped
    problem: line 8, mcpServers.untyped.url: Claude Code ignores a server with a URL and no `type`
      try add "type": "http" for Streamable HTTP, or "sse" for HTTP+SSE
  bare
    problem: line 9, mcpServers.bare.url: the URL has no scheme
      try begin it with https:// or http://
  strange
    problem: line 10, mcpServers.strange.transport: no host supports this field
      try did you mean `type`?
    problem: line 10, mcpServers.strange.url: unsupported URL scheme
      try begin it with https:// or http://
  open
    warning: line 11, mcpServers.open.url: http:// is not encrypted: others on the network can read and change the messages
  near  ok
  secret
    warning: line 13, mcpServers.secret.url: this looks like a secret in plain text
      try use `${{NAME}}` to take it from an environment variable
    warning: line 13, mcpServers.secret.headers.Authorization: this looks like a secret in plain text
      try use `${{NAME}}` to take it from an environment variable
  args
    warning: line 14, mcpServers.args.args[1]: this looks like a secret in plain text
      try use `${{NAME}}` to take it from an environment variable
    warning: line 14, mcpServers.args.env.T: this looks like a secret in plain text
      try use `${{NAME}}` to take it from an environment variable
  off  disabled
    warning: line 15, mcpServers.off.command: `no-such-program` not found in PATH: {path}
1 file, 13 servers: 10 problems, 6 warnings
"#
    );
    assert_eq!((ran.code, place.plain(&ran.out), ran.err.as_str()), (1, expected, ""));
}

#[test]
fn each_host_has_its_own_checks() {
    let place = Place::project();
    place.file(
        &format!("{SUPPORT}/Claude/claude_desktop_config.json"),
        r#"{"mcpServers": {"u": {"url": "https://h/mcp"}, "v": {"command": "tsugite", "args": ["${HOME}"]}}}"#,
    );
    place.file("shop/.vscode/mcp.json", "{\n\"inputs\": [{\"id\": \"known\"}],\n\"servers\": {\"i\": {\"command\": \"tsugite\", \"args\": [\"${input:known}\", \"${input:other}\"]},\n\"v\": {\"command\": \"tsugite\", \"args\": [\"${HOME}\"]}, \"s\": {\"type\": \"http\", \"url\": \"unix:///tmp/x\"}}}");
    place.file("shop/.cursor/mcp.json", "{\n\"servers\": {}}");
    place.file(".cursor/mcp.json", "{\n\"mcpServer\": {}}");
    place.file(".claude.json", "{\"mcpServers\": {\"x\": {\"command\": \"tsugite\"}");
    let ran = doctor(&place, &[]);
    let expected = format!(
        r#"~/{SUPPORT}/Claude/claude_desktop_config.json (claude-desktop)
  u
    problem: line 1, mcpServers.u.url: Claude Desktop does not support URLs; it only starts programs
      try `tsugite config add u URL --to claude-desktop --force` writes an entry that starts a bridge to it
  v
    problem: line 1, mcpServers.v.args[0]: claude-desktop does not support `${{HOME}}`
~/.claude.json (claude-code)
  problem: line 1, column 44, mcpServers: expected `,` or `}}`
.cursor/mcp.json (cursor)
  problem: line 2, servers: cursor reads `mcpServers`
~/.cursor/mcp.json (cursor)
  problem: line 2, mcpServer: no host reads this field
    try did you mean `mcpServers`?
.vscode/mcp.json (vscode)
  i
    problem: line 3, servers.i.args[1]: `inputs` has no entry "other"
  v
    problem: line 4, servers.v.args[0]: vscode does not support `${{HOME}}`
      try write `${{env:HOME}}` for vscode
  s  ok
5 files, 5 servers: 7 problems, 0 warnings
"#
    );
    assert_eq!((ran.code, place.plain(&ran.out)), (1, expected));
}

#[test]
fn shadowed_server_names_the_one_in_use() {
    let place = Place::project();
    let list = r#"{"mcpServers": {"a": {"command": "tsugite"}}}"#;
    let here = place.path.join("shop");
    let claude = json!({"mcpServers": {"a": {"command": "tsugite"}}, "projects": {here.to_str().unwrap(): {"mcpServers": {"a": {"command": "tsugite"}}}}});
    place
        .file("shop/.cursor/mcp.json", list)
        .file(".cursor/mcp.json", list)
        .file("shop/.mcp.json", list)
        .file(".claude.json", &claude.to_string());
    let out = place.plain(&doctor(&place, &[]).fine());
    let warnings: Vec<&str> = out.lines().filter(|line| line.contains("warning: ")).map(str::trim).collect();
    assert_eq!(
        warnings,
        [
            "warning: line 1, mcpServers.a: claude-code uses the one in ~/.claude.json, for ~/shop instead",
            "warning: line 1, mcpServers.a: claude-code uses the one in ~/.claude.json, for ~/shop instead",
            "warning: line 1, mcpServers.a: cursor uses the one in .cursor/mcp.json instead",
        ]
    );
}

#[test]
fn connect_reports_revision_or_failed_step() {
    let served = Served::start();
    let closed = always("401 Unauthorized", "");
    let place = Place::project();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let servers = json!({"mcpServers": {
        "dead": {"command": helper(), "args": ["fails", "3", "out of wood"]},
        "silent": {"command": helper(), "args": ["holds", port]},
        "closed": {"url": format!("http://{closed}/mcp")},
        "web": {"url": served.url},
        "demo2": {"command": TSUGITE, "args": ["serve", "--stdio"]},
        "off": {"command": helper(), "args": ["fails", "3", "out of wood"], "disabled": true},
    }});
    place.file("config/tsugite/mcp.json", &servers.to_string());
    let ran = doctor(&place, &["--connect", "--timeout", "5", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (2, ""), "{ran:?}");
    let out: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&out["problems"], &out["unreached"]), (&json!(0), &json!(3)), "{out}");
    let servers = out["files"][0]["servers"].as_array().unwrap();
    let reported: Vec<_> = servers
        .iter()
        .map(|server| {
            (
                server["name"].as_str().unwrap(),
                server["connect"]["connected"].as_bool(),
                server["connect"]["exit"].as_u64(),
            )
        })
        .collect();
    let expected = [
        ("dead", Some(false), Some(2)),
        ("silent", Some(false), Some(6)),
        ("closed", Some(false), Some(5)),
        ("web", Some(true), None),
        ("demo2", Some(true), None),
        ("off", None, None),
    ];
    assert_eq!(reported, expected);
    assert_eq!(servers[2]["connect"]["step"], "authorization");
    assert_eq!(servers[4]["connect"]["revision"], "2026-07-28");
    // A server that ignores the end of its input is killed. This resets its connection on some systems.
    let mut connection = held.accept().unwrap().0;
    connection.set_read_timeout(Some(LONG)).unwrap();
    let kind = connection.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(kind, Ok(0) | Err(ErrorKind::ConnectionReset)), "{kind:?}");
    // A problem in a file takes precedence.
    place.file(".cursor/mcp.json", "{");
    assert_eq!(doctor(&place, &["--connect", "--timeout", "1"]).code, 1);
}

#[test]
fn unreachable_server_is_printed() {
    let place = Place::project();
    place.file("config/tsugite/mcp.json", &json!({"mcpServers": {"dead": {"command": helper(), "args": ["fails", "3", "out of wood"]}, "demo2": {"command": TSUGITE, "args": ["serve", "--stdio"]}}}).to_string());
    let ran = doctor(&place, &["--connect"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.out.contains(
            "    unreachable: cannot connect to `dead` (step handshake): the server ended with code 3"
        ),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("  demo2  ok, connected in ") && ran.out.contains(" ms, revision 2026-07-28\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.ends_with("1 file, 2 servers: 0 problems, 0 warnings, 1 unreachable\n"), "{}", ran.out);
}

#[test]
fn single_server_can_be_checked() {
    let place = Place::project();
    place.file(
        "shop/.mcp.json",
        r#"{"mcpServers": {"issues": {"command": "tsugite"}, "other": {"command": "no-such-program"}}}"#,
    );
    place.file(".cursor/mcp.json", r#"{"mcpServers": {"other": {}}}"#);
    assert_eq!(
        doctor(&place, &["issues"]).fine(),
        ".mcp.json (tsugite, claude-code)\n  issues  ok\n1 file, 1 server: 0 problems, 0 warnings\n"
    );
    let err = doctor(&place, &["isues"]).failed(1);
    assert!(
        err.starts_with("error: no configuration file has a server named `isues`")
            && err.contains("did you mean `issues`?"),
        "{err}"
    );
    // An unreadable file may contain the server.
    place.file(".cursor/mcp.json", "{");
    let ran = doctor(&place, &["isues"]);
    assert!(ran.code == 1 && ran.out.contains("problem: line 1, column 2"), "{ran:?}");
    let err = doctor(&place, &["--timeout", "5"]).failed(1);
    assert!(err.contains("--connect"), "{err}");
}

#[test]
fn findings_as_json_have_their_position() {
    let place = Place::project();
    place
        .file("shop/.mcp.json", "{\n\"mcpServers\": {\"a\": {\"comand\": \"x\", \"command\": \"tsugite\"}}}");
    let out: Value = serde_json::from_str(&place.plain(&doctor(&place, &["--json"]).out)).unwrap();
    let finding = json!({"level": "problem", "line": 2, "column": null, "field": "mcpServers.a.comand", "message": "no host supports this field", "try": ["did you mean `command`?"]});
    let expected = json!({
        "files": [{"path": "~/shop/.mcp.json", "project": null, "hosts": ["tsugite", "claude-code"], "findings": [], "servers": [
            {"name": "a", "disabled": false, "findings": [finding], "connect": null},
        ]}],
        "problems": 1, "warnings": 0, "unreached": 0,
    });
    assert_eq!(out, expected);
}
