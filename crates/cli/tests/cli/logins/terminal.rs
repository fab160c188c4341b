//! Logins of commands on a terminal.

use super::protected::{Protected, browser, redirect_of};
use crate::support::Place;
use crate::terminal::Terminal;

#[test]
fn call_on_a_terminal_logs_in() {
    let (place, server) = (Place::new(), Protected::start());
    let script = format!(
        "BROWSER='{1}' \"$TSUGITE\" call {0} greet && \"$TSUGITE\" call {0} greet",
        server.url,
        browser().display()
    );
    let terminal = Terminal::within(place, &script);
    let screen = terminal.ends_with("(ended with 0)");
    assert!(screen.contains("log in to http://") && screen.contains("\nhello\nhello\n"), "{screen}");
    assert_eq!(server.logins(), 1);
}

#[test]
fn shell_on_a_terminal_logs_in() {
    let (place, server) = (Place::new(), Protected::start());
    let script = format!("BROWSER='{}' \"$TSUGITE\" shell {}", browser().display(), server.url);
    let terminal = Terminal::within(place, &script);
    let address = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    terminal.ends_with(&format!("{address}>"));
    terminal.types("greet").presses("Enter").shows("\nhello\n");
}

#[test]
fn shell_takes_the_pasted_answer() {
    let server = Protected::start();
    let terminal = Terminal::run(&format!("shell {} --no-browser", server.url));
    let screen = terminal.shows("paste it here:");
    // The terminal breaks the address into lines.
    let lines = screen.lines().skip_while(|line| !line.contains("/authorize?"));
    let address: String = lines.take_while(|line| !line.is_empty()).collect();
    terminal.types(&redirect_of(&address)).presses("Enter");
    let place = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    terminal.ends_with(&format!("{place}>"));
    terminal.types("greet").presses("Enter").shows("\nhello\n");
}

#[test]
fn no_login_begins_if_standard_error_is_no_terminal() {
    let server = Protected::start();
    let terminal = Terminal::run(&format!("list {} 2> said; cat said", server.url));
    terminal.shows("logs in with a browser");
    assert_eq!(server.logins(), 0);
}

#[test]
fn doctor_on_a_terminal_logs_in() {
    let (place, server) = (Place::new(), Protected::start());
    let entry = format!(r#"{{"mcpServers": {{"one": {{"type": "http", "url": "{}"}}}}}}"#, server.url);
    place.file("config/tsugite/mcp.json", &entry);
    let script = format!("BROWSER='{}' \"$TSUGITE\" config doctor --connect", browser().display());
    let terminal = Terminal::within(place, &script);
    let screen = terminal.ends_with("(ended with 0)");
    assert!(screen.contains("one  ok, connected in"), "{screen}");
}

#[test]
fn bridge_on_a_terminal_logs_in_before_it_serves() {
    let (place, server) = (Place::new(), Protected::start());
    let script =
        format!("BROWSER='{}' \"$TSUGITE\" bridge {} --listen 127.0.0.1:0", browser().display(), server.url);
    let terminal = Terminal::within(place, &script);
    terminal.shows("clients need the token in");
    terminal.presses("C-c").shows("(ended with");
}
