//! `tsugite serve`: prints the URL, serves the start page, and shuts down gracefully.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::support::{LONG, Place, Running, Served, TSUGITE, always, tsugite};

fn get(address: &str, host: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    write!(socket, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn start_page_explains_how_to_connect_each_host() {
    let served = Served::start();
    let page = get(served.address(), served.address());
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("content-type: text/html"), "{page}");
    for words in [
        "Claude Code",
        "Claude Desktop",
        "Cursor",
        "VS Code",
        "Windsurf",
        &format!("http</span> <span>tsugite-demo</span> <span>{}<", served.url),
    ] {
        assert!(page.contains(words), "{words:?} in {page}");
    }
    assert!(get(served.address(), "evil.example").starts_with("HTTP/1.1 403"));
}

#[test]
fn start_page_cannot_be_framed_and_hides_the_program() {
    let served = Served::start();
    let page = get(served.address(), served.address()).to_ascii_lowercase();
    let (head, body) = page.split_once("\r\n\r\n").unwrap();
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
    let policy = policy.unwrap_or_else(|| panic!("{head}"));
    for words in ["default-src 'none'", "script-src 'sha256-", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(words), "{words:?} in {policy}");
    }
    assert!(!policy.contains("script-src 'unsafe"), "{policy}");
    assert!(head.contains("x-frame-options: deny"), "{head}");
    let folder = std::path::Path::new(TSUGITE).parent().unwrap().to_str().unwrap().to_ascii_lowercase();
    assert!(!body.contains(&folder), "{body}");
}

#[test]
fn start_page_shows_the_current_lists() {
    let served = Served::start();
    let page = || get(served.address(), served.address());
    let before = page();
    for words in ["tsugite-demo", ">running<", ">15 tools<", "add(a: integer, b: integer)", "demo://motto"] {
        assert!(before.contains(words), "{words:?} in {before}");
    }
    Place::new().run(["call", &served.url, "toggle"]).fine();
    let started = Instant::now();
    while !page().contains(">16 tools<") {
        assert!(started.elapsed() < LONG, "{}", page());
    }
}

#[test]
fn allowed_host_is_served() {
    let place = Place::new();
    let words = ["serve", "--listen", "127.0.0.1:0", "--allow-host", "workshop.example"];
    let running = Running::start(place.command(words));
    let url = running.line();
    let address = url.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    let page = get(address, "workshop.example");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("http://workshop.example/mcp"), "{page}");
}

pub(crate) fn post(address: &str, path: &str, headers: &str, message: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let length = message.len();
    write!(
        socket,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {length}\r\n\r\n{message}"
    )
    .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn http_options_apply_to_serve_and_bridge() {
    let place = Place::new();
    let options = ["--path", "/tools", "--allow-origin", "https://app.example", "--no-sessions", "--no-sse"];
    for verb in [&["serve", "--listen", "127.0.0.1:0"][..], &["bridge", "demo", "--listen", "127.0.0.1:0"]] {
        let running = Running::start(place.command(verb.iter().chain(&options)));
        let url = running.line();
        let address =
            url.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/tools")).unwrap();
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let origin = "Origin: https://app.example\r\n";
        // Without a session there is nothing to begin first.
        let answer = post(address, "/tools", origin, list);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"add\""), "{answer}");
        let foreign = post(address, "/tools", "Origin: https://evil.example\r\n", list);
        assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
        assert!(post(address, "/mcp", origin, list).starts_with("HTTP/1.1 404"));
        assert!(post(address, "/messages", origin, list).starts_with("HTTP/1.1 404"));
    }
    let page = Running::start(place.command(["serve", "--listen", "127.0.0.1:0"].iter().chain(&options)));
    let url = page.line();
    let address = url.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/tools")).unwrap();
    let page = get(address, address);
    assert!(page.contains(&format!("http://{address}/tools")) && !page.contains("/sse"), "{page}");
}

#[test]
fn verbose_log_does_not_repeat_the_address() {
    let running = Running::start(Place::new().command(["serve", "-v", "--listen", "127.0.0.1:0"]));
    running.wait_for_stderr("the demo server");
    // It serves, so it has written all that it writes at its start.
    let url = running.line();
    let address = url.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    assert!(get(address, address).starts_with("HTTP/1.1 200"));
    assert_eq!(running.kill().err, "", "the rest of stderr");
}

#[cfg(unix)]
#[test]
fn signal_shuts_down_gracefully() {
    let Served { running, .. } = Served::start();
    running.wait_for_stderr("the demo server");
    running.signal("-INT");
    assert_eq!(running.end().code, 0);
}

#[test]
fn rejected_host_is_not_reported_as_missing_credentials() {
    let served = Served::start();
    let response = get(served.address(), "evil.example");
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    // A name that resolves to the server and is not allowed differs from machine to machine: repeat its response.
    let address = always("403 Forbidden\r\nContent-Type: application/json", body);
    let err = tsugite(&format!("list http://{address}/mcp")).failed(2);
    assert!(err.contains("step  http") && err.contains("does not serve the host"), "{err}");
    assert!(err.contains("--allow-host 127.0.0.1"), "{err}");
    assert!(!err.contains("Bearer") && !err.contains("authorization"), "{err}");
    let json = tsugite(&format!("list http://{address}/mcp --json")).failed(2);
    assert!(json.contains(r#""exit":2,"step":"http""#) && json.contains("--allow-host"), "{json}");
}

#[cfg(unix)]
#[test]
fn unix_socket_is_served_and_called() {
    let place = Place::new();
    // A short path: the name of a socket has at most 107 bytes.
    let running = Running::start(place.command(["serve", "--listen", "unix:s.sock", "--path", "/other"]));
    assert_eq!(running.line().trim(), "unix:s.sock#/other");
    let called = place.run(["call", "unix:s.sock#/other", "add", "a=1", "b=2"]).fine();
    assert_eq!(called.trim(), "3");
    let second = place.run(["serve", "--listen", "unix:s.sock"]).failed(2);
    assert!(second.contains("another server listens on this socket"), "{second}");
    let bridge = Running::start(place.command(["bridge", "--listen", "unix:b.sock", "unix:s.sock#/other"]));
    assert_eq!(bridge.line().trim(), "unix:b.sock");
    assert_eq!(place.run(["call", "unix:b.sock", "add", "a=2", "b=2"]).fine().trim(), "4");
}

#[test]
fn proxy_of_the_environment_is_used() {
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::new();
    let mut command = place.command(["ping", "http://mcp.example/mcp"]);
    command.env("http_proxy", format!("http://{}", proxy.local_addr().unwrap()));
    let running = Running::start(command);
    let (mut socket, _) = proxy.accept().unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut head = [0; 32];
    socket.read_exact(&mut head).unwrap();
    assert_eq!(String::from_utf8_lossy(&head), "POST http://mcp.example/mcp HTTP");
    drop(socket);
    drop(running);
}
