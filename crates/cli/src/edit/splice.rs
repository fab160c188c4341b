//! Computes the cuts and insertions of an edit. All bytes outside the entry are kept.
//!
//! Apart from the entry, only the comma between it and its neighbour changes, and whitespace of lines that would become
//! empty. Comments outside an entry are kept, including those about a removed entry.

use serde_json::{Map, Value};

use super::layout::{Layout, indent_at_line_start, is_indent, line_indent, line_start};
use super::parser::{Member, Node, WHITESPACE};
use super::{Document, EditError};

/// A byte range and its replacement.
type Splice = (usize, usize, String);

pub(super) fn set(
    document: &Document,
    path: &[&str],
    name: &str,
    value: &Value,
) -> Result<String, EditError> {
    let layout = Layout::detect(&document.text, &document.root);
    let mut node = &document.root;
    for (depth, part) in path.iter().enumerate() {
        let (above, below) = path.split_at_checked(depth).unwrap_or_default();
        match document.member(node, part, above)? {
            Some(member) => node = &member.value,
            None => {
                let entry = (name.to_owned(), value.clone());
                let inner = Value::Object(Map::from_iter([entry]));
                let nested =
                    below.iter().skip(1).rev().fold(inner, |inner, part| {
                        Value::Object(Map::from_iter([((*part).to_owned(), inner)]))
                    });
                return Ok(apply_splices(layout.text, append_member(&layout, node, part, &nested)));
            }
        }
    }
    let splices = match document.member(node, name, path)? {
        Some(member) => vec![replace_member(&layout, member, value)],
        None => append_member(&layout, node, name, value),
    };
    Ok(apply_splices(layout.text, splices))
}

pub(super) fn remove(document: &Document, path: &[&str], name: &str) -> Result<Option<String>, EditError> {
    let Some(node) = document.find(path)? else { return Ok(None) };
    if document.member(node, name, path)?.is_none() {
        return Ok(None);
    }
    let at = node.members().iter().position(|member| member.name == name).unwrap_or_default();
    Ok(Some(apply_splices(&document.text, remove_member(&document.text, node, at))))
}

fn replace_member(layout: &Layout<'_>, member: &Member, value: &Value) -> Splice {
    let text = match indent_at_line_start(layout.text, member.start) {
        Some(indent) => layout.multiline_value(value, indent),
        None => layout.inline_value(value),
    };
    (member.value.start, member.value.end, text)
}

/// Adds a member after all others.
fn append_member(layout: &Layout<'_>, object: &Node, name: &str, value: &Value) -> Vec<Splice> {
    match object.members().split_last() {
        Some((last, before)) => append_after_last(layout, object, last, before, name, value),
        None => vec![insert_into_empty(layout, object, name, value)],
    }
}

fn append_after_last(
    layout: &Layout<'_>,
    object: &Node,
    last: &Member,
    before: &[Member],
    name: &str,
    value: &Value,
) -> Vec<Splice> {
    let text = layout.text;
    let close = object.end.saturating_sub(1);
    let tail = last.comma.map_or(last.value.end, |comma| comma + 1);
    // Comments after the last member stay next to it.
    let (comments_end, rest) = split_trailing_blank(text, tail, close);
    let member = match indent_at_line_start(text, last.start) {
        Some(indent) => {
            let unit = indent.strip_prefix(line_indent(text, object.start)).filter(|unit| !unit.is_empty());
            let layout = Layout { indent_unit: unit.unwrap_or(layout.indent_unit), ..*layout };
            format!("{}{indent}{}", layout.newline, layout.multiline_member(name, value, indent))
        }
        // Text after a line comment must begin a new line.
        None if comments_end > tail && rest.contains(['\n', '\r']) => {
            let indent = format!("{}{}", line_indent(text, object.start), layout.indent_unit);
            format!("{}{indent}{}", layout.newline, layout.multiline_member(name, value, &indent))
        }
        None => {
            let gap = before.last().and_then(|neighbour| text.get(neighbour.comma? + 1..last.start));
            let gap = gap.filter(|gap| gap.chars().all(is_indent));
            let gap = gap.unwrap_or(if layout.spaced { " " } else { "" });
            format!("{gap}{}", layout.inline_member(name, value))
        }
    };
    match last.comma {
        Some(_) => vec![(comments_end, comments_end, format!("{member},"))],
        None => vec![(last.value.end, last.value.end, ",".to_owned()), (comments_end, comments_end, member)],
    }
}

