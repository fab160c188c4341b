//! `tsugite shell` without a terminal: runs commands from standard input on one connection.

use std::process::Stdio;

use crate::held::Holds;
use crate::support::{Place, Ran, Running, Served, TSUGITE, helper, tsugite};

/// Starts a shell that waits for lines.
fn shell(place: &Place, words: &[&str]) -> Running {
    let mut command = place.command(["shell"].iter().chain(words));
    command.stdin(Stdio::piped());
    Running::start(command)
}

/// Runs a script on the demo server.
fn script(lines: &str) -> Ran {
    let place = Place::new();
    let mut running = shell(&place, &["demo"]);
    lines.lines().for_each(|line| running.send_line(line));
    running.end()
}

#[test]
fn commands_run_on_one_connection() {
    assert_eq!(script("call touch\ntouch\nread demo://counter").fine(), "1\n2\n2\n");
    let place = Place::new();
    let words = ["--trace", "t.jsonl", "--rev", "2025-11-25", "--", TSUGITE, "serve", "--stdio"];
    let mut running = shell(&place, &words);
    running.send_line("add a=1 b=2");
    running.send_line("add a=2 b=2");
    assert_eq!(running.end().fine(), "3\n4\n");
    let trace = std::fs::read_to_string(place.path.join("t.jsonl")).unwrap();
    assert_eq!(trace.matches("\"method\":\"initialize\"").count(), 1, "{trace}");
}

#[test]
fn commands_match_the_verbs() {
    for (command, words) in [
        ("list", "list demo"),
        ("list --json", "list demo --json"),
        ("call add a=1 b=2", "call demo add a=1 b=2"),
        ("add a=1 b=2 --json", "call demo add a=1 b=2 --json"),
        ("prompt review code=x", "prompt demo review code=x"),
        ("complete review language r", "complete demo review language r"),
        ("raw '{\"method\":\"tools/list\"}'", "raw demo {\"method\":\"tools/list\"}"),
        ("call order --answer name=Kiku", "call demo order --answer name=Kiku"),
    ] {
        assert_eq!(script(command).fine(), tsugite(words).fine(), "{command}");
    }
    assert!(script("info").fine().starts_with("server       tsugite-demo"));
    assert!(script("ping").fine().starts_with("server/discover answered in "));
    let help = script("help").fine();
    for command in ["list", "call", "read", "prompt", "complete", "listen", "ping", "info", "raw", "quit"] {
        assert!(
            help.contains(&format!("\n  {command} ")) || help.starts_with(&format!("  {command} ")),
            "{help}"
        );
        let about = script(&format!("help {command}")).fine();
        assert!(about.contains(&format!("Usage: {command}")) && about.contains("Examples:\n"), "{about}");
        assert_eq!(script(&format!("{command} --help")).fine(), about);
    }
}

#[test]
fn exit_code_is_that_of_the_last_failure() {
    for (lines, code) in [
        ("fail\nadd a=1 b=2", 4),
        ("fail\nread demo://nothing", 3),
        ("read demo://nothing\nlist --nothing", 1),
        ("help nothing", 1),
        ("call", 1),
        ("add @-", 1),
        ("add a=1 b=2\nquit\nfail", 0),
        ("exit\nfail", 0),
        ("# fail\n\n   \n", 0),
        ("", 0),
    ] {
        assert_eq!(script(lines).code, code, "{lines}");
    }
}

#[test]
fn invalid_utf8_line_is_reported() {
    let place = Place::new();
    std::fs::write(place.path.join("in"), b"measure text='it\"s  so'\r\nadd \xff\nmeasure text=a\\ b")
        .unwrap();
    let mut command = place.command(["shell", "demo"]);
    command.stdin(std::fs::File::open(place.path.join("in")).unwrap());
    let ran = Running::start(command).end();
    let expected = "{\"letters\":8,\"words\":2,\"lines\":1}\n{\"letters\":3,\"words\":2,\"lines\":1}\n";
    assert_eq!((ran.code, ran.out.as_str()), (1, expected), "{ran:?}");
    assert!(ran.err.contains("error: invalid UTF-8 in a line of standard input"), "{}", ran.err);
}

