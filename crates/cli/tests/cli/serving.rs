//! `tsugite serve`: prints the URL, serves the start page, and shuts down gracefully.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::support::{LONG, Place, Running, Served};

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

#[test]
fn signal_shuts_down_gracefully() {
    let Served { running, .. } = Served::start();
    running.heard("the demo server");
    running.signal("-INT");
    assert_eq!(running.end().code, 0);
}