fn insert_into_empty(layout: &Layout<'_>, object: &Node, name: &str, value: &Value) -> Splice {
    let text = layout.text;
    let (open, close) = (object.start + 1, object.end.saturating_sub(1));
    let (comments_end, rest) = split_trailing_blank(text, open, close);
    let outer = indent_at_line_start(text, close).unwrap_or_else(|| line_indent(text, object.start));
    let indent = format!("{outer}{}", layout.indent_unit);
    let newline = layout.newline;
    if comments_end == open {
        let inside = match layout.multiline {
            true => {
                format!("{newline}{indent}{}{newline}{outer}", layout.multiline_member(name, value, &indent))
            }
            false => layout.inline_member(name, value),
        };
        return (open, close, inside);
    }
    let member = match layout.multiline || rest.contains(['\n', '\r']) {
        true => format!("{newline}{indent}{}", layout.multiline_member(name, value, &indent)),
        false => format!(" {}", layout.inline_member(name, value)),
    };
    (comments_end, comments_end, member)
}

/// Removes a member and one comma.
fn remove_member(text: &str, object: &Node, at: usize) -> Vec<Splice> {
    let members = object.members();
    let Some(member) = members.get(at) else { return Vec::new() };
    let blank = |from: usize, to: usize| text.get(from..to).is_some_and(is_blank);
    let (open, close) = (object.start + 1, object.end.saturating_sub(1));
    let tail = member.comma.map_or(member.value.end, |comma| comma + 1);
    let alone = members.len() == 1 && blank(open, member.start) && blank(tail, close);
    if alone && blank(member.value.end, member.comma.unwrap_or(member.value.end)) {
        return vec![cut(open, close)];
    }
    let neighbour = at.checked_sub(1).and_then(|before| members.get(before)?.comma);
    match (member.comma, neighbour) {
        (Some(comma), _) if blank(member.value.end, comma) => vec![cut_line(text, member.start, comma + 1)],
        (Some(comma), _) => vec![cut(member.start, member.value.end), cut(comma, comma + 1)],
        // Removing the last member also removes the comma before it.
        (None, Some(comma)) if blank(comma + 1, member.start) => vec![cut(comma, member.value.end)],
        (None, Some(comma)) => vec![cut(comma, comma + 1), cut_line(text, member.start, member.value.end)],
        (None, None) => vec![cut_line(text, member.start, member.value.end)],
    }
}

/// Removes a range, and the line if it becomes empty, or the whitespace before the rest of the line.
fn cut_line(text: &str, start: usize, end: usize) -> Splice {
    let rest = text.get(end..).unwrap_or_default();
    let after = rest.trim_start_matches(is_indent);
    let blanks = rest.len() - after.len();
    let newline = ["\n", "\r\n"].into_iter().find(|newline| after.starts_with(newline));
    match (indent_at_line_start(text, start), newline) {
        (Some(_), Some(newline)) => cut(line_start(text, start), end + blanks + newline.len()),
        (None, Some(_)) => cut(start, end),
        (_, None) => cut(start, end + blanks),
    }
}

fn cut(start: usize, end: usize) -> Splice {
    (start, end, String::new())
}

/// Returns the end of the last comment between two offsets, and the whitespace after it. Without a comment the end is
/// `from`.
fn split_trailing_blank(text: &str, from: usize, to: usize) -> (usize, &str) {
    let mut comments_end = from;
    let mut at = from;
    while at < to {
        let rest = text.get(at..to).unwrap_or_default();
        let blanks = rest.len() - rest.trim_start_matches(WHITESPACE).len();
        let comment = at + blanks;
        if comment >= to {
            break;
        }
        let end = match rest.get(blanks..).unwrap_or_default() {
            line if line.starts_with("//") => comment + line.find(['\n', '\r']).unwrap_or(line.len()),
            block => {
                comment + block.get(2..).and_then(|inside| inside.find("*/")).map_or(2, |close| close + 4)
            }
        };
        (comments_end, at) = (end, end);
    }
    (comments_end, text.get(comments_end..to).unwrap_or_default())
}

fn is_blank(text: &str) -> bool {
    text.chars().all(|letter| WHITESPACE.contains(&letter))
}