#[test]
fn preset_answers_apply_to_all_commands() {
    let place = Place::new();
    let mut running = shell(&place, &["demo", "--sample", "short", "--answer", "name=Kiku"]);
    running.send_line("summarize text=long");
    running.send_line("order");
    assert_eq!(running.end().fine(), "short\n2 planks of cedar for Kiku\n");
}

#[test]
fn changes_are_noted_and_new_tools_are_known() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let place = Place::new();
        let mut running = shell(&place, &["demo", "--rev", revision]);
        running.send_line("toggle");
        running.wait_for_stderr("note: tools: + surprise");
        running.send_line("surprise");
        assert_eq!((running.line(), running.line()), ("added `surprise`\n".into(), "boo\n".into()));
        running.send_line("toggle");
        running.wait_for_stderr("note: tools: - surprise");
        assert_eq!(running.end().fine(), "removed `surprise`\n", "{revision}");
    }
}

#[test]
fn listen_stops_after_count_changes() {
    let served = Served::start();
    let place = Place::new();
    let mut running = shell(&place, &[&served.url]);
    running.send_line("listen demo://counter -n 1");
    running.wait_for_stderr("listening");
    tsugite(&format!("call {} touch", served.url)).fine();
    assert_eq!(running.line(), "resource demo://counter\n");
    running.send_line("add a=1 b=2");
    assert_eq!(running.end().fine(), "3\n");
}

#[test]
fn next_command_restarts_a_lost_server() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let (place, holds) = (Place::new(), Holds::new());
        let script = format!("hold {holds}; serve");
        let mut running = shell(&place, &["--rev", revision, "--", helper(), "script", &script]);
        running.send_line("add a=1 b=2");
        assert_eq!(running.line(), "3\n");
        holds.next().kill();
        if revision == "2025-11-25" {
            running.wait_for_stderr("note: the server exited and was started again");
        }
        running.send_line("add a=2 b=2");
        assert_eq!(running.line(), "4\n", "{revision}");
        let second = holds.next();
        assert_eq!(running.end().code, 0);
        second.ends();
    }
}

#[test]
fn unreachable_server_does_not_end_the_shell() {
    let Served { url, running: server, .. } = Served::start();
    let place = Place::new();
    let mut running = shell(&place, &[&url]);
    running.send_line("add a=1 b=2");
    assert_eq!(running.line(), "3\n");
    drop(server);
    running.send_line("touch");
    running.wait_for_stderr("error: ");
    running.wait_for_stderr("the next command reconnects");
    running.send_line("read demo://motto");
    running.wait_for_stderr("error: ");
    running.send_line("help quit");
    assert!(running.line().starts_with("Leave"));
    let ran = running.end();
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[cfg(unix)]
#[test]
fn signal_ends_the_shell_and_its_server() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let place = Place::new();
        // With -v the server has our standard error: it closes only when both have ended.
        let mut running = shell(&place, &["-v", "--", TSUGITE, "serve", "--stdio"]);
        running.send_line("add a=1 b=2");
        assert_eq!(running.line(), "3\n");
        running.signal(signal);
        assert_eq!(running.ends().code, 130, "{signal}");
        let mut running = shell(&place, &["--trace", "t.jsonl", "-v", "--", TSUGITE, "serve", "--stdio"]);
        running.send_line("count to=1000 pause_ms=50");
        place.holds("t.jsonl", "notifications/progress");
        running.signal(signal);
        assert_eq!(running.ends().code, 130, "{signal}");
    }
}

#[cfg(unix)]
#[test]
fn interrupt_does_not_wait_for_a_stubborn_server() {
    let place = Place::new();
    let script = format!("ignore_signals; call '{TSUGITE}' serve --stdio; append closing now; stay");
    let running = Running::start(place.command(["shell", "--", helper(), "script", &script]));
    place.holds("closing", "now");
    running.signal("-INT");
    assert_eq!(running.ends().code, 130);
}
