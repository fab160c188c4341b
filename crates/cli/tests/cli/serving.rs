//! `tsugite serve`: the address first, a page for people, and an end in good order.

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
fn the_start_page_says_how_to_connect_each_host() {
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
fn the_start_page_shows_what_is_offered_now() {
    let served = Served::start();
    let page = || get(served.address(), served.address());
    let before = page();
    for words in ["tsugite-demo", ">runs<", ">15 tools<", "add(a: integer, b: integer)", "demo://motto"] {
        assert!(before.contains(words), "{words:?} in {before}");
    }
    Place::new().run(["call", &served.url, "toggle"]).fine();
    let begun = Instant::now();
    while !page().contains(">16 tools<") {
        assert!(begun.elapsed() < LONG, "{}", page());
    }
}

#[test]
fn a_host_that_is_allowed_is_served() {
    let place = Place::new();
    let words = ["serve", "--listen", "127.0.0.1:0", "--allow-host", "workshop.example"];
    let running = Running::start(place.command(words));
    let url = running.line();
    let address = url.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp")).unwrap();
    let page = get(address, "workshop.example");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("http://workshop.example/mcp"), "{page}");
}

#[test]
fn a_signal_ends_it_in_good_order() {
    let Served { running, .. } = Served::start();
    running.heard("the demo server");
    running.signal("-INT");
    assert_eq!(running.end().code, 0);
}
