//! The prompt of `tsugite shell`: completion, history, questions, Ctrl-C and Ctrl-D.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::{STARTED, Terminal};
use crate::support::{Place, Served, tsugite};

#[test]
fn names_arguments_and_values_are_completed() {
    let terminal = Terminal::run("shell demo");
    let screen = terminal.ends_with("demo>");
    assert!(screen.contains("tsugite-demo"), "{screen}");
    assert!(screen.contains("15 tools, 3 resources, 1 template, 1 prompt"), "{screen}");
    // A tool, then its arguments.
    terminal.types("ad").presses("Tab").ends_with("demo> add");
    terminal.presses("Tab").shows("a=  b=");
    terminal.types("a").presses("Tab").types("1 ").presses("Tab").ends_with("demo> add a=1 b=");
    terminal.types("2").presses("Enter").shows("demo> add a=1 b=2\n3\n");
    terminal.ends_with("demo>");
    // Ambiguous completions are listed.
    terminal.types("lis").presses("Tab").ends_with("demo> list");
    terminal.presses("Tab").shows("list    listen");
    terminal.presses("C-c").shows("demo> list^C\n");
    terminal.ends_with("demo>");
    // Values that only the server knows.
    terminal.types("prompt rev").presses("Tab").types("lang").presses("Tab").types("ru").presses("Tab");
    terminal.shows("ruby  rust");
    terminal.types("s").presses("Tab").types("code=x").presses("Enter").shows("user: Review this rust: x");
    terminal.ends_with("demo>");
    terminal.types("read demo://ci").presses("Tab").types("J").presses("Tab").types("Ky").presses("Tab");
    terminal.presses("Enter").shows("Kyoto lies in Japan.");
    terminal.ends_with("demo>");
    terminal.types("call --js").presses("Tab").ends_with("demo> call --json");
}

#[test]
fn lines_are_edited_and_kept_in_history() {
    let place = Place::new();
    let history = place.path.join("state/tsugite/history");
    let terminal = Terminal::within(place, "\"$TSUGITE\" shell demo");
    terminal.ends_with("demo>");
    terminal.types("add a=1 b=2").presses("Enter").shows("\n3\n");
    terminal.ends_with("demo>");
    terminal.types(" add a=20 b=2").presses("Enter").shows("\n22\n");
    terminal.ends_with("demo>");
    terminal.types("measure txet=継手").presses("Enter").shows("unknown argument `txet`");
    terminal.ends_with("demo>");
    terminal.presses("Up").ends_with("demo> measure txet=継手");
    for _ in 0..4 {
        terminal.presses("Left");
    }
    terminal.presses("BSpace").presses("BSpace").types("ex").presses("Enter").shows("\"letters\": 2");
    terminal.ends_with("demo>");
    terminal.presses("Up").presses("Up").presses("Up").ends_with("demo> add a=1 b=2");
    terminal.presses("C-w").types("b=3").presses("C-a").types("call ").presses("C-e").presses("Enter");
    terminal.shows("demo> call add a=1 b=3\n4\n");
    terminal.ends_with("demo>");
    terminal.presses("C-d").ends_with("(ended with 0)");
    let kept = fs::read_to_string(&history).unwrap();
    let expected = "add a=1 b=2\nmeasure txet=継手\nmeasure text=継手\ncall add a=1 b=3\n";
    assert_eq!(kept, expected);
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    // The same place, another shell.
    let place = Place::new();
    place.file("state/tsugite/history", &kept);
    let terminal = Terminal::within(place, "\"$TSUGITE\" shell demo");
    terminal.ends_with("demo>");
    terminal.presses("Up").ends_with("demo> call add a=1 b=3");
    terminal.presses("Down").ends_with("demo>");
}

#[test]
fn input_typed_ahead_is_kept() {
    let terminal = Terminal::run("shell demo");
    terminal.ends_with("demo>");
    terminal.types("count to=20 pause_ms=20").presses("Enter");
    terminal.types("order").presses("Enter").types("Kiku").presses("Enter").types("!").presses("Enter");
    terminal.shows("counted to 20");
    let screen = terminal.shows("order declined");
    assert!(screen.contains("  name: Kiku\n"), "{screen}");
}

