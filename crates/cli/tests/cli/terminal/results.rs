//! Results that are JSON: a line for each member on a terminal, one line in a pipe.

use super::Terminal;
use crate::support::Place;

/// A server whose results are JSON: structured, as text, as a resource and in a prompt.
const SERVER: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  case "$line" in
  *'"initialize"'*) reply 1 '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"json","version":"1"}}';;
  *'"tools/list"'*) reply 2 '{"tools":[{"name":"structured","inputSchema":{"type":"object"}},{"name":"bare","inputSchema":{"type":"object"}},{"name":"text","inputSchema":{"type":"object"}},{"name":"words","inputSchema":{"type":"object"}}]}';;
  *'"name":"structured"'*) reply 3 '{"content":[{"type":"text","text":"{ \"n\": 1.50 }"}],"structuredContent":{"n":1.5}}';;
  *'"name":"bare"'*) reply 3 '{"content":[],"structuredContent":{"n": [1]}}';;
  *'"name":"text"'*) reply 3 '{"content":[{"type":"text","text":"{\"n\":1}"}]}';;
  *'"name":"words"'*) reply 3 '{"content":[{"type":"text","text":"in words"}],"structuredContent":{"n":1}}';;
  *'"resources/read"'*) reply 2 '{"contents":[{"uri":"a:b","mimeType":"application/json","text":"{\"n\":1}"}]}';;
  *'"prompts/list"'*) reply 2 '{"prompts":[{"name":"p"}]}';;
  *'"prompts/get"'*) reply 3 '{"messages":[{"role":"user","content":{"type":"text","text":"{\"n\":1}"}}]}';;
  esac
done
"#;

fn place() -> Place {
    let place = Place::new();
    place.file("json.sh", SERVER);
    place
}

#[test]
fn json_is_laid_out_on_a_terminal() {
    for (words, expected) in [
        ("call structured", "{\n  \"n\": 1.5\n}\n"),
        ("call bare", "{\n  \"n\": [\n    1\n  ]\n}\n"),
        ("call text", "{\n  \"n\": 1\n}\n"),
        ("call words", "in words\n"),
        ("read a:b", "{\n  \"n\": 1\n}\n"),
        ("prompt p", "user: {\n  \"n\": 1\n}\n"),
        (
            "call text --json",
            "{\n  \"content\": [\n    {\n      \"type\": \"text\",\n      \"text\": \"{\\\"n\\\":1}\"\n",
        ),
    ] {
        let script = format!("\"$TSUGITE\" {words} --rev 2025-11-25 -- sh json.sh");
        let terminal = Terminal::within(place(), &script);
        let screen = terminal.ends_with("(ended with 0)");
        assert!(screen.starts_with(expected), "{words}: {screen}");
    }
}

#[test]
fn json_is_one_line_in_a_pipe() {
    let place = place();
    for (words, expected) in [
        ("call structured", "{\"n\":1.5}\n"),
        ("call bare", "{\"n\":[1]}\n"),
        ("call text", "{\"n\":1}\n"),
        ("call words", "in words\n"),
        ("read a:b", "{\"n\":1}"),
        ("prompt p", "user: {\"n\":1}\n"),
        ("call text --json", "{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"n\\\":1}\"}]}\n"),
    ] {
        let words = format!("{words} --rev 2025-11-25 -- sh json.sh");
        assert_eq!(place.run(words.split(' ')).fine(), expected, "{words}");
    }
}

#[test]
fn invisible_characters_in_names_are_shown() {
    let names = "ad\u{200b}d one\\ntwo \u{e0041}tag \u{2060}x";
    let tools: Vec<String> = names
        .split(' ')
        .map(|name| {
            format!(r#"{{"name":"{name}","description":"a\u200db","inputSchema":{{"type":"object"}}}}"#)
        })
        .collect();
    let server = SERVER.replace(r#"{"name":"text","inputSchema":{"type":"object"}}"#, &tools.join(","));
    let server = server.replace(r#","resources":{},"prompts":{}"#, "");
    let place = Place::new();
    place.file("json.sh", &server);
    let terminal = Terminal::within(place, "\"$TSUGITE\" list --rev 2025-11-25 -- sh json.sh");
    let screen = terminal.ends_with("(ended with 0)");
    for name in [r"ad\u{200b}d()", r"one\u{a}two()", r"\u{e0041}tag()", r"\u{2060}x()"] {
        assert!(screen.contains(&format!("  {name}")), "{name} in {screen}");
    }
}
