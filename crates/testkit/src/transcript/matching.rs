//! Placeholders in expected messages: values that a peer chooses.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The values of the placeholders in a transcript, as far as they have been received.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings(HashMap<String, Value>);

impl Bindings {
    pub(super) fn bind(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Whether both are the same: `"$_"` matches anything, and `"$name"` the value, or the name of a member, that it matched
    /// the first time, which must be a text of at least 32 visible characters for `"$name:32+"`. Inside a string `$#` matches
    /// digits and `$*` any text.
    pub(super) fn matches(&mut self, expected: &Value, received: &Value) -> bool {
        match (expected, received) {
            (Value::String(name), _) if name == "$_" => true,
            (Value::String(text), _) if is_placeholder(text) => {
                let (name, least) = placeholder(text);
                let known = self.0.entry(name.to_owned()).or_insert_with(|| received.clone());
                known == received && least.is_none_or(|least| has_characters(received, least))
            }
            (Value::Object(expected), Value::Object(received)) => {
                expected.len() == received.len()
                    && expected.iter().all(|(name, value)| {
                        // Schemas have members such as `$ref`.
                        let name = match is_placeholder(name) && !received.contains_key(name) {
                            true => self.member_name(name, expected, received),
                            false => Some(name.clone()),
                        };
                        let found = name.and_then(|name| received.get(&name));
                        found.is_some_and(|found| self.matches(value, found))
                    })
            }
            (Value::Array(expected), Value::Array(received)) => {
                expected.len() == received.len()
                    && expected
                        .iter()
                        .zip(received)
                        .all(|(expected, received)| self.matches(expected, received))
            }
            (Value::String(expected), Value::String(received)) => text_matches(expected, received),
            _ => expected == received,
        }
    }

    /// The name for which a placeholder stands: the one that it matched before, or the first that nothing else in `expected`
    /// stands for.
    fn member_name(
        &mut self,
        placeholder: &str,
        expected: &Map<String, Value>,
        received: &Map<String, Value>,
    ) -> Option<String> {
        if let Some(known) = self.0.get(placeholder) {
            return known.as_str().map(str::to_owned);
        }
        let is_taken = |name: &String| {
            expected.contains_key(name)
                || expected.keys().any(|other| self.0.get(other).and_then(Value::as_str) == Some(name))
        };
        let name = received.keys().find(|name| !is_taken(name))?;
        self.bind(placeholder, name.as_str().into());
        Some(name.clone())
    }

    /// Replaces every placeholder with its value. Fails if one has none yet.
    pub(super) fn substitute(&self, value: &Value) -> Result<Value, String> {
        self.replace(value, &|name| Err(format!("{name} has no value yet")))
    }

    /// Replaces the placeholders that have a value.
    pub(super) fn substitute_known(&self, value: &Value) -> Value {
        self.replace(value, &|name| Ok(Value::String(name.to_owned()))).unwrap_or_default()
    }

    /// Fails if two of these placeholders have the same value, or one has none.
    pub(super) fn expect_different<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut values: Vec<(&str, &Value)> = Vec::new();
        for name in names {
            let value = self.0.get(name).ok_or_else(|| format!("{name} has no value yet"))?;
            if let Some((same, _)) = values.iter().find(|(_, known)| *known == value) {
                return Err(format!("{same} and {name} are both {value}"));
            }
            values.push((name, value));
        }
        Ok(())
    }

    fn replace(
        &self,
        value: &Value,
        unknown: &dyn Fn(&str) -> Result<Value, String>,
    ) -> Result<Value, String> {
        Ok(match value {
            Value::String(name) if is_placeholder(name) => match self.0.get(placeholder(name).0) {
                Some(value) => value.clone(),
                None => unknown(name)?,
            },
            Value::Object(members) => {
                let filled = members.iter().map(|(name, value)| {
                    let name = match self.0.get(name) {
                        Some(Value::String(known)) => known.clone(),
                        _ => name.clone(),
                    };
                    Ok((name, self.replace(value, unknown)?))
                });
                Value::Object(filled.collect::<Result<_, String>>()?)
            }
            Value::Array(items) => Value::Array(
                items.iter().map(|item| self.replace(item, unknown)).collect::<Result<_, String>>()?,
            ),
            other => other.clone(),
        })
    }
}