#[test]
fn form_is_filled_in_at_the_prompt() {
    let terminal = Terminal::run("shell demo");
    terminal.ends_with("demo>");
    terminal.types("order").presses("Enter").ends_with("  name:");
    terminal.types("Kikx").presses("BSpace").types("u").presses("Enter");
    terminal.ends_with("  planks (whole number) [2]:");
    terminal.types("13").presses("Enter").shows("expected at most 12, got 13");
    terminal.types("3").presses("Enter").presses("Enter").ends_with("  wrapped (yes or no):");
    terminal.presses("Enter").shows("3 planks of cedar for Kiku");
    terminal.ends_with("demo>");
    // Answers are not part of the history.
    terminal.presses("Up").ends_with("demo> order");
    terminal.presses("Enter").ends_with("  name:");
    // Ctrl-C stops the call, Ctrl-D only cancels the form.
    terminal.presses("C-c").shows("  name: ^C\nstopped\n");
    terminal.ends_with("demo>");
    terminal.types("order").presses("Enter").ends_with("  name:");
    terminal.presses("C-d").shows("error: the tool failed");
    terminal.ends_with("demo>");
    terminal.types("summarize text=long").presses("Enter").shows("Type the reply in one line");
    terminal.types("short").presses("Enter").shows("short\nshort\n");
    terminal.ends_with("demo>");
    terminal.presses("C-d").ends_with("(ended with 0)");
}

#[test]
fn ctrl_c_cancels_a_call_at_the_server() {
    let terminal = Terminal::run(&format!("shell --rev 2025-11-25 --trace trace.jsonl {STARTED}"));
    terminal.ends_with("sh>");
    let server = terminal.place.holds("server.pid", "\n");
    terminal.types("count to=1000 pause_ms=50").presses("Enter").shows("% step ");
    terminal.presses("C-c").shows("stopped\n");
    terminal.ends_with("sh>");
    let trace = fs::read_to_string(terminal.place.path.join("trace.jsonl")).unwrap();
    assert!(trace.contains("notifications/cancelled"), "{trace}");
    // The line is cleared, the server lives, and so does the connection.
    terminal.types("nonsense").presses("C-c").shows("sh> nonsense^C\n");
    terminal.ends_with("sh>");
    terminal.types("add a=1 b=2").presses("Enter").shows("\n3\n");
    terminal.ends_with("sh>");
    assert_eq!(terminal.place.holds("server.pid", "\n"), server);
    terminal.presses("C-d").ends_with("(ended with 0)");
    terminal.gone(&server);
}

#[test]
fn notes_are_printed_above_the_line() {
    let served = Served::start();
    for revision in ["2025-11-25", "2026-07-28"] {
        let terminal = Terminal::run(&format!("shell {} --rev {revision}", served.url));
        let prompt = format!("{}>", served.address());
        terminal.ends_with(&prompt);
        terminal.types("call add a=1").ends_with(&format!("{prompt} call add a=1"));
        tsugite(&format!("call {} toggle", served.url)).fine();
        let screen = terminal.shows("note: tools: + surprise");
        assert!(screen.trim_end().ends_with(&format!("{prompt} call add a=1")), "{screen}");
        terminal.types(" b=2").presses("Enter").shows("\n3\n");
        terminal.ends_with(&prompt);
        // New names are completed, and old ones no more.
        terminal.types("surp").presses("Tab").ends_with(&format!("{prompt} surprise"));
        terminal.presses("Enter").shows("boo");
        terminal.ends_with(&prompt);
        tsugite(&format!("call {} toggle", served.url)).fine();
        terminal.shows("note: tools: - surprise");
        terminal.types("listen demo://counter").presses("Enter").shows("listening; press Ctrl-C to stop");
        tsugite(&format!("call {} touch", served.url)).fine();
        terminal.shows("resource demo://counter");
        terminal.presses("C-c").ends_with(&prompt);
    }
}

#[test]
fn lost_server_is_noted_and_restarted() {
    let terminal = Terminal::run(&format!("shell --rev 2025-11-25 {STARTED}"));
    terminal.ends_with("sh>");
    let server = terminal.place.holds("server.pid", "\n");
    terminal.types("add a=").ends_with("sh> add a=");
    assert!(Command::new("kill").args(["-9", server.trim()]).status().unwrap().success());
    let screen = terminal.shows("note: the server exited and was started again");
    assert!(screen.trim_end().ends_with("sh> add a="), "{screen}");
    terminal.types("1 b=2").presses("Enter").shows("\n3\n");
    terminal.ends_with("sh>");
    terminal.presses("C-d").ends_with("(ended with 0)");
}