fn apply_splices(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|(start, ..)| *start);
    let mut out = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for (start, end, replacement) in splices {
        out.push_str(text.get(at..start).unwrap_or_default());
        out.push_str(&replacement);
        at = end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(text: &str) -> Document {
        Document::parse(text.to_owned()).unwrap()
    }

    #[track_caller]
    fn set(text: &str, path: &[&str], value: Value) -> String {
        document(text).set(path, "new", &value).unwrap()
    }

    #[track_caller]
    fn remove(text: &str, path: &[&str], name: &str) -> String {
        document(text).remove(path, name).unwrap().unwrap()
    }

    fn server() -> Value {
        json!({"command": "x", "args": ["-y", "z"]})
    }

    #[test]
    fn new_entry_has_the_layout_of_its_neighbours() {
        let before = "{\n    \"mcpServers\": {\n        \"a\": {}\n    }\n}\n";
        let after = "{\n    \"mcpServers\": {\n        \"a\": {},\n        \"new\": {\n            \"command\": \"x\",\n            \"args\": [\"-y\", \"z\"]\n        }\n    }\n}\n";
        assert_eq!(set(before, &["mcpServers"], server()), after);
        let tabs = |text: &str| text.replace("    ", "\t");
        assert_eq!(set(&tabs(before), &["mcpServers"], server()), tabs(after));
        let two = |text: &str| text.replace("    ", "  ");
        assert_eq!(set(&two(before), &["mcpServers"], server()), two(after));
        let windows = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(set(&windows(before), &["mcpServers"], server()), windows(after));
        // A missing final newline stays missing.
        assert_eq!(set(before.trim_end(), &["mcpServers"], server()), after.trim_end());
    }

    #[test]
    fn comments_and_trailing_commas_are_kept() {
        let before = "{\n  // all of them\n  \"servers\": {\n    // the first\n    \"a\": {}, // about a\n    // the end\n  },\n}";
        let after = "{\n  // all of them\n  \"servers\": {\n    // the first\n    \"a\": {}, // about a\n    // the end\n    \"new\": 1,\n  },\n}";
        assert_eq!(set(before, &["servers"], json!(1)), after);
        let before = "{\n  \"servers\": {\n    \"a\": {} // about a\n  }\n}";
        let after = "{\n  \"servers\": {\n    \"a\": {}, // about a\n    \"new\": 1\n  }\n}";
        assert_eq!(set(before, &["servers"], json!(1)), after);
        assert_eq!(set("{\"a\":1 // x\n}", &[], json!(1)), "{\"a\":1, // x\n  \"new\": 1\n}");
        assert_eq!(set("{\"a\":1,/*/ x */}", &[], json!(1)), "{\"a\":1,/*/ x */\"new\":1,}");
    }

    #[test]
    fn single_line_layout_is_kept() {
        assert_eq!(set(r#"{"a":1}"#, &[], server()), r#"{"a":1,"new":{"command":"x","args":["-y","z"]}}"#);
        assert_eq!(set(r#"{ "a": 1 }"#, &[], json!({"b": [1, 2]})), r#"{ "a": 1, "new": {"b": [1, 2]} }"#);
        assert_eq!(set(r#"{"a": 1,  "b": 2}"#, &[], json!(3)), r#"{"a": 1,  "b": 2,  "new": 3}"#);
        assert_eq!(set(r#"{"s":{}}"#, &["s"], json!(3)), r#"{"s":{"new":3}}"#);
        // A list on one line in a file with several lines.
        assert_eq!(
            set("{\n  \"s\": {\"a\": 1}\n}", &["s"], json!({"b": 1})),
            "{\n  \"s\": {\"a\": 1, \"new\": {\"b\": 1}}\n}"
        );
    }

    #[test]
    fn empty_or_missing_objects_are_created() {
        let opened = "{\n  \"s\": {\n    \"new\": 1\n  }\n}\n";
        assert_eq!(set("{}\n", &["s"], json!(1)), opened);
        // The closing brace gives the indentation.
        let inner = "{\n   \"s\": {\n     \"new\": 1\n   }\n }\n";
        assert_eq!(set("{ \n }\n", &["s"], json!(1)), inner);
        assert_eq!(set("{\n  \"s\": {}\n}\n", &["s"], json!(1)), opened);
        assert_eq!(set("{\n  \"s\": {\n  }\n}\n", &["s"], json!(1)), opened);
        assert_eq!(
            set("{\n  \"s\": { // none\n  }\n}\n", &["s"], json!(1)),
            "{\n  \"s\": { // none\n    \"new\": 1\n  }\n}\n"
        );
        assert_eq!(
            set("{\n\t\"x\": 1\n}", &["projects", "/srv/a", "s"], json!(1)),
            "{\n\t\"x\": 1,\n\t\"projects\": {\n\t\t\"/srv/a\": {\n\t\t\t\"s\": {\n\t\t\t\t\"new\": 1\n\t\t\t}\n\t\t}\n\t}\n}"
        );
    }

    #[test]
    fn existing_entry_is_replaced_in_place() {
        let before = "{\n  \"s\": {\n    \"new\": {\"a\": 1 /* gone */}, // stays\n    \"b\": 2\n  }\n}";
        let after = "{\n  \"s\": {\n    \"new\": {\n      \"c\": 3\n    }, // stays\n    \"b\": 2\n  }\n}";
        assert_eq!(set(before, &["s"], json!({"c": 3})), after);
        assert_eq!(set(r#"{"new": [1], "b": 2}"#, &[], json!({"c": 3})), r#"{"new": {"c": 3}, "b": 2}"#);
    }

    #[test]
    fn removed_entry_takes_its_lines_and_one_comma() {
        let text = "{\n  \"s\": {\n    // one\n    \"a\": {\n      \"x\": 1\n    },\n    \"b\": 2, // two\n    \"c\": 3\n  }\n}\n";
        assert_eq!(
            remove(text, &["s"], "a"),
            "{\n  \"s\": {\n    // one\n    \"b\": 2, // two\n    \"c\": 3\n  }\n}\n"
        );
        assert_eq!(
            remove(text, &["s"], "b"),
            "{\n  \"s\": {\n    // one\n    \"a\": {\n      \"x\": 1\n    },\n    // two\n    \"c\": 3\n  }\n}\n"
        );
        assert_eq!(
            remove(text, &["s"], "c"),
            "{\n  \"s\": {\n    // one\n    \"a\": {\n      \"x\": 1\n    },\n    \"b\": 2 // two\n  }\n}\n"
        );
        let windows = remove(&text.replace('\n', "\r\n"), &["s"], "a");
        assert_eq!(windows, remove(text, &["s"], "a").replace('\n', "\r\n"));
    }

    #[test]
    fn removing_the_only_entry_leaves_an_empty_object() {
        assert_eq!(remove("{\n  \"s\": {\n    \"a\": 1,\n  }\n}", &["s"], "a"), "{\n  \"s\": {}\n}");
        assert_eq!(remove("{ \"a\": 1 }", &[], "a"), "{}");
        assert_eq!(remove("{\n  // x\n  \"a\": 1\n}", &[], "a"), "{\n  // x\n}");
        assert_eq!(remove("{\"a\": 1 /* x */ , }", &[], "a"), "{ /* x */  }");
    }

    #[test]
    fn removal_on_one_line_closes_the_gap() {
        assert_eq!(remove(r#"{"a":1, "b":2}"#, &[], "a"), r#"{"b":2}"#);
        assert_eq!(remove(r#"{"a":1, "b":2}"#, &[], "b"), r#"{"a":1}"#);
        assert_eq!(remove(r#"{ "a": 1, "b": 2, }"#, &[], "b"), r#"{ "a": 1, }"#);
        assert_eq!(remove("{\n  \"a\": 1,\n  \"b\": 2}", &[], "b"), "{\n  \"a\": 1}");
    }

    #[test]
    fn duplicate_names_and_non_objects_are_rejected() {
        let twice = document("{\n  \"s\": {\"new\": 1,\n\"new\": 2}\n}");
        let message = "line 3, s.new: duplicate name, on lines 2 and 3";
        assert_eq!(twice.set(&["s"], "new", &json!(1)).unwrap_err().to_string(), message);
        assert_eq!(twice.remove(&["s"], "new").unwrap_err().to_string(), message);
        let list = document("{\n  \"s\": []\n}");
        let message = "line 2, s: expected an object, found an array";
        assert_eq!(list.set(&["s"], "new", &json!(1)).unwrap_err().to_string(), message);
        assert_eq!(list.remove(&["s"], "new").unwrap_err().to_string(), message);
        let message = "line 1, the file: expected an object, found null";
        assert_eq!(document("null").set(&["s"], "new", &json!(1)).unwrap_err().to_string(), message);
        assert_eq!(document("{}").remove(&["s"], "new"), Ok(None));
    }
}
