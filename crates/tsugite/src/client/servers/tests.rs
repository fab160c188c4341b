//! Files as hosts write them, and every mistake that can be made in one.
//!
//! Long because each test holds the configuration file that it reads.

use std::fs;
use std::path::MAIN_SEPARATOR_STR;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::*;

fn lookup(name: &str) -> Option<String> {
    let value = match name {
        "GITHUB_TOKEN" => SECRET,
        "BREAK" => "line\nbreak",
        "NUL" => "a\0b",
        "EMPTY" => "",
        "HOME" => "/Users/ann",
        _ => return None,
    };
    Some(value.to_owned())
}

/// Must not be in any error and in nothing that is shown with `{:?}`.
const SECRET: &str = "ghp_s3cr3t";

fn parse(text: &str) -> ServersFile {
    ServersFile::parse(text, lookup).unwrap()
}

/// The error of a file without servers.
fn file_error(text: &str) -> String {
    let error = ServersFile::parse(text, lookup).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(!error.is_not_found());
    error.to_string()
}

/// The error of the entry `a`; the entry `b` beside it must be read.
fn entry_error(entry: &str) -> String {
    let file = parse(&format!(r#"{{ "mcpServers": {{ "a": {entry}, "b": {{ "command": "b" }} }} }}"#));
    let [a, b] = &file.servers[..] else { panic!("{file:?}") };
    assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
    assert_eq!(b.connection, Ok(command("b")));
    let error = a.connection.as_ref().unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(error.to_string().starts_with(error.field()));
    error.to_string()
}

/// The only entry.
fn connection(entry: &str) -> ConnectionConfig {
    let mut file = parse(&format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#));
    file.servers.remove(0).connection.unwrap()
}

fn command(program: &str) -> ConnectionConfig {
    let (args, env, unset) = (vec![], vec![], vec![]);
    ConnectionConfig::Command { program: program.to_owned(), args, env, unset, cwd: None }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn url(url: &str, headers: &[(&str, &str)], transport: UrlTransport) -> ConnectionConfig {
    ConnectionConfig::Url { url: url.to_owned(), headers: pairs(headers), transport, oauth: None }
}

fn names(file: &ServersFile) -> Vec<&str> {
    file.servers.iter().map(|listed| listed.name.as_str()).collect()
}

/// A folder that is removed when dropped.
struct TempTree(PathBuf);

impl TempTree {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("tsugite-servers-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let tree = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&tree.0).unwrap();
        tree
    }

    fn with(self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }

    fn read(&self, path: &str) -> Result<ServersFile, ServersFileError> {
        ServersFile::read_with(&self.0.join(path), lookup)
    }

    fn path(&self, path: &str) -> String {
        self.0.join(path).to_str().unwrap().to_owned()
    }
}

impl Drop for TempTree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn claude_desktop_file_is_read() {
    let file = parse(
        r#"{
          "globalShortcut": "Ctrl+Space",
          "mcpServers": {
            "filesystem": {
              "command": "npx",
              "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ann/Desktop"]
            },
            "brave-search": {
              "command": "npx",
              "args": ["-y", "@modelcontextprotocol/server-brave-search"],
              "env": { "BRAVE_API_KEY": "BSA-1" }
            }
          },
          "preferences": { "quickEntry": { "enabled": true } }
        }"#,
    );
    assert_eq!(names(&file), ["filesystem", "brave-search"]);
    let Ok(ConnectionConfig::Command { program, args, env, unset, cwd }) = &file.servers[0].connection else {
        panic!()
    };
    assert_eq!((program.as_str(), args[2].as_str(), args.len()), ("npx", "/Users/ann/Desktop", 3));
    assert_eq!((env.len(), unset.len(), cwd), (0, 0, &None));
    let Ok(ConnectionConfig::Command { env, .. }) = &file.servers[1].connection else { panic!() };
    assert_eq!(env, &pairs(&[("BRAVE_API_KEY", "BSA-1")]));
    assert!(file.servers.iter().all(|listed| !listed.disabled));
}

#[test]
fn claude_code_file_is_read() {
    let file = parse(
        r#"{
          "mcpServers": {
            "github": {
              "type": "http",
              "url": "${API_BASE_URL:-https://api.githubcopilot.com}/mcp",
              "headers": { "Authorization": "Bearer ${GITHUB_TOKEN}", "X-Toolsets": "" },
              "oauth": { "clientId": "1", "callbackPort": 8080 },
              "headersHelper": "./headers.sh"
            },
            "asana": { "type": "sse", "url": "https://mcp.asana.com/sse" },
            "named": { "type": "streamable-http", "url": "https://example.com/mcp" },
            "database": {
              "type": "stdio",
              "command": "${HOME}/bin/db-server",
              "args": ["--config", "${CONFIG:-/srv/db.json}"],
              "env": { "TOKEN": "${GITHUB_TOKEN}" },
              "timeout": 600000
            }
          }
        }"#,
    );
    assert_eq!(names(&file), ["github", "asana", "named", "database"]);
    let ways: Vec<_> = file.servers.into_iter().map(|listed| listed.connection.unwrap()).collect();
    let bearer = format!("Bearer {SECRET}");
    let headers = [("Authorization", bearer.as_str()), ("X-Toolsets", "")];
    let mut github = url("https://api.githubcopilot.com/mcp", &headers, UrlTransport::StreamableHttp);
    let ConnectionConfig::Url { oauth, .. } = &mut github else { panic!() };
    *oauth = Some(OAuthConfig {
        client_id: Some("1".to_owned()),
        callback_port: Some(8080),
        ..Default::default()
    });
    assert_eq!(ways[0], github);
    assert_eq!(ways[1], url("https://mcp.asana.com/sse", &[], UrlTransport::Sse));
    assert_eq!(ways[2], url("https://example.com/mcp", &[], UrlTransport::StreamableHttp));
    let expected = ConnectionConfig::Command {
        program: "/Users/ann/bin/db-server".to_owned(),
        args: vec!["--config".to_owned(), "/srv/db.json".to_owned()],
        env: pairs(&[("TOKEN", SECRET)]),
        unset: vec![],
        cwd: None,
    };
    assert_eq!(ways[3], expected);
}

/// The login settings of an entry with these members.
fn oauth(members: &str) -> Option<OAuthConfig> {
    let entry = format!(r#"{{ "url": "https://example.com/mcp", {members} }}"#);
    let ConnectionConfig::Url { oauth, .. } = connection(&entry) else { panic!() };
    oauth
}

#[test]
fn login_settings_of_each_host_are_read() {
    let scopes = || Some(vec!["files:read".to_owned(), "mail".to_owned()]);
    let (client_id, client_secret) = (Some("app".to_owned()), Some(SECRET.to_owned()));
    let all = OAuthConfig { client_id, client_secret, callback_port: None, scopes: scopes() };
    // Cursor
    let of_cursor = r#""auth": { "CLIENT_ID": "app", "CLIENT_SECRET": "${GITHUB_TOKEN}", "scopes": ["files:read", "mail"] }"#;
    assert_eq!(oauth(of_cursor), Some(all.clone()));
    assert!(!format!("{all:?}").contains(SECRET));
    // Claude Code and VS Code
    let of_claude =
        r#""oauth": { "clientId": "app", "callbackPort": 8080, "scopes": "files:read mail", "later": {} }"#;
    let expected = OAuthConfig { client_secret: None, callback_port: Some(8080), ..all };
    assert_eq!(oauth(of_claude), Some(expected));
    // Others write no object.
    assert_eq!(oauth(r#""auth": "oauth", "oauth": true"#), None);
}

#[test]
fn invalid_login_settings_are_errors() {
    for (settings, error) in [
        (r#"{ "clientId": 1 }"#, "mcpServers.a.oauth.clientId: expected a string, found a number"),
        (r#"{ "clientId": "" }"#, "mcpServers.a.oauth.clientId: it is empty"),
        (
            r#"{ "callbackPort": 0 }"#,
            "mcpServers.a.oauth.callbackPort: expected a port number, found a number",
        ),
        (
            r#"{ "callbackPort": "1" }"#,
            "mcpServers.a.oauth.callbackPort: expected a port number, found a string",
        ),
        (
            r#"{ "scopes": ["a b"] }"#,
            "mcpServers.a.oauth.scopes[0]: it contains whitespace or a control character",
        ),
        (
            r#"{ "clientSecret": "${UNSET}" }"#,
            "mcpServers.a.oauth.clientSecret: the variable UNSET is not set",
        ),
    ] {
        let entry = format!(r#"{{ "url": "https://example.com/mcp", "oauth": {settings} }}"#);
        assert_eq!(entry_error(&entry), error);
    }
}

#[test]
fn cursor_file_is_read_with_its_env_file() {
    let text = r#"{
      "mcpServers": {
        "local": {
          "command": "python",
          "args": ["${workspaceFolder}${/}tools/server.py", "--name=${workspaceFolderBasename}"],
          "env": { "API_KEY": "${env:GITHUB_TOKEN}", "B": "of env" },
          "envFile": "../.env"
        },
        "absolute": { "type": "stdio", "command": "a", "envFile": "${workspaceFolder}/.env", "cwd": "sub" },
        "remote": { "url": "https://example.com/mcp", "headers": { "X-Key": "${env:GITHUB_TOKEN}" } }
      }
    }"#;
    let tree =
        TempTree::new().with("shop/.cursor/mcp.json", text).with("shop/.env", "A=1 # one\nexport B='2'\n");
    let script = [&*tree.path("shop"), "tools/server.py"].join(MAIN_SEPARATOR_STR);
    let file = tree.read("shop/.cursor/mcp.json").unwrap();
    let ways: Vec<_> = file.servers.into_iter().map(|listed| listed.connection.unwrap()).collect();
    let local = ConnectionConfig::Command {
        program: "python".to_owned(),
        args: vec![script, "--name=shop".to_owned()],
        env: pairs(&[("A", "1"), ("B", "of env"), ("API_KEY", SECRET)]),
        unset: vec![],
        cwd: None,
    };
    assert_eq!(ways[0], local);
    let absolute = ConnectionConfig::Command {
        program: "a".to_owned(),
        args: vec![],
        env: pairs(&[("A", "1"), ("B", "2")]),
        unset: vec![],
        cwd: Some(tree.0.join("shop/sub")),
    };
    assert_eq!(ways[1], absolute);
    assert_eq!(ways[2], url("https://example.com/mcp", &[("X-Key", SECRET)], UrlTransport::Auto));
}

#[test]
fn vs_code_file_is_read_with_comments_and_inputs() {
    let text = r#"{
      // Asked for once, and kept by the editor.
      "inputs": [
        { "type": "promptString", "id": "perplexity-key", "description": "Perplexity", "password": true },
        { "type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu" },
      ],
      "servers": {
        "perplexity": {
          "type": "stdio",
          "command": "npx",
          "args": ["-y", "server-perplexity-ask", /* where */ "${input:region}"],
          "env": { "KEY": "${input:perplexity-key}", "PORT": 8080, "DEBUG": null },
          "cwd": "${workspaceFolder}/server",
          "dev": { "watch": "src/**/*.ts", "debug": { "type": "node" } },
        },
        "github": { "type": "http", "url": "https://api.githubcopilot.com/mcp/" },
        "old": { "type": "sse", "url": "http://localhost:3000/sse" }, // still there
        "socket": { "url": "unix:///tmp/server.sock#/mcp" },
      },
    }"#;
    let tree = TempTree::new().with(".vscode/mcp.json", text);
    let answers = |name: &str| if name == "MCP_INPUT_PERPLEXITY_KEY" { Some("k".to_owned()) } else { None };
    let file = ServersFile::read_with(&tree.0.join(".vscode/mcp.json"), answers).unwrap();
    let ways: Vec<_> = file.servers.into_iter().map(|listed| listed.connection.unwrap()).collect();
    let perplexity = ConnectionConfig::Command {
        program: "npx".to_owned(),
        args: ["-y", "server-perplexity-ask", "eu"].map(str::to_owned).into(),
        env: pairs(&[("KEY", "k"), ("PORT", "8080")]),
        unset: vec!["DEBUG".to_owned()],
        cwd: Some(tree.0.join("server")),
    };
    assert_eq!(ways[0], perplexity);
    // It falls back by itself, so `http` does not say which of the two it is.
    assert_eq!(ways[1], url("https://api.githubcopilot.com/mcp/", &[], UrlTransport::Auto));
    assert_eq!(ways[2], url("http://localhost:3000/sse", &[], UrlTransport::Sse));
    assert_eq!(ways[3], url("unix:///tmp/server.sock#/mcp", &[], UrlTransport::Auto));

    let file = tree.read(".vscode/mcp.json").unwrap();
    let error = file.servers[0].connection.as_ref().unwrap_err();
    assert_eq!(
        error.to_string(),
        "servers.perplexity.env.KEY: the variable MCP_INPUT_PERPLEXITY_KEY \
         for the input \"perplexity-key\" is not set"
    );
    assert_eq!(error.unset_variable(), Some("MCP_INPUT_PERPLEXITY_KEY"));
}

#[test]
fn vs_code_settings_are_read() {
    let file = parse(
        r#"{
          "editor.fontSize": 12,
          "mcp": {
            "inputs": [{ "type": "promptString", "id": "zone", "default": "Asia/Tokyo" }],
            "servers": {
              "time": { "command": "python", "args": ["-m", "mcp_server_time", "${input:zone}"] },
              "web": { "type": "http", "url": "https://example.com/mcp" },
              "broken": { "command": 1 },
            },
          },
        }"#,
    );
    assert_eq!(names(&file), ["time", "web", "broken"]);
    assert!(
        matches!(&file.servers[0].connection, Ok(ConnectionConfig::Command { args, .. }) if args[2] == "Asia/Tokyo")
    );
    assert_eq!(file.servers[1].connection, Ok(url("https://example.com/mcp", &[], UrlTransport::Auto)));
    assert_eq!(
        file.servers[2].connection.as_ref().unwrap_err().to_string(),
        "mcp.servers.broken.command: expected a string, found a number"
    );
}

#[test]
fn windsurf_file_is_read() {
    let file = parse(
        r#"{
          "mcpServers": {
            "remote": {
              "serverUrl": "https://example.com/mcp",
              "headers": { "API_KEY": "Bearer ${env:GITHUB_TOKEN}" },
              "disabledTools": ["a"]
            },
            "off": { "command": "npx", "args": ["mcp-remote", "https://example.com/mcp"], "disabled": true },
            "on": { "command": "npx", "disabled": false },
            "off and broken": { "command": "${NONE}", "disabled": true }
          }
        }"#,
    );
    let bearer = format!("Bearer {SECRET}");
    let remote = url("https://example.com/mcp", &[("API_KEY", &bearer)], UrlTransport::Auto);
    assert_eq!(file.servers[0].connection, Ok(remote));
    let disabled: Vec<_> = file.servers.iter().map(|listed| listed.disabled).collect();
    assert_eq!(disabled, [false, true, false, true]);
    assert!(file.servers[1].connection.is_ok());
    assert_eq!(
        file.servers[3].connection.as_ref().unwrap_err().to_string(),
        r#"mcpServers["off and broken"].command: the variable NONE is not set"#
    );
}

#[test]
fn spellings_of_a_type_are_equivalent() {
    assert_eq!(connection(r#"{ "type": "local", "command": "a", "tools": ["*"] }"#), command("a"));
    let streamable = url("http://a", &[], UrlTransport::StreamableHttp);
    for kind in ["http", "streamable-http", "streamableHttp"] {
        assert_eq!(
            connection(&format!(r#"{{ "type": "{kind}", "url": "http://a" }}"#)),
            streamable,
            "{kind}"
        );
    }
}

#[test]
fn empty_list_is_valid() {
    for text in [r#"{"mcpServers":{}}"#, r#"{"servers":{}}"#, r#"{"mcp":{"servers":{}}}"#] {
        assert_eq!(parse(text).servers, [], "{text}");
    }
}

#[test]
fn file_without_a_list_is_an_error() {
    for text in ["{}", r#"{"mcpservers":{}}"#, r#"{"mcp":{"allowed":[]}}"#, r#"{"mcp":true}"#] {
        let error = ServersFile::parse(text, lookup).unwrap_err();
        assert!(error.has_no_server_list(), "{text}");
        assert_eq!(error.to_string(), "found no `mcpServers`, `servers` or `mcp.servers`", "{text}");
    }
    assert!(!ServersFile::parse("[]", lookup).unwrap_err().has_no_server_list());
}

#[test]
fn mcp_member_of_another_host_is_ignored() {
    assert_eq!(parse(r#"{"mcpServers":{"a":{"command":"a"}},"mcp":{"allowed":["a"]}}"#).servers.len(), 1);
    assert_eq!(parse(r#"{"mcpServers":{"a":{"command":"a"}},"mcp":[]}"#).servers.len(), 1);
}

#[test]
fn file_with_two_lists_is_an_error() {
    let cases = [
        (r#"{"mcpServers":{},"servers":{}}"#, "`mcpServers` and `servers`"),
        (r#"{"servers":{},"mcp":{"servers":{}}}"#, "`servers` and `mcp.servers`"),
        (r#"{"mcp":{"servers":{}},"mcpServers":{}}"#, "`mcpServers` and `mcp.servers`"),
    ];
    for (text, both) in cases {
        assert_eq!(file_error(text), format!("found both {both}; keep one of them"));
    }
    assert_eq!(file_error(r#"{"mcpServers":{},"mcpServers":{}}"#), "mcpServers: duplicate member");
    assert_eq!(file_error(r#"{"servers":{},"servers":{}}"#), "servers: duplicate member");
    assert_eq!(file_error(r#"{"mcp":{},"mcp":{}}"#), "mcp: duplicate member");
    let twice = r#"{"mcp":{"servers":{},"servers":{}}}"#;
    assert_eq!(file_error(twice), "mcp.servers: duplicate member");
}

#[test]
fn list_of_the_wrong_type_is_an_error() {
    assert_eq!(file_error("[]"), "the file: expected an object, found an array");
    assert_eq!(file_error(r#"{"mcpServers":[]}"#), "mcpServers: expected an object, found an array");
    assert_eq!(file_error(r#"{"servers":null}"#), "servers: expected an object, found null");
    assert_eq!(file_error(r#"{"mcp":{"servers":"a"}}"#), "mcp.servers: expected an object, found a string");
}

#[test]
fn invalid_json_is_reported_with_its_position() {
    assert_eq!(
        file_error("{\n  \"mcpServers\": {\n"),
        "line 3, column 1: expected a name in double quotes or `}`"
    );
    assert_eq!(file_error(""), "line 1, column 1: expected a value");
    assert!(file_error(&format!(r#"{{"mcpServers":{}"#, "[".repeat(100))).ends_with("nested too deeply"));
}

#[test]
fn byte_order_mark_is_an_error() {
    let expected = "the file begins with a byte order mark; it must be UTF-8 without one";
    assert_eq!(file_error("\u{feff}{\"mcpServers\":{}}"), expected);
    let tree = TempTree::new().with("a.json", "\u{feff}{\"mcpServers\":{}}");
    assert_eq!(tree.read("a.json").unwrap_err().to_string(), expected);
}

#[test]
fn file_over_4_mib_is_an_error() {
    let list = r#"{"mcpServers":{}}"#;
    let just = format!("{list}{}", " ".repeat((4 << 20) - list.len()));
    let over = format!("{just} ");
    assert_eq!(parse(&just).servers, []);
    assert_eq!(file_error(&over), "the file is larger than 4 MiB");
    // Cut off within a character, it must not count as something else.
    let wide = "é".repeat(4 << 20);
    let tree = TempTree::new().with("just", just).with("over", over).with("wide", wide);
    assert_eq!(tree.read("just").unwrap().servers, []);
    for path in ["over", "wide"] {
        assert_eq!(tree.read(path).unwrap_err().to_string(), "the file is larger than 4 MiB");
    }
    let endless = ServersFile::read(Path::new("/dev/zero")).unwrap_err();
    assert_eq!(endless.to_string(), "the file is larger than 4 MiB");
}

#[test]
fn file_that_is_not_utf_8_is_an_error() {
    let utf_16: Vec<_> = "{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let tree =
        TempTree::new().with("latin", b"{\"\xe9\":1}").with("utf-16", [&b"\xff\xfe"[..], &utf_16].concat());
    for path in ["latin", "utf-16"] {
        assert_eq!(tree.read(path).unwrap_err().to_string(), "the file is not in UTF-8");
    }
}

#[test]
fn unreadable_file_is_an_error() {
    let tree = TempTree::new().with("folder/a", "");
    let missing = tree.read("gone.json").unwrap_err();
    assert!(missing.is_not_found());
    assert!(missing.to_string().starts_with("the file cannot be read: "), "{missing}");
    assert!(std::error::Error::source(&missing).is_some());
    let folder = tree.read("folder").unwrap_err();
    assert!(!folder.is_not_found());
    assert!(folder.to_string().starts_with("the file cannot be read: "), "{folder}");
}

#[test]
fn read_uses_the_environment_of_the_process() {
    let text = r#"{"mcpServers":{"a":{"command":"${PATH}"},"b":{"command":"${TSUGITE_NOT_SET}"}}}"#;
    let tree = TempTree::new().with(".mcp.json", text);
    let file = ServersFile::read(&tree.0.join(".mcp.json")).unwrap();
    assert_eq!(file.servers[0].connection, Ok(command(&std::env::var("PATH").unwrap())));
    let error = file.servers[1].connection.as_ref().unwrap_err();
    assert_eq!(error.to_string(), "mcpServers.b.command: the variable TSUGITE_NOT_SET is not set");
}

#[test]
fn workspace_is_the_folder_of_the_file() {
    let tree = TempTree::new();
    let absolute = tree.0.join("y");
    let servers =
        json!({"a": {"command": "${workspaceFolder}", "cwd": "x"}, "b": {"command": "b", "cwd": absolute}});
    let text = &*json!({"mcpServers": servers}).to_string();
    let tree = tree.with("shop/.mcp.json", text).with("shop/.vscode/mcp.json", text);
    for path in ["shop/.mcp.json", "shop/.vscode/mcp.json"] {
        let file = tree.read(path).unwrap();
        let Ok(ConnectionConfig::Command { program, cwd, .. }) = &file.servers[0].connection else {
            panic!()
        };
        assert_eq!(program, &tree.path("shop"));
        assert_eq!(cwd.as_deref(), Some(tree.0.join("shop/x").as_path()));
        assert!(
            matches!(&file.servers[1].connection, Ok(ConnectionConfig::Command { cwd: Some(cwd), .. }) if *cwd == absolute)
        );
    }
    // A text in no file has no folder.
    let file = parse(text);
    assert_eq!(
        file.servers[0].connection.as_ref().unwrap_err().to_string(),
        "mcpServers.a.command: the variable workspaceFolder is not set"
    );
    let ConnectionConfig::Command { cwd, .. } = connection(r#"{ "command": "a", "cwd": "x" }"#) else {
        panic!()
    };
    assert_eq!(cwd, Some(PathBuf::from("x")));
}

#[test]
fn relative_path_becomes_absolute() {
    // A file of the package, in whose folder its tests run: on Windows no relative path leads to another drive, and the
    // temporary folder may be on one.
    let file = ServersFile::read(Path::new("src/client/servers/relative.mcp.json")).unwrap();
    let Ok(ConnectionConfig::Command { cwd: Some(cwd), .. }) = &file.servers[0].connection else { panic!() };
    assert_eq!(*cwd, std::env::current_dir().unwrap().join("src/client/servers/b"));
    assert!(cwd.is_absolute());
}

#[test]
fn entry_of_the_wrong_type_is_an_error() {
    let cases = [
        ("1", "mcpServers.a: expected an object, found a number"),
        ("null", "mcpServers.a: expected an object, found null"),
        (r#"{ "command": 1 }"#, "mcpServers.a.command: expected a string, found a number"),
        (r#"{ "command": ["a"] }"#, "mcpServers.a.command: expected a string, found an array"),
        (r#"{ "command": "a", "args": "b" }"#, "mcpServers.a.args: expected an array, found a string"),
        (r#"{ "command": "a", "args": null }"#, "mcpServers.a.args: expected an array, found null"),
        (
            r#"{ "command": "a", "args": ["b", 2] }"#,
            "mcpServers.a.args[1]: expected a string, found a number",
        ),
        (r#"{ "command": "a", "env": [] }"#, "mcpServers.a.env: expected an object, found an array"),
        (
            r#"{ "command": "a", "env": { "B": true } }"#,
            "mcpServers.a.env.B: expected a string, a number or null, found a boolean",
        ),
        (r#"{ "command": "a", "cwd": {} }"#, "mcpServers.a.cwd: expected a string, found an object"),
        (r#"{ "command": "a", "envFile": 1 }"#, "mcpServers.a.envFile: expected a string, found a number"),
        (
            r#"{ "command": "a", "disabled": "yes" }"#,
            "mcpServers.a.disabled: expected a boolean, found a string",
        ),
        (r#"{ "command": "a", "type": 1 }"#, "mcpServers.a.type: expected a string, found a number"),
        (r#"{ "url": false }"#, "mcpServers.a.url: expected a string, found a boolean"),
        (r#"{ "serverUrl": 1 }"#, "mcpServers.a.serverUrl: expected a string, found a number"),
        (
            r#"{ "url": "http://a", "headers": "b" }"#,
            "mcpServers.a.headers: expected an object, found a string",
        ),
        (
            r#"{ "url": "http://a", "headers": { "X-B": 1 } }"#,
            "mcpServers.a.headers.X-B: expected a string, found a number",
        ),
    ];
    for (entry, expected) in cases {
        assert_eq!(entry_error(entry), expected);
    }
}

#[test]
fn unknown_members_are_ignored() {
    let entry =
        r#"{ "command": "a", "alwaysAllow": 1, "autoApprove": [], "timeout": "x", "url2": 5, "headers": 1 }"#;
    assert_eq!(connection(entry), command("a"));
    let entry = r#"{ "url": "http://a", "args": 1, "env": 2, "cwd": 3, "envFile": 4, "x": { "x": [] } }"#;
    assert_eq!(connection(entry), url("http://a", &[], UrlTransport::Auto));
}

#[test]
fn entry_needs_either_a_command_or_a_url() {
    let cases = [
        (r#"{}"#, "mcpServers.a: it has neither `command` nor `url`"),
        (r#"{ "type": "http" }"#, "mcpServers.a: it has neither `command` nor `url`"),
        (r#"{ "command": "a", "url": "http://a" }"#, "mcpServers.a: it has both `command` and `url`"),
        (
            r#"{ "command": "a", "serverUrl": "http://a" }"#,
            "mcpServers.a: it has both `command` and `serverUrl`",
        ),
        (
            r#"{ "url": "http://a", "serverUrl": "http://a" }"#,
            "mcpServers.a: it has both `url` and `serverUrl`",
        ),
        (r#"{ "type": "stdio", "url": "http://a" }"#, "mcpServers.a: an entry of this type needs `command`"),
        (r#"{ "type": "sse", "command": "a" }"#, "mcpServers.a: an entry of this type needs `url`"),
        (
            r#"{ "type": "ws", "url": "ws://a" }"#,
            "mcpServers.a.type: expected `stdio`, `http`, `streamable-http` or `sse`",
        ),
    ];
    for (entry, expected) in cases {
        assert_eq!(entry_error(entry), expected);
    }
}

#[test]
fn duplicate_server_name_is_an_error() {
    let text = r#"{"mcpServers":{"a":{"command":"a"},"b":{"command":"b"},"a":{"command":"c"},"a":5}}"#;
    let file = parse(text);
    assert_eq!(names(&file), ["a", "b"]);
    assert_eq!(
        file.servers[0].connection.as_ref().unwrap_err().to_string(),
        "mcpServers.a: duplicate member"
    );
    assert_eq!(file.servers[1].connection, Ok(command("b")));
}

#[test]
fn duplicate_member_is_an_error() {
    let cases = [
        (r#"{ "command": "a", "command": "b" }"#, "mcpServers.a.command"),
        (r#"{ "command": "a", "disabled": true, "disabled": false }"#, "mcpServers.a.disabled"),
        (r#"{ "command": "a", "env": { "B": "1", "B": "2" } }"#, "mcpServers.a.env.B"),
        (r#"{ "url": "http://a", "headers": { "X-B": "1", "X-B": "2" } }"#, "mcpServers.a.headers.X-B"),
    ];
    for (entry, field) in cases {
        assert_eq!(entry_error(entry), format!("{field}: duplicate member"));
    }
    assert_eq!(connection(r#"{ "command": "a", "other": 1, "other": 2 }"#), command("a"));
}

#[test]
fn a_server_needs_a_name() {
    let file = parse(r#"{"mcpServers":{"":{"command":"a"},"b":{"command":"b"}}}"#);
    assert_eq!(names(&file), ["", "b"]);
    assert_eq!(
        file.servers[0].connection.as_ref().unwrap_err().to_string(),
        r#"mcpServers[""]: a server needs a name"#
    );
    assert!(file.servers[1].connection.is_ok());
}

#[test]
fn empty_required_member_is_an_error() {
    for member in ["command", "url", "serverUrl"] {
        for value in ["", "${EMPTY}"] {
            let said = entry_error(&format!(r#"{{ "{member}": "{value}" }}"#));
            assert_eq!(said, format!("mcpServers.a.{member}: it is empty"));
        }
    }
    for member in ["cwd", "envFile"] {
        let said = entry_error(&format!(r#"{{ "command": "a", "{member}": "" }}"#));
        assert_eq!(said, format!("mcpServers.a.{member}: it is empty"));
    }
    let entry = r#"{ "command": "a", "args": [""], "env": { "B": "" } }"#;
    assert!(
        matches!(connection(entry), ConnectionConfig::Command { args, env, .. } if args == [""] && env == pairs(&[("B", "")]))
    );
}

#[test]
fn nul_byte_is_an_error() {
    for value in [r"a\u0000b", "${NUL}"] {
        let cases = [
            (format!(r#"{{ "command": "{value}" }}"#), "command"),
            (format!(r#"{{ "command": "a", "args": ["b", "{value}"] }}"#), "args[1]"),
            (format!(r#"{{ "command": "a", "env": {{ "B": "{value}" }} }}"#), "env.B"),
            (format!(r#"{{ "command": "a", "cwd": "{value}" }}"#), "cwd"),
            (format!(r#"{{ "command": "a", "envFile": "{value}" }}"#), "envFile"),
        ];
        for (entry, field) in cases {
            assert_eq!(entry_error(&entry), format!("mcpServers.a.{field}: it contains a NUL byte"));
        }
    }
}

#[test]
fn invalid_env_name_is_an_error() {
    for (name, field) in [("", r#"[""]"#), ("B=C", r#"["B=C"]"#), (r"B\u0000", r#"["B\0"]"#)] {
        let said = entry_error(&format!(r#"{{ "command": "a", "env": {{ "{name}": "1" }} }}"#));
        assert_eq!(said, format!("mcpServers.a.env{field}: invalid name of a variable"));
    }
}

#[test]
fn url_with_whitespace_is_an_error() {
    for value in ["http://a b", r"http://a\n", r"http://a/\u0000", "http://${BREAK}"] {
        let said = entry_error(&format!(r#"{{ "url": "{value}" }}"#));
        assert!(said.starts_with("mcpServers.a.url: it contains"), "{said}");
    }
}

#[test]
fn header_with_a_line_break_is_an_error() {
    for (name, field) in [("", r#"[""]"#), ("X B", r#"["X B"]"#), ("X:", r#"["X:"]"#), ("é", r#"["é"]"#)] {
        let said = entry_error(&format!(r#"{{ "url": "http://a", "headers": {{ "{name}": "1" }} }}"#));
        assert_eq!(said, format!("mcpServers.a.headers{field}: invalid name of a header"));
    }
    for value in [r"b\r\nX-C: d", "${BREAK}", "${NUL}", r"\u007f"] {
        let said = entry_error(&format!(r#"{{ "url": "http://a", "headers": {{ "X-B": "{value}" }} }}"#));
        assert_eq!(said, "mcpServers.a.headers.X-B: it contains a line break or another control character");
    }
    let entry = r#"{ "url": "http://a", "headers": { "x!#$%&'*+-.^_`|~9": "a\tb é" } }"#;
    let headers = [("x!#$%&'*+-.^_`|~9", "a\tb é")];
    assert_eq!(connection(entry), url("http://a", &headers, UrlTransport::Auto));
}

#[test]
fn unset_variable_is_reported_with_its_field() {
    let cases = [
        (r#"{ "command": "${NONE}" }"#, "command"),
        (r#"{ "command": "a", "args": ["b", "${NONE}"] }"#, "args[1]"),
        (r#"{ "command": "a", "env": { "TOKEN": "${NONE}" } }"#, "env.TOKEN"),
        (r#"{ "command": "a", "cwd": "${NONE}" }"#, "cwd"),
        (r#"{ "command": "a", "envFile": "${NONE}" }"#, "envFile"),
        (r#"{ "url": "${NONE}" }"#, "url"),
        (r#"{ "serverUrl": "${env:NONE}" }"#, "serverUrl"),
        (r#"{ "url": "http://a", "headers": { "X-B": "${env:NONE}" } }"#, "headers.X-B"),
    ];
    for (entry, field) in cases {
        assert_eq!(entry_error(entry), format!("mcpServers.a.{field}: the variable NONE is not set"));
    }
    let file = parse(r#"{"mcpServers":{"a":{"command":"${NONE}"},"b":{"command":1}}}"#);
    let errors: Vec<_> = file.servers.iter().map(|listed| listed.connection.as_ref().unwrap_err()).collect();
    assert_eq!(errors[0].unset_variable(), Some("NONE"));
    assert_eq!(errors[0].field(), "mcpServers.a.command");
    assert_eq!(errors[1].unset_variable(), None);
}

#[test]
fn invalid_variable_is_reported_with_its_field() {
    let cases = [
        ("${", "a `${` is not closed"),
        ("${NONE:-${HOME}}", "a default cannot contain a variable"),
        ("${NO NAME}", "the text between `${` and `}` is not the name of a variable"),
        ("${file:/srv/key}", "unknown kind of variable: `${file:…}`"),
    ];
    for (value, says) in cases {
        let said = entry_error(&format!(r#"{{ "command": "a", "args": ["{value}"] }}"#));
        assert_eq!(said, format!("mcpServers.a.args[0]: {says}"));
    }
}

#[test]
fn variables_in_names_are_not_resolved() {
    let entry = r#"{ "command": "a", "env": { "${NONE}": "1" } }"#;
    assert!(
        matches!(connection(entry), ConnectionConfig::Command { env, .. } if env == pairs(&[("${NONE}", "1")]))
    );
    assert_eq!(names(&parse(r#"{"mcpServers":{"${NONE}":{"command":"a"}}}"#)), ["${NONE}"]);
    assert!(
        entry_error(r#"{ "type": "${NONE}", "url": "http://a" }"#)
            .starts_with("mcpServers.a.type: expected `stdio`")
    );
}

#[test]
fn invalid_env_file_fails_only_its_entry() {
    let entry = |path: &str| format!(r#""{path}": {{ "command": "a", "envFile": "{path}" }}"#);
    let paths = ["gone", "folder", "latin", "mark", "large", "line", "good"];
    let text = format!(r#"{{ "mcpServers": {{ {} }} }}"#, paths.map(entry).join(","));
    let tree = TempTree::new().with("a.json", text).with("folder/b", "").with("latin", b"A=\xe9");
    let tree = tree.with("mark", "\u{feff}A=1").with("large", "#".repeat((4 << 20) + 1));
    let tree = tree.with("line", format!("A=1\n{SECRET}\n")).with("good", "A=1");
    let file = tree.read("a.json").unwrap();
    let expected = [
        "the file cannot be read: ",
        "the file cannot be read: ",
        "the file is not in UTF-8",
        "the file begins with a byte order mark",
        "the file is larger than 4 MiB",
        "line 2 of the file is not `NAME=value`",
    ];
    for (listed, expected) in file.servers.iter().zip(expected) {
        let error = listed.connection.as_ref().unwrap_err().to_string();
        assert!(error.starts_with(&format!("mcpServers.{}.envFile: {expected}", listed.name)), "{error}");
        assert!(!error.contains(SECRET) && !error.contains("tsugite-servers"), "{error}");
    }
    assert!(
        matches!(&file.servers[6].connection, Ok(ConnectionConfig::Command { env, .. }) if env == &pairs(&[("A", "1")]))
    );
}

#[test]
fn parsed_text_opens_no_env_file() {
    let said = entry_error(r#"{ "command": "a", "envFile": "/dev/null" }"#);
    assert_eq!(said, "mcpServers.a.envFile: `envFile` needs a servers file on disk");
}

#[test]
fn null_in_env_removes_a_variable_of_the_env_file() {
    let text = r#"{"servers":{"a":{"command":"a","envFile":"env","env":{"B":null,"C":1.50}}}}"#;
    let tree = TempTree::new().with("a.json", text).with("env", "A=1\nB=2\nA=3");
    let file = tree.read("a.json").unwrap();
    let Ok(ConnectionConfig::Command { env, unset, .. }) = &file.servers[0].connection else { panic!() };
    assert_eq!(env, &pairs(&[("A", "3"), ("C", "1.50")]));
    assert_eq!(unset, &["B"]);
}

#[test]
fn total_size_of_variables_is_limited() {
    let long = |_: &str| Some("a".repeat(3 << 20));
    let text = r#"{"mcpServers":{"a":{"command":"${A}"},"b":{"command":"${A}"},"c":{"command":"c"}}}"#;
    let file = ServersFile::parse(text, long).unwrap();
    assert!(file.servers[0].connection.is_ok());
    assert_eq!(
        file.servers[1].connection.as_ref().unwrap_err().to_string(),
        "mcpServers.b.command: the values of all variables in this file are too long"
    );
    assert_eq!(file.servers[2].connection, Ok(command("c")));
}

#[test]
fn debug_output_shows_no_secret() {
    let t = "${GITHUB_TOKEN}";
    let entries = [
        format!(
            r#"{{ "command": "npx", "args": ["--key={t}"], "env": {{ "KEY": "{t}", "LITERAL": "{SECRET}" }} }}"#
        ),
        format!(
            r#"{{ "url": "https://ann:{t}@example.com/{t}?k={t}#{t}", "headers": {{ "X-Key": "{t}" }} }}"#
        ),
        format!(r#"{{ "url": "https://example.com?k={t}" }}"#),
        format!(r#"{{ "url": "mailto:{t}" }}"#),
        // Broken behind the secret.
        format!(r#"{{ "command": "{t}${{NONE}}" }}"#),
        format!(r#"{{ "command": "{t}\u0000" }}"#),
        format!(r#"{{ "command": "a", "args": ["{t}${{"] }}"#),
        format!(r#"{{ "command": "a", "env": {{ "KEY": ["{SECRET}"] }} }}"#),
        format!(r#"{{ "command": "a", "envFile": "{t}" }}"#),
        format!(r#"{{ "url": "http://a/{t} {t}" }}"#),
        format!(r#"{{ "url": "http://a", "headers": {{ "X-Key": "{t}\n" }} }}"#),
        format!(r#"{{ "url": "http://a", "headers": {{ "X-Key": "${{NONE:-{SECRET}${{X}}}}" }} }}"#),
        format!(r#"{{ "type": "{SECRET}", "url": "http://a" }}"#),
    ];
    let entries: Vec<_> =
        entries.iter().enumerate().map(|(at, entry)| format!(r#""{at}": {entry}"#)).collect();
    let text = format!(r#"{{ "mcpServers": {{ {} }} }}"#, entries.join(","));
    let tree = TempTree::new().with("a.json", &text);
    let file = tree.read("a.json").unwrap();
    for listed in &file.servers {
        assert_eq!(listed.connection.is_ok(), listed.name.parse::<u8>().unwrap() < 4, "{listed:?}");
    }
    let shown = format!("{file:?} {file:#?}");
    assert!(!shown.contains(SECRET), "{shown}");
    for name in ["npx", "KEY", "X-Key", "https://example.com/…"] {
        assert!(shown.contains(name), "{name}: {shown}");
    }
    let broken = format!(r#"{{ "mcpServers": {{ "a": {{ "command": "{SECRET}" "args": {SECRET} }} }} }}"#);
    assert!(!file_error(&broken).contains(SECRET));
}