#[test]
fn question_of_a_lost_server_is_cancelled() {
    let terminal = Terminal::run(&format!("shell --rev 2025-11-25 {STARTED}"));
    terminal.ends_with("sh>");
    terminal.types("order").presses("Enter").ends_with("  name:");
    let server = terminal.place.holds("server.pid", "\n");
    assert!(Command::new("kill").args(["-9", server.trim()]).status().unwrap().success());
    terminal.shows("error: the connection was lost");
    terminal.ends_with("sh>");
    terminal.types("add a=1 b=2").presses("Enter").shows("\n3\n");
}

#[test]
fn signal_restores_the_terminal() {
    for question in [false, true] {
        let script = "sh -c 'echo $$ > shell.pid; exec \"$TSUGITE\" shell demo'; code=$?; stty -a > stty.txt; (exit $code)";
        let terminal = Terminal::within(Place::new(), script);
        terminal.ends_with("demo>");
        if question {
            terminal.types("order").presses("Enter").ends_with("  name:");
        }
        let shell = terminal.place.holds("shell.pid", "\n");
        assert!(Command::new("kill").args(["-TERM", shell.trim()]).status().unwrap().success());
        terminal.ends_with("(ended with 130)");
        let modes = terminal.place.holds("stty.txt", "\n");
        for mode in [" icanon", " echo ", " isig", " icrnl"] {
            assert!(modes.replace('\n', " ").contains(mode), "{mode} in {modes}");
        }
    }
}

#[test]
fn long_lines_wrap_on_narrow_terminals() {
    let terminal = Terminal::run("shell demo");
    terminal.ends_with("demo>");
    // Redrawing must not leave copies of the line.
    let once = |screen: &str| assert_eq!(screen.matches("measure text=").count(), 1, "{screen}");
    let letters = "abcdefghij".repeat(15);
    terminal.types("measure text=");
    for ten in letters.as_bytes().chunks(10) {
        terminal.types(std::str::from_utf8(ten).unwrap());
    }
    once(&terminal.shows(&letters[81..]));
    terminal.resize("60");
    terminal.presses("C-a").types("call ").presses("C-e").types("!");
    once(&terminal.shows("demo> call measure text="));
    once(&terminal.ends_with(&format!("{}!", &letters[96..])));
    once(&terminal.presses("Enter").shows("\"letters\": 151"));
    terminal.ends_with("demo>");
}

#[test]
fn prompt_survives_a_restart_of_the_server() {
    let script = "\"$TSUGITE\" dev --rev 2025-11-25 --watch config.sh -- sh server.sh";
    let place = Place::new();
    place.file("server.sh", SERVER).file("config.sh", "TOOL=one");
    let terminal = Terminal::within(place, script);
    terminal.shows("bench 1, revision 2025-11-25: 1 tool");
    terminal.ends_with("sh>");
    terminal.types("o").presses("Tab").presses("Enter").shows("called one");
    terminal.types("half a line");
    terminal.place.file("config.sh", "echo rebuilt >&2; TOOL=other");
    terminal.shows("note: tools: + other, - one");
    assert!(terminal.ends_with("sh> half a line").contains("\nrebuilt\n"));
    terminal.presses("C-c").ends_with("sh>");
    terminal.types("other").presses("Enter").shows("called other");
    terminal.presses("C-d").ends_with("(ended with 0)");
}

/// A server with one tool, whose name is in a file. It writes nothing to the terminal.
const SERVER: &str = r#"
. ./config.sh
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\).*/\1/p')
  case "$line" in
  *'"initialize"'*) reply '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bench","version":"1"}}';;
  *'"tools/list"'*) reply '{"tools":[{"name":"'$TOOL'","inputSchema":{"type":"object"}}]}';;
  *'"tools/call"'*) reply '{"content":[{"type":"text","text":"called '$TOOL'"}]}';;
  esac
done
"#;
