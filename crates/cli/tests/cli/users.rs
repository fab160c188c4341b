//! `tsugite users`, and `tsugite serve --auth` with the file.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;

use crate::support::{LONG, Place, Ran, Running};

/// Writes the file of the users, for its owner alone.
fn write_auth(place: &Place, text: &str) -> PathBuf {
    let file = place.file("auth.json", text).path.join("auth.json");
    #[cfg(unix)]
    crate::support::unix::set_mode(&file, 0o600);
    file
}

/// Runs `users add` with a password on standard input.
fn add(place: &Place, name: &str, password: &str) -> Ran {
    let mut command = place.command(["users", "add", "auth.json", name]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    running.send_line(password);
    running.end()
}

fn get(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn users_are_added_listed_and_removed() {
    let place = Place::new();
    let file = write_auth(&place, r#"{"name": "Example"}"#);
    assert_eq!(add(&place, "ann", "correct horse").fine().trim(), "added the user ann");
    assert_eq!(add(&place, "ann", "battery staple").fine().trim(), "changed the password of ann");
    assert_eq!(place.run(["users", "list", "auth.json", "--json"]).fine().trim(), r#"{"users":["ann"]}"#);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("Example") && text.contains("$argon2id$") && !text.contains("staple"), "{text}");
    assert!(add(&place, "bob", "short").failed(1).contains("at least 8"));
    assert_eq!(place.run(["users", "remove", "auth.json", "ann"]).fine().trim(), "removed the user ann");
    assert!(place.run(["users", "remove", "auth.json", "ann"]).failed(1).contains("no user ann"));
    assert!(place.run(["users", "list", "auth.json"]).fine().is_empty());
}

#[test]
fn server_with_users_runs_an_authorization_server() {
    let place = Place::new();
    add(&place, "ann", "correct horse").fine();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--auth", "auth.json", "--state", "state.redb"];
    let running = Running::start(place.command(serve));
    let url = running.line().trim().to_owned();
    let origin = url.strip_suffix("/mcp").unwrap();
    running.wait_for_stderr(&format!("users log in at {origin}"));
    let metadata = get(&url, "/.well-known/oauth-authorization-server");
    assert!(metadata.contains(&format!("\"issuer\":\"{origin}\"")), "{metadata}");
    let resource = get(&url, "/.well-known/oauth-protected-resource/mcp");
    assert!(resource.contains(&format!("\"authorization_servers\":[\"{origin}\"]")), "{resource}");
    let refused = get(&url, "/mcp");
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("resource_metadata="), "{refused}");
    let page = get(&url, "/");
    assert!(page.contains(&format!("tsugite login {url}")) && !page.contains("<code>add"), "{page}");
    // Without a terminal no browser opens.
    assert_eq!(place.run(["call", &url, "add", "a=1", "b=2"]).code, 5);
}

/// Registers a client through a proxy on this machine, which names the address of the client. Returns the status line.
fn register(url: &str, client: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let body = r#"{"redirect_uris": ["http://127.0.0.1/callback"]}"#;
    let length = body.len();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    write!(
        socket,
        "POST /register HTTP/1.1\r\nHost: {address}\r\nX-Forwarded-For: {client}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn limits_count_for_each_client_of_a_trusted_proxy() {
    let place = Place::new();
    write_auth(&place, r#"{"issuer": "https://example.com"}"#);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--auth", "auth.json"];
    let warning = "--trust-proxy NETWORK names the proxy";
    let running = Running::start(place.command(serve));
    running.wait_for_stderr(warning);
    let url = running.line().trim().to_owned();
    let statuses = |url: &str| {
        let used = (0..20).all(|_| register(url, "203.0.113.1").ends_with("201 Created"));
        (used, register(url, "203.0.113.1"), register(url, "203.0.113.2"))
    };
    let (created, refused) = ("HTTP/1.1 201 Created".to_owned(), "HTTP/1.1 429 Too Many Requests".to_owned());
    assert_eq!(statuses(&url), (true, refused.clone(), refused.clone()));
    let trusting = serve.into_iter().chain(["--trust-proxy", "127.0.0.0/8"]);
    let running = Running::start(place.command(trusting));
    let url = running.line().trim().to_owned();
    assert_eq!(statuses(&url), (true, refused, created));
    assert!(!running.kill().err.contains(warning));
}

#[test]
fn address_of_other_machines_needs_a_secure_issuer() {
    let place = Place::new();
    add(&place, "ann", "correct horse").fine();
    let serve = |more: &[&str]| {
        let first = ["serve", "--auth", "auth.json", "--listen"];
        place.run(first.into_iter().chain(more.iter().copied()))
    };
    assert!(serve(&["0.0.0.0:0"]).failed(1).contains("\"issuer\""));
    assert!(serve(&["unix:socket"]).failed(1).contains("browser"));
    assert!(serve(&["127.0.0.1:0", "--no-auth"]).failed(1).contains("--auth"));
    let missing = place.run(["serve", "--auth", "missing.json"]).failed(1);
    assert!(missing.contains("tsugite users add missing.json NAME"), "{missing}");
}

#[cfg(unix)]
#[test]
fn readable_file_of_users_is_refused() {
    let place = Place::new();
    let file = write_auth(&place, "{}");
    crate::support::unix::set_mode(file, 0o644);
    let refused = place.run(["serve", "--auth", "auth.json", "--listen", "127.0.0.1:0"]).failed(1);
    assert!(refused.contains("others can read it"), "{refused}");
}
