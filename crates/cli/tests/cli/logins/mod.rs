//! Logins of the binary at a protected server: `login`, `logout`, `auth list`, and verbs that meet a challenge.

mod bridges;
mod protected;
#[cfg(unix)]
mod terminal;

use std::process::Stdio;

use protected::{Protected, REFRESH, TOKEN, browser, redirect_of};

use crate::support::{Place, Ran, Running};

/// Runs `tsugite login` to its end.
fn run_login(place: &Place, words: &[&str]) -> Ran {
    let mut command = place.command(["login"].iter().chain(words));
    command.env("BROWSER", browser());
    Running::start(command).end()
}

#[test]
fn login_is_kept_for_later_commands() {
    let (place, server) = (Place::new(), Protected::start());
    let url = server.url.as_str();
    let refused = place.run(["call", url, "greet"]).failed(5);
    assert!(refused.contains(&format!("`tsugite login {url}` logs in")), "{refused}");
    let said = run_login(&place, &[url]).fine();
    assert!(said.starts_with(&format!("logged in to {url} at http://")), "{said}");
    let file = place.path.join("state/tsugite/credentials.json");
    assert!(file.exists());
    #[cfg(unix)]
    crate::support::unix::assert_mode(file, 0o600);
    assert_eq!(place.run(["call", url, "greet"]).fine().trim(), "hello");
    assert_eq!(place.run(["list", url, "--rev", "2025-11-25"]).code, 0);
    let listed = place.run(["auth", "list"]).fine();
    assert!(listed.contains(url) && listed.contains("minutes, then refreshed"), "{listed}");
    assert_eq!(place.run(["logout", url]).fine().trim(), format!("logged out of {url}"));
    assert_eq!(place.run(["call", url, "greet"]).code, 5);
    assert_eq!(server.logins(), 1);
}

#[test]
fn tokens_are_in_no_output_and_no_trace() {
    let (place, server) = (Place::new(), Protected::start());
    let login = run_login(&place, &[&server.url, "-vv", "--json"]);
    let call = place.run(["call", &server.url, "greet", "-vv", "--trace", "trace.jsonl"]);
    let listed = place.run(["auth", "list", "--json"]);
    let trace = std::fs::read_to_string(place.path.join("trace.jsonl")).unwrap();
    assert!(trace.contains("hello"), "{trace}");
    for text in [&login.out, &login.err, &call.out, &call.err, &listed.out, &listed.err, &trace] {
        for secret in [TOKEN, REFRESH, "c0de"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[test]
fn pasted_answer_logs_in_without_a_browser() {
    let (place, server) = (Place::new(), Protected::start());
    let mut command = place.command(["login", &server.url, "--no-browser"]);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command);
    let address = running.wait_for_stderr("/authorize?");
    running.wait_for_stderr("paste it here");
    running.send_line(&redirect_of(address.trim()));
    assert!(running.ends().fine().starts_with("logged in to "));
    assert_eq!(place.run(["call", &server.url, "greet"]).fine().trim(), "hello");
}

#[test]
fn missing_browser_falls_back_to_the_prompt() {
    let (place, server) = (Place::new(), Protected::start());
    let mut command = place.command(["login", &server.url]);
    command.stdin(Stdio::piped()).env("BROWSER", "/no/such/browser");
    let mut running = Running::start(command);
    running.wait_for_stderr("cannot open a browser");
    let address = running.wait_for_stderr("/authorize?");
    running.send_line(&redirect_of(address.trim()));
    assert!(running.ends().fine().starts_with("logged in to "));
}

#[test]
fn client_of_the_options_is_used() {
    let (place, server) = (Place::new(), Protected::start());
    place.file("secret", "s3cret-of-the-client\n");
    let client = ["--client-id", "my app", "--client-secret-file", "secret"];
    let scopes = ["--scope", "files:read", "--scope", "mail"];
    let words: Vec<&str> = [server.url.as_str()].into_iter().chain(client).chain(scopes).collect();
    let ran = run_login(&place, &words);
    assert!(!ran.err.contains("s3cret"), "{ran:?}");
    ran.fine();
    let page = server.last("/authorize").params;
    assert_eq!((page["client_id"].as_str(), page["scope"].as_str()), ("my app", "files:read mail"));
    assert!(
        page["redirect_uri"].starts_with("http://127.0.0.1:") && page["redirect_uri"].ends_with("/callback")
    );
    assert!(server.last("/token").authorization.starts_with("Basic "));
}

#[test]
fn client_of_a_configuration_entry_is_used() {
    let (place, server) = (Place::new(), Protected::start());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let entry = format!(
        r#"{{"mcpServers": {{"one": {{"type": "http", "url": "{}",
            "oauth": {{"clientId": "app-1", "callbackPort": {port}, "scopes": "files:read"}}}}}}}}"#,
        server.url
    );
    place.file("config/tsugite/mcp.json", &entry);
    let refused = place.run(["call", "one", "greet"]).failed(5);
    assert!(refused.contains("`tsugite login one` logs in"), "{refused}");
    run_login(&place, &["one"]).fine();
    let page = server.last("/authorize").params;
    assert_eq!((page["client_id"].as_str(), page["scope"].as_str()), ("app-1", "files:read"));
    assert_eq!(page["redirect_uri"], format!("http://localhost:{port}/callback"));
    assert_eq!(place.run(["call", "one", "greet"]).fine().trim(), "hello");
}
