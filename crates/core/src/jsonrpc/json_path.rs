//! Locates a deserialization error: converts a text position into a JSON path.

use std::fmt::Write as _;

/// Returns the path of the value at a line and column (both from one), such as `items[2].name`; empty for the whole value.
///
/// `text` is valid JSON. The path names the last element before the position: a value, a member name, or an opened
/// container.
pub fn path_at(text: &str, line: usize, column: usize) -> String {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let end = text.len().min(before.saturating_add(column));
    let mut open: Vec<PathStep<'_>> = Vec::new();
    let (mut at, mut named) = (0, false);
    while let Some(byte) = text.as_bytes().get(at).filter(|_| at < end) {
        let start = at;
        at += match byte {
            b'"' => string_length(text.get(at..).unwrap_or_default()),
            _ => 1,
        };
        match (byte, open.last_mut()) {
            (b' ' | b'\t' | b'\r' | b'\n', _) => continue,
            (b'}' | b']', _) => drop(open.pop()),
            (b',', Some(PathStep::Item(_, number))) => *number += 1,
            (b',', Some(PathStep::Member(_))) => named = false,
            (b':', _) => {}
            (b'"', Some(PathStep::Member(name))) if !named => {
                (*name, named) = (text.get(start..at.min(end)), true);
            }
            (_, Some(PathStep::Item(started, _))) => *started = true,
            _ => {}
        }
        match byte {
            b'{' => open.push(PathStep::Member(None)),
            b'[' => open.push(PathStep::Item(false, 0)),
            _ => continue,
        }
        named = false;
    }
    let mut path = String::new();
    for step in open {
        match step {
            PathStep::Member(Some(quoted)) => {
                let name: String =
                    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.trim_matches('"').to_owned());
                let dot = if path.is_empty() { "" } else { "." };
                // Writing to a string cannot fail.
                let _ = write!(path, "{dot}{name}");
            }
            PathStep::Item(true, number) => drop(write!(path, "[{number}]")),
            PathStep::Member(None) | PathStep::Item(false, _) => {}
        }
    }
    path
}

/// An open container.
enum PathStep<'a> {
    /// An object, with the quoted name of the current member.
    Member(Option<&'a str>),
    /// An array, with the index of the current item and whether it has one.
    Item(bool, u64),
}

/// The length of the string literal at the start of `text`, with both quotes.
pub fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only whether it can be read matters")]
    struct Order {
        count: u8,
        items: Vec<Item>,
        pair: Option<(u8, u8)>,
        kind: Option<Kind>,
        by_name: Option<std::collections::BTreeMap<String, Vec<u8>>>,
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only whether it can be read matters")]
    struct Item {
        name: String,
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only whether it can be read matters")]
    enum Kind {
        Small,
        Big { size: u8 },
    }

    #[test]
    fn invalid_value_is_located() {
        for (text, expected) in [
            (r#"{"count":"x","items":[]}"#, "count"),
            (r#"{"count":300,"items":[]}"#, "count"),
            (r#"{ "items" : [ ] , "count" : { } }"#, "count"),
            (r#"{"count":[1],"items":[]}"#, "count"),
            (r#"{"count":null,"items":[]}"#, "count"),
            (r#"{"count":1,"items":{}}"#, "items"),
            (r#"{"count":1,"items":["]"]}"#, "items[0]"),
            (r#"{"count":1,"items":[{"name":"a","more":[{}]},{"name":2}]}"#, "items[1].name"),
            (r#"{"count":1,"items":[{"name":"a"},{"name":"\"}"},{}]}"#, "items[2]"),
            (r#"{"count":1,"items":[{"name":"a"},7]}"#, "items[1]"),
            (r#"{"items":[]}"#, ""),
            (r#"[]"#, ""),
            (r#"7"#, ""),
            (r#"{"count":1,"items":[],"pair":[1]}"#, "pair"),
            (r#"{"count":1,"items":[],"pair":[1,true]}"#, "pair[1]"),
            (r#"{"count":1,"items":[],"kind":"Large"}"#, "kind"),
            (r#"{"count":1,"items":[],"kind":{"Big":{"size":-1}}}"#, "kind.Big.size"),
            (r#"{"count":1,"items":[],"by_name":{"a.b":[1,2],"\u00e9\"":[1,[]]}}"#, "by_name.é\"[1]"),
            ("{\n  \"count\": 1,\n  \"items\": [\n    {\"name\": false}\n  ]\n}", "items[0].name"),
            (r#"{"count":1,"items":[],"colour":"red"}"#, "colour"),
        ] {
            let error = serde_json::from_str::<Order>(text).err().unwrap();
            assert_eq!(path_at(text, error.line(), error.column()), expected, "{text}: {error}");
        }
    }

    #[test]
    fn every_position_can_be_located() {
        for text in ["", "{", "[[", r#"{"a"#, r#"{"é":"é"#, "]}", "{\"a\":1}\n\n"] {
            for (line, column) in
                [(0, 0), (0, 9), (1, 0), (1, 4), (1, 5), (2, 1), (9, 9), (usize::MAX, usize::MAX)]
            {
                path_at(text, line, column);
            }
        }
    }
}
