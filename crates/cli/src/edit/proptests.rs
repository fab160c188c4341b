//! Property tests: after an edit of a random text the value is as expected and all other bytes are unchanged.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::Document;
use super::parser::Node;

/// Generates whitespace and comments.
fn blank() -> impl Strategy<Value = String> {
    vec(select(BLANKS), 0..3).prop_map(|pieces| pieces.concat())
}

/// Generates the text of a value.
fn value() -> impl Strategy<Value = String> {
    let leaf = select(LEAVES);
    leaf.prop_map(str::to_owned).prop_recursive(3, 12, 4, |inner| {
        let items =
            (vec((blank(), inner.clone(), blank()), 1..4), any::<bool>()).prop_map(|(items, trail)| {
                let items: Vec<String> = items.into_iter().map(|(a, b, c)| format!("{a}{b}{c}")).collect();
                format!("[{}{}]", items.join(","), if trail { "," } else { "" })
            });
        prop_oneof![items, object(inner)]
    })
}

/// Generates the text of an object without duplicate names.
fn object(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let member = (blank(), blank(), blank(), inner, blank());
    (vec(member, 0..4), any::<bool>(), blank()).prop_map(|(members, trail, end)| {
        let count = members.len();
        let members: Vec<String> = members
            .into_iter()
            .enumerate()
            .map(|(number, (a, b, c, value, d))| format!("{a}\"m{number}\"{b}:{c}{value}{d}"))
            .collect();
        let comma = if trail && count > 0 { "," } else { "" };
        format!("{{{}{comma}{end}}}", members.join(","))
    })
}

/// Generates a file that contains a list.
fn file() -> impl Strategy<Value = String> {
    (any::<bool>(), blank(), object(value()), blank(), any::<bool>(), blank()).prop_map(
        |(mark, a, list, b, more, c)| {
            let mark = if mark { "\u{feff}" } else { "" };
            let more = if more { ",\n\"more\": [1,\n2]" } else { "" };
            format!("{mark}{a}{{\"list\":{b}{list}{more}{c}}}{a}")
        },
    )
}

/// Whether the last entry is followed by a comma, which strict parsers reject.
fn has_trailing_comma(document: &Document) -> Option<bool> {
    let list = document.find(&["list"]).unwrap().unwrap();
    list.members().last().map(|last| last.comma.is_some())
}

/// Returns the comments of a text, except those within one node.
fn comments(text: &str, except: Option<&Node>) -> Vec<String> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        let rest = &text[at..];
        let length = if rest.starts_with('"') {
            let mut escaped = false;
            let close = rest.bytes().skip(1).position(|byte| {
                let closes = byte == b'"' && !escaped;
                escaped = byte == b'\\' && !escaped;
                closes
            });
            close.unwrap() + 2
        } else if rest.starts_with("//") {
            rest.find(['\n', '\r']).unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").unwrap() + 4
        } else {
            rest.chars().next().unwrap().len_utf8()
        };
        let inside = except.is_some_and(|node| at >= node.start && at < node.end);
        if rest.starts_with('/') && !inside {
            found.push(rest[..length].to_owned());
        }
        at += length;
    }
    found
}

fn parse(text: &str) -> Document {
    Document::parse(text.to_owned()).unwrap_or_else(|error| panic!("{error} in\n{text}"))
}

fn list_mut(value: &mut Value) -> &mut Map<String, Value> {
    value["list"].as_object_mut().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adding_an_entry_changes_nothing_else(text in file()) {
        let before = parse(&text);
        let entry = json!({"command": "x", "args": ["-y", "// no comment"], "env": {"A": "1"}});
        let after = before.set(&["list"], "new", &entry).unwrap();
        let mut expected = before.root().value();
        list_mut(&mut expected).insert("new".to_owned(), entry);
        prop_assert_eq!(parse(&after).root().value(), expected);
        prop_assert_eq!(comments(&after, None), comments(&text, None));
        prop_assert_eq!(has_trailing_comma(&parse(&after)), has_trailing_comma(&before).or(Some(false)));
        // The text before the last entry and from the end of the list on is unchanged.
        let list = before.find(&["list"]).unwrap().unwrap();
        let kept = list.members().last().map_or(list.start + 1, |last| last.value.end);
        prop_assert!(after.starts_with(&text[..kept]));
        prop_assert!(after.ends_with(&text[list.end - 1..]));
        // Removing the entry restores the text, except for whitespace in an empty list.
        let back = parse(&after).remove(&["list"], "new").unwrap().unwrap();
        prop_assert_eq!(parse(&back).root().value(), before.root().value());
        if list.members().last().is_some_and(|last| last.comma.is_none()) && comments(&text, None).is_empty() {
            prop_assert_eq!(back, text);
        }
    }

    #[test]
    fn replacing_an_entry_changes_nothing_else(text in file(), which in 0_usize..4) {
        let before = parse(&text);
        let list = before.find(&["list"]).unwrap().unwrap();
        if let Some(member) = list.members().get(which) {
            let after = before.set(&["list"], &member.name, &json!({"url": "y"})).unwrap();
            let mut expected = before.root().value();
            list_mut(&mut expected).insert(member.name.clone(), json!({"url": "y"}));
            prop_assert_eq!(parse(&after).root().value(), expected);
            prop_assert!(after.starts_with(&text[..member.value.start]));
            prop_assert!(after.ends_with(&text[member.value.end..]));
        }
    }

    #[test]
    fn removing_an_entry_changes_nothing_else(text in file(), which in 0_usize..4) {
        let before = parse(&text);
        let list = before.find(&["list"]).unwrap().unwrap();
        if let Some(member) = list.members().get(which) {
            let after = before.remove(&["list"], &member.name).unwrap().unwrap();
            let mut expected = before.root().value();
            list_mut(&mut expected).shift_remove(&member.name);
            prop_assert_eq!(parse(&after).root().value(), expected);
            prop_assert!(has_trailing_comma(&parse(&after)).is_none_or(|trails_now| Some(trails_now) == has_trailing_comma(&before)));
            let own = Node { start: member.start, end: member.value.end, kind: super::NodeKind::Null };
            prop_assert_eq!(comments(&after, None), comments(&text, Some(&own)));
            prop_assert!(after.ends_with(&text[list.end - 1..]));
            let kept = which.checked_sub(1).map_or(list.start + 1, |left| list.members()[left].value.end);
            prop_assert!(after.starts_with(&text[..kept]));
        }
    }

    #[test]
    fn parser_agrees_with_serde_json(text in value()) {
        let ours = Document::parse(text.clone());
        prop_assert!(ours.is_ok());
        if let Ok(theirs) = serde_json::from_str::<Value>(&text) {
            prop_assert_eq!(ours.map(|document| document.root().value()).ok(), Some(theirs));
        }
    }
}

const BLANKS: &[&str] =
    &["", "", " ", "\n", "\r\n", "\t", "    ", "/* , } */", "// \"x\": {\n", "/*/ */", "//\r\n"];
const LEAVES: &[&str] = &["1", "-2.5e3", "null", "true", "\"\"", "\"a // \\\" }\"", "\"継\"", "[]", "{}"];
