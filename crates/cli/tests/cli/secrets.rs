//! Secrets of the user stay out of errors, notes, the process table and files that others can read.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use crate::support::{LONG, Place, Running, always};

#[test]
fn secrets_of_a_url_are_in_no_error_or_note() {
    let place = Place::new();
    let missing = always("404 Not Found", "");
    let denied = always("401 Unauthorized", "");
    let urls = [
        format!("http://{missing}/api?key=SECRET#SECRET"),
        format!("http://{denied}/mcp?key=SECRET"),
        "http://127.0.0.1:1/mcp?key=SECRET".to_owned(),
        "http://me:SECRET@127.0.0.1:1/mcp".to_owned(),
        "unix:/no/such.sock#/mcp?key=SECRET".to_owned(),
        "127.0.0.1:1/mcp?key=SECRET".to_owned(),
        "ftp://me:SECRET@host/?key=SECRET".to_owned(),
        "host/mcp?key=SECRET".to_owned(),
    ];
    for url in &urls {
        for words in
            [&["ping", url][..], &["info", url, "--json"], &["ping", "demo", url], &["list", url, "-vv"]]
        {
            let ran = place.run(words);
            assert!(ran.code != 0 && !ran.err.is_empty(), "{words:?} {ran:?}");
            assert!(!ran.err.contains("SECRET"), "{words:?} {}", ran.err);
        }
    }
    let url = "http://127.0.0.1:1/mcp?key=SECRET";
    for words in [&["bridge", "--listen", "127.0.0.1:0", url][..], &["serve", "--listen", "127.0.0.1:0", url]]
    {
        let running = Running::start(place.command(words));
        running.line();
        let banner = running.wait_for_stderr("serving ");
        assert!(!banner.contains("SECRET"), "{banner}");
    }
}

#[cfg(unix)]
#[test]
fn trace_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let place = Place::new();
    let mode = |path: &str| fs::metadata(place.path.join(path)).unwrap().permissions().mode() & 0o777;
    place.run(["ping", "demo", "--trace", "new.jsonl"]).fine();
    assert_eq!(mode("new.jsonl"), 0o600);
    place.file("old.jsonl", "before\n");
    fs::set_permissions(place.path.join("old.jsonl"), PermissionsExt::from_mode(0o644)).unwrap();
    place.run(["ping", "demo", "--trace", "old.jsonl"]).fine();
    assert_eq!(mode("old.jsonl"), 0o600);
    assert!(!fs::read_to_string(place.path.join("old.jsonl")).unwrap().contains("before"));
    // The mode of a device is not ours to change.
    place.run(["ping", "demo", "--trace", "/dev/null"]).fine();
    assert_ne!(mode("/dev/null"), 0o600);
}

#[test]
fn errors_as_json_are_cleaned_like_text() {
    let place = Place::new();
    let reply = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"a\u{9b}31mb\u{202e}c\u{7f}\"}}";
    let url = format!("http://{}/mcp", always("200 OK\r\nContent-Type: application/json", reply));
    let ran = place.run(["ping", "--rev", "2025-11-25", "--json", &url]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(!ran.err.contains(['\u{9b}', '\u{202e}', '\u{7f}']), "{:?}", ran.err);
    // Escapes do not change the value.
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert!(error.to_string().contains("a\u{9b}31mb\u{202e}c\u{7f}"), "{error}");
}

/// Starts a server that answers 404, and returns its URL and the head of each request.
fn heads() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let Ok(socket) = socket else { return };
            let _ = socket.set_read_timeout(Some(LONG));
            let mut head = String::new();
            let mut lines = BufReader::new(&socket);
            while lines.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            let _ = lines.read_exact(&mut body);
            let _ = (&socket)
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if sender.send(head).is_err() {
                return;
            }
        }
    });
    (url, receiver)
}

#[test]
fn headers_are_read_from_files_and_variables() {
    let place = Place::new();
    place.file("headers", "# for the tests\n\nX-One: 1\r\n  X-Two:  two words \n");
    let run = |words: &[&str]| {
        let (url, heads) = heads();
        let mut command = place.command([&["ping", url.as_str()], words].concat());
        command.env("MY_TOKEN", "s3cret\n");
        assert_eq!(Running::start(command).end().code, 2);
        heads.recv_timeout(LONG).unwrap()
    };
    let head = run(&["-H", "@headers", "--bearer-env", "MY_TOKEN", "-H", "X-Three: 3"]);
    for line in ["x-one: 1\r\n", "x-two: two words\r\n", "x-three: 3\r\n", "authorization: Bearer s3cret\r\n"]
    {
        assert!(head.contains(line), "{line:?} in {head}");
    }
}

#[test]
fn errors_about_headers_never_show_values() {
    let place = Place::new();
    place.file("broken", "X-One: 1\nAuthorization Bearer SECRET\n").file("control", "X-One: SEC\u{1}RET\n");
    let url = "http://127.0.0.1:1/mcp";
    for (words, expected) in [
        (&["-H", "Authorization Bearer SECRET"][..], "-H: expected 'Name: value'"),
        (&["-H", ": SECRET"], "-H: expected 'Name: value'"),
        (&["-H", "@broken"], "broken, line 2: expected 'Name: value'"),
        (&["-H", "@control"], "X-One"),
        (&["-H", "@missing"], "cannot read missing"),
        (&["--bearer-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE is not set"),
        (&["--bearer-env", "MY_TOKEN"], "MY_TOKEN"),
        (&["--bearer-env", "OTHER_TOKEN", "-H", "authorization: x"], "both set the header Authorization"),
    ] {
        for json in [&[][..], &["--json"]] {
            let mut command = place.command([&["ping", url], words, json].concat());
            command.env("MY_TOKEN", "SECRET\nSECRET").env("OTHER_TOKEN", "SECRET");
            let ran = Running::start(command).end();
            assert_eq!(ran.code, 1, "{words:?} {ran:?}");
            assert!(ran.err.contains(expected) && !ran.err.contains("SEC"), "{words:?} {}", ran.err);
        }
    }
    let err = place.run(["ping", "--bearer-env", "HOME", "--", "true"]).failed(1);
    assert!(err.contains("--bearer-env only apply to servers with a URL"), "{err}");
    let err = place.run(["config", "add", "x", url, "-H", "Authorization Bearer SECRET"]).failed(1);
    assert!(err.contains("expected 'Name: value'") && !err.contains("SECRET"), "{err}");
}
