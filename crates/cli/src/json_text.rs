//! Lays out JSON text. Numbers and strings keep their spelling.

use tsugite::jsonrpc::RawJson;

/// Formats JSON with a line for each member. Numbers and strings keep their spelling.
pub(crate) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut letters = json.chars().peekable();
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(letter) = letters.next() {
        if in_string {
            out.push(letter);
            (in_string, escaped) = (escaped || letter != '"', !escaped && letter == '\\');
            continue;
        }
        match letter {
            '"' => {
                in_string = true;
                out.push(letter);
            }
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if letters.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    out.extend(letters.next());
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                newline(&mut out, depth);
            }
            ':' => out.push_str(": "),
            letter if letter.is_ascii_whitespace() => {}
            letter => out.push(letter),
        }
    }
    out
}

/// Formats JSON on one line, without spaces between the tokens.
pub(crate) fn one_line(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for letter in json.chars() {
        if in_string || !letter.is_ascii_whitespace() {
            out.push(letter);
        }
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
    }
    out
}

/// Whether a text is a JSON object or array.
pub(crate) fn is_object_or_array(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && RawJson::parse(text.trim()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_keeps_numbers_and_strings() {
        let text = r#"{"a":[1.50,{}, [] ],"b\"{":"x,y:z","c":1e400}"#;
        let expected =
            "{\n  \"a\": [\n    1.50,\n    {},\n    []\n  ],\n  \"b\\\"{\": \"x,y:z\",\n  \"c\": 1e400\n}";
        assert_eq!(pretty(text), expected);
        assert_eq!(one_line(&pretty(text)), r#"{"a":[1.50,{},[]],"b\"{":"x,y:z","c":1e400}"#);
        assert_eq!(pretty("{ }"), "{}");
        assert_eq!(pretty(r#""\\""#), r#""\\""#);
        assert_eq!(one_line(r#"["\\", " a b "]"#), r#"["\\"," a b "]"#);
    }

    #[test]
    fn only_objects_and_arrays_are_laid_out() {
        for text in ["{}", " [1]\n", "{\"a\": 1}"] {
            assert!(is_object_or_array(text), "{text}");
        }
        for text in ["", "3", "\"a\"", "{", "[1] and [2]", "{not json}"] {
            assert!(!is_object_or_array(text), "{text}");
        }
    }
}