fn is_placeholder(text: &str) -> bool {
    text.strip_prefix('$')
        .is_some_and(|name| name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_'))
}

/// The name of a placeholder, and how many characters its value has at least.
fn placeholder(text: &str) -> (&str, Option<usize>) {
    let limited = text.split_once(':').and_then(|(name, least)| {
        let least = least.strip_suffix('+')?.parse().ok()?;
        Some((name, Some(least)))
    });
    limited.unwrap_or((text, None))
}

/// Whether a value is a text of at least so many visible ASCII characters and of no others.
fn has_characters(value: &Value, least: usize) -> bool {
    value.as_str().is_some_and(|text| text.len() >= least && text.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Whether `text` fits a pattern in which `$#` stands for digits and `$*` for any text.
fn text_matches(pattern: &str, text: &str) -> bool {
    let Some(at) = pattern.find("$#").into_iter().chain(pattern.find("$*")).min() else {
        return pattern == text;
    };
    let (before, wildcard) = pattern.split_at(at);
    let (wildcard, after) = wildcard.split_at(2);
    let Some(rest) = text.strip_prefix(before) else { return false };
    match wildcard {
        "$#" => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0 && text_matches(after, rest.split_at(digits).1)
        }
        _ => rest
            .char_indices()
            .map(|(at, _)| at)
            .chain([rest.len()])
            .any(|at| text_matches(after, rest.split_at(at).1)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_match_digits_and_text() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a $# b", "a 12 b", true),
            ("a $# b", "a  b", false),
            ("a $# b", "a x b", false),
            ("a $*", "a ", true),
            ("a $* b", "a x y b", true),
            ("a $* b", "a x y c", false),
            ("$*", "日本", true),
        ] {
            assert_eq!(text_matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn placeholders_may_need_a_length_and_may_have_to_differ() {
        let mut bindings = Bindings::default();
        for (expected, received, fits) in [
            ("$a:3+", Value::from("abc"), true),
            ("$a", Value::from("abc"), true),
            ("$a:4+", Value::from("abc"), false),
            ("$b:3+", Value::from("a b"), false),
            ("$c:3+", Value::from(1234), false),
            ("$d", Value::from("abd"), true),
            ("$e", Value::from("abc"), true),
        ] {
            assert_eq!(bindings.matches(&Value::from(expected), &received), fits, "{expected} {received}");
        }
        assert_eq!(bindings.substitute_known(&Value::from("$a:3+")), "abc");
        assert_eq!(bindings.expect_different(["$a", "$d"].into_iter()), Ok(()));
        assert!(bindings.expect_different(["$a", "$d", "$e"].into_iter()).is_err());
        assert!(bindings.expect_different(["$a", "$unknown"].into_iter()).is_err());
    }

    #[test]
    fn names_of_members_may_be_placeholders() {
        let mut bindings = Bindings::default();
        let received = json!({"asked": {"a": 1, "q-7": 2}});
        assert!(bindings.matches(&json!({"asked": {"a": 1, "$key": 2}}), &received));
        assert!(bindings.matches(&json!({"asked": {"$key": 2, "$other": 1}}), &received));
        assert!(
            !bindings.matches(&json!({"asked": {"a": 1, "$key": 2}}), &json!({"asked": {"a": 1, "q-8": 2}}))
        );
        assert_eq!(bindings.substitute(&json!({"$key": "$other"})), Ok(json!({"q-7": "a"})));
        let schema = json!({"$ref": "#", "$defs": {}});
        assert!(bindings.matches(&schema, &schema));
        assert_eq!(bindings.substitute(&schema), Ok(schema));
    }
}
