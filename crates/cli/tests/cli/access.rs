//! Who may use `tsugite serve` and `tsugite bridge --listen`: tokens, and addresses that other machines reach.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::serving::post;
use crate::support::{LONG, Place, Running, TSUGITE, helper};

/// A configuration of the user with one server, the demo.
fn place() -> Place {
    let place = Place::new();
    let text =
        format!(r#"{{"mcpServers": {{"one": {{"command": {TSUGITE:?}, "args": ["serve", "--stdio"]}}}}}}"#);
    place.file("config/tsugite/mcp.json", &text);
    place
}

fn get(url: &str, path: &str) -> String {
    let address = url.trim().strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

/// Serves the configured server; returns its URL and the file of its token.
fn serve(place: &Place, verb: &str) -> (Running, String, String) {
    let running = Running::start(place.command([verb, "--listen", "127.0.0.1:0", "one"]));
    let url = running.line().trim().to_owned();
    let note = running.wait_for_stderr("clients need the token in ");
    let file = note.split("clients need the token in ").nth(1).unwrap().lines().next().unwrap().to_owned();
    (running, url, file)
}

#[test]
fn configured_servers_need_a_token_that_stays() {
    // T-09, SEC-022
    let place = place();
    for verb in ["serve", "bridge"] {
        let tool = if verb == "serve" { "one_add" } else { "add" };
        let (running, url, file) = serve(&place, verb);
        let refused = place.run(["call", &url, tool, "a=1", "b=2"]);
        assert_eq!(refused.code, 5, "{refused:?}");
        let token = std::fs::read_to_string(&file).unwrap();
        #[cfg(unix)]
        crate::support::unix::assert_mode(&file, 0o600);
        let call = |token: &str| {
            let mut command =
                place.command(["call", &url, tool, "a=1", "b=2", "--bearer-env", "SERVED_TOKEN"]);
            command.env("SERVED_TOKEN", token);
            Running::start(command).end()
        };
        assert_eq!(call(token.trim()).fine().trim(), "3");
        assert_eq!(call("another").code, 5);
        drop(running);
        let (_running, _, again) = serve(&place, verb);
        assert_eq!((again.as_str(), std::fs::read_to_string(&again).unwrap()), (file.as_str(), token));
    }
}

#[test]
fn start_page_gives_the_token_to_its_owner_only() {
    let place = place();
    let (_running, url, file) = serve(&place, "serve");
    let token = std::fs::read_to_string(file).unwrap();
    let token = token.trim();
    for path in ["/", "/?token=wrong"] {
        let page = get(&url, path);
        assert!(
            page.contains("needs a token") && !page.contains(token) && !page.contains("one_add"),
            "{page}"
        );
    }
    let page = get(&url, &format!("/?token={token}"));
    for words in ["Authorization", "--bearer-env", "TSUGITE_TOKEN", "referrer-policy: no-referrer"] {
        assert!(page.contains(words), "{words} in {page}");
    }
}

#[test]
fn token_is_not_printed_without_a_terminal() {
    let place = place();
    let (running, _, file) = serve(&place, "serve");
    let token = std::fs::read_to_string(file).unwrap();
    let ran = running.kill();
    assert!(!ran.err.contains(token.trim()) && !ran.out.contains(token.trim()), "{ran:?}");
}

#[test]
fn config_add_takes_the_token_of_a_served_address() {
    let place = place();
    let (_running, url, file) = serve(&place, "serve");
    let token = std::fs::read_to_string(file).unwrap();
    place.run(["config", "add", "mine", &url, "--to", "cursor"]).fine();
    let written = std::fs::read_to_string(place.path.join(".cursor/mcp.json")).unwrap();
    assert!(written.contains(&format!("Bearer {}", token.trim())), "{written}");
}

#[test]
fn public_address_needs_a_token() {
    // HTTP-006
    let place = place();
    for words in [["serve", "--listen", "0.0.0.0:0"], ["bridge", "--listen=0.0.0.0:0", "demo"]] {
        let refused = place.run(words).failed(1);
        assert!(refused.contains("without a token") && refused.contains("--no-auth"), "{refused}");
    }
    let open = Running::start(place.command(["serve", "--listen", "0.0.0.0:0", "--no-auth"]));
    open.wait_for_stderr("open to every machine");
    place.file("token", "s3cret\n");
    let closed = Running::start(place.command(["serve", "--listen", "0.0.0.0:0", "--token", "token"]));
    let url = closed.line().trim().to_owned();
    assert_eq!(place.run(["call", &url, "add", "a=1", "b=2"]).code, 5);
    let header = ["call", &url, "add", "a=1", "b=2", "-H", "Authorization: Bearer s3cret"];
    assert_eq!(place.run(header).fine().trim(), "3");
    // The page shows the token to no visitor of another machine.
    assert!(!get(&url.replace("0.0.0.0", "127.0.0.1"), "/?token=s3cret").contains("s3cret"));
}

#[test]
fn unusable_token_file_is_an_error() {
    let place = place();
    place.file("empty", "\n").file("two", "a b\n");
    for file in ["empty", "two", "nowhere"] {
        let refused = place.run(["serve", "--listen", "127.0.0.1:0", "--token", file]).failed(1);
        assert!(refused.contains(file), "{refused}");
    }
}

#[test]
fn https_is_served_with_a_certificate() {
    let place = place();
    let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/../tsugite/tests/tls");
    let (certificate, key) = (format!("{tls}/certificate.pem"), format!("{tls}/key.pem"));
    let words = ["serve", "--listen", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
    let running = Running::start(place.command(words));
    let url = running.line().trim().replace("127.0.0.1", "localhost");
    assert!(url.starts_with("https://"), "{url}");
    let mut command = place.command(["call", &url, "add", "a=1", "b=2"]);
    command.env("SSL_CERT_FILE", &certificate);
    assert_eq!(Running::start(command).end().fine().trim(), "3");
}

#[test]
fn web_page_with_the_token_cannot_name_a_command() {
    // L-09
    let place = place();
    let (_running, url, file) = serve(&place, "bridge");
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    let token = std::fs::read_to_string(file).unwrap();
    let token = format!("Authorization: Bearer {}\r\n", token.trim());
    let started = place.path.join("started");
    let (program, script) = (helper(), format!("append '{}' x", started.display()));
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let args = format!("script {}", encoded(&script));
    let query = format!("transportType=stdio&command={}&args={}", encoded(program), args.replace(' ', "+"));
    let info = json!({"name": "c", "version": "1"});
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info, "transportType": "stdio",
        "command": program, "args": ["script", script], "server": {"command": program},
    });
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    // A page of another site, with the stolen token.
    let foreign = format!("{token}Origin: https://evil.example\r\n");
    assert!(post(address, &format!("/mcp?{query}"), &foreign, &hello).starts_with("HTTP/1.1 403"));
    // A program with the token: it reaches the configured server, whatever it asks for.
    let answer = post(address, &format!("/mcp?{query}"), &token, &hello);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("tsugite-demo"), "{answer}");
    for path in ["/stdio", "/sse", "/message", "/config", "/connect"] {
        let answer = post(address, &format!("{path}?{query}"), &token, &hello);
        assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
    }
    // The stream of HTTP+SSE, as a tool for developers opened it.
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET /sse?{query} HTTP/1.1\r\nHost: {address}\r\n{token}\r\n").unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut status = [0; 12];
    socket.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    assert!(!started.exists());
}
