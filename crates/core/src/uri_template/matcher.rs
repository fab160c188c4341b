//! Matches a URI against a template and returns the values.
//!
//! The cursor only moves forward and no step is repeated: a value consumes all characters of its class, and `compile`
//! has checked that this ends in the right place. So each byte is read a constant number of times, for a group of
//! parameters at most once per name.

use super::compile::{ParamGroup, Step, ValueContext, ValueStep};
use super::value_check;
use super::{RejectedValueError, TemplateValue, Variables, percent};

/// Matches the shape first, then checks the values, so that values of a URI that does not match are not checked.
pub(super) fn matches(steps: &[Step], uri: &str) -> Result<Option<Variables>, RejectedValueError> {
    let uri = percent::canonicalize(uri);
    let Some(found) = match_steps(steps, &uri, |_| {}) else { return Ok(None) };
    found.into_iter().map(MatchedValue::decode).collect::<Result<_, _>>().map(Some)
}

/// A value as it is written in the URI.
struct MatchedValue<'a> {
    name: &'a str,
    raw: &'a str,
    context: ValueContext,
    is_list: bool,
}

impl MatchedValue<'_> {
    fn decode(self) -> Result<(String, TemplateValue), RejectedValueError> {
        let text = |raw| value_check::decode_checked(self.name, raw, self.context);
        let value = if self.is_list {
            TemplateValue::List(self.raw.split('/').map(text).collect::<Result<_, _>>()?)
        } else {
            TemplateValue::Text(text(self.raw)?)
        };
        Ok((self.name.to_owned(), value))
    }
}

/// Finds the values. `look` gets the number of bytes about to be read; a test adds them up.
fn match_steps<'a>(
    steps: &'a [Step],
    uri: &'a str,
    look: impl FnMut(usize),
) -> Option<Vec<MatchedValue<'a>>> {
    let mut cursor = UriCursor { rest: uri, on_read: look };
    let mut found = Vec::new();
    for step in steps {
        match step {
            Step::Text(text) => cursor.text(text)?,
            Step::Value(slot) => found.push(cursor.value(slot)?),
            Step::Group(group) => cursor.group(group, &mut found)?,
        }
    }
    cursor.rest.is_empty().then_some(found)
}

struct UriCursor<'a, L> {
    rest: &'a str,
    on_read: L,
}

impl<'a, L: FnMut(usize)> UriCursor<'a, L> {
    fn text(&mut self, text: &str) -> Option<()> {
        (self.on_read)(text.len().min(self.rest.len()));
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn value(&mut self, slot: &'a ValueStep) -> Option<MatchedValue<'a>> {
        let raw = self.take_while(|found| slot.class.contains(found)).strip_suffix(&*slot.tail)?;
        // A tail that starts with a digit must not be the end of a triplet: `{a}1` has no value in `%41`.
        let mut last = raw.bytes().rev().take(2);
        let torn = !slot.tail.is_empty() && last.any(|byte| byte == b'%');
        (self.on_read)(if slot.is_list { slot.tail.len() + raw.len() } else { slot.tail.len() });
        if raw.is_empty() || torn || slot.is_list && raw.split('/').any(str::is_empty) {
            return None;
        }
        Some(MatchedValue { name: &slot.name, raw, context: slot.context, is_list: slot.is_list })
    }

    fn group(&mut self, group: &'a ParamGroup, found: &mut Vec<MatchedValue<'a>>) -> Option<()> {
        if !self.rest.starts_with(group.prefix) {
            return Some(());
        }
        let run = self.take_while(|found| group.class.contains(found));
        let mut values = vec![None; group.keys.len()];
        for pair in run.strip_prefix(group.prefix)?.split(group.separator) {
            (self.on_read)(pair.len() * (1 + group.keys.len()));
            let (wire, raw) = pair.split_once('=').unwrap_or((pair, ""));
            let (_, value) =
                group.keys.iter().zip(&mut values).find(|(key, _)| *key.encoded_name == *wire)?;
            if value.replace(raw).is_some() {
                return None;
            }
        }
        for (key, value) in group.keys.iter().zip(values) {
            let guard = group.context;
            found.extend(value.map(|raw| MatchedValue {
                name: &key.name,
                raw,
                context: guard,
                is_list: false,
            }));
        }
        Some(())
    }

    /// Consumes all characters that `takes` accepts.
    fn take_while(&mut self, takes: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|found| !takes(found)).unwrap_or(self.rest.len());
        (self.on_read)(end + 1);
        let (run, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        run
    }
}

#[cfg(test)]
mod tests {
    use super::super::UriTemplate;
    use super::*;

    /// The match as `name=value`, separated by spaces; a list in brackets.
    fn match_text(template: &str, uri: &str) -> Option<String> {
        let template = UriTemplate::parse(template).expect(template);
        let variables = template.matches(uri).expect(uri)?;
        let spell = |(name, value): (&str, &TemplateValue)| match value {
            TemplateValue::Text(text) => format!("{name}={text}"),
            TemplateValue::List(list) => format!("{name}=[{}]", list.join(",")),
        };
        Some(variables.iter().map(spell).collect::<Vec<_>>().join(" "))
    }

    fn assert_found(template: &str, uri: &str, expected: &str) {
        assert_eq!(match_text(template, uri).as_deref(), Some(expected), "{template} {uri}");
    }

    fn assert_none(template: &str, uris: &[&str]) {
        for uri in uris {
            assert_eq!(match_text(template, uri), None, "{template} {uri}");
        }
    }

    #[test]
    fn a_simple_variable_never_matches_a_slash() {
        assert_found("x/{a}", "x/y", "a=y");
        assert_none("x/{a}", &["x/y/z", "x/y/", "x//", "x/", "x", "y/y"]);
    }

    #[test]
    fn a_simple_variable_matches_nothing_reserved() {
        for reserved in ":/?#[]@!$&'()*+,;=".chars() {
            assert_none("x/{a}", &[&format!("x/y{reserved}"), &format!("x/{reserved}y")]);
        }
        assert_found("x/{a}", "x/-._~%3A%40Az9", "a=-._~:@Az9");
    }

    #[test]
    fn a_reserved_variable_matches_slashes() {
        assert_found("f:///{+a}", "f:///b/c.txt?d#e", "a=b/c.txt?d#e");
        assert_found("f:///{+a}/raw", "f:///b/raw/raw", "a=b/raw");
        assert_none("f:///{+a}/raw", &["f:////raw", "f:///raw", "f:///b"]);
    }

    #[test]
    fn an_exploded_path_matches_one_segment_or_more() {
        assert_found("x{/p*}", "x/b", "p=[b]");
        assert_found("x{/p*}", "x/b/c/d", "p=[b,c,d]");
        assert_none("x{/p*}", &["x", "x/", "x/b/", "x//b", "x/b//c", "xb", "x/b?c"]);
        assert_found("x{/p*}/end", "x/b/end/end", "p=[b,end]");
        assert_found("{a}{/p*}:{b}", "x/y/z:w", "a=x p=[y,z] b=w");
    }

    #[test]
    fn path_segments_match_one_each() {
        assert_found("x{/a,b}", "x/1/2", "a=1 b=2");
        assert_found("x{/a,p*}", "x/1/2/3", "a=1 p=[2,3]");
        assert_none("x{/a,b}", &["x/1", "x/1/", "x/1/2/3", "x//2"]);
    }

    #[test]
    fn query_parameters_match_in_any_order_and_may_be_missing() {
        let template = "x{?a,b}";
        assert_found(template, "x?a=1&b=2", "a=1 b=2");
        assert_found(template, "x?b=2&a=1", "a=1 b=2");
        assert_found(template, "x?b=2", "b=2");
        assert_found(template, "x", "");
        assert_found(template, "x?a=", "a=");
        assert_found(template, "x?a", "a=");
        assert_found("x?y=1{&a,b}", "x?y=1&b=2", "b=2");
        assert_found("x?y={y}{&a,b}", "x?y=1&b=2&a=3", "y=1 a=3 b=2");
    }

    #[test]
    fn unknown_or_repeated_parameter_does_not_match() {
        assert_none(
            "x{?a,b}",
            &["x?c=1", "x?a=1&c=2", "x?a=1&a=1", "x?", "x?a=1&", "x?&a=1", "x?A=1", "x?%61=1"],
        );
        assert_none("x{;a}", &["x;b", "x;a;a", "x;", "x;a=1;"]);
    }

    #[test]
    fn a_query_value_may_hold_raw_reserved_characters() {
        assert_found("x{?a,b}", "x?a=/y:z?w+v=u&b=1", "a=/y:z?w+v=u b=1");
        assert_found("x{?a}#{f}", "x?a=1#f", "a=1 f=f");
    }

    #[test]
    fn path_parameters_match_by_name() {
        assert_found("x{;a,b}/y", "x;b=2;a=1/y", "a=1 b=2");
        assert_found("x{;a,b}/y", "x;b/y", "b=");
        assert_found("x{;a,b}/y", "x/y", "");
        assert_found("{n}z{;a}/y", "1z/y", "n=1");
        assert_found("{n}z{;a}/y", "1z;a=2/y", "n=1 a=2");
    }

    #[test]
    fn fragments_and_labels_match() {
        assert_found("x{#f}", "x#y/z", "f=y/z");
        assert_none("x{#f}", &["x", "x#"]);
        assert_found("x{.e}", "x.tar.gz", "e=tar.gz");
        assert_none("x{.e}", &["x", "x.", "x.y/z"]);
    }

    #[test]
    fn text_match_is_exact_except_for_triplet_case() {
        assert_found("X%2f{a}", "X%2Fb", "a=b");
        assert_found("X%2F{a}", "X%2fb", "a=b");
        assert_none("X%2F{a}", &["x%2Fb", "X/b"]);
        assert_none("~{a}", &["%7Eb"]);
        assert_found("café/{a}", "caf%c3%a9/é", "a=é");
        assert_found("caf%C3%A9/{a}", "café/b", "a=b");
        assert_found("x{?%2f}", "x?%2F=1", "%2f=1");
    }

    #[test]
    fn text_after_a_value_is_not_part_of_it() {
        assert_found("{a}x/{b}", "xx/y", "a=x b=y");
        assert_found("{a}.json", "b.json.json", "a=b.json");
        assert_none("{a}x/{b}", &["x/y", "ay/x"]);
    }

    #[test]
    fn triplet_is_never_split() {
        assert_none("{a}1", &["%41", "b%41"]);
        assert_none("{a}41", &["%41", "b%41"]);
        assert_found("{a}41", "%4141", "a=A");
        assert_found("{a}%41", "b%41", "a=b");
    }

    #[test]
    fn a_template_without_variables_matches_itself() {
        assert_found("x/y", "x/y", "");
        assert_none("x/y", &["x/", "x/yz", ""]);
        assert_found("", "", "");
    }

    /// The number of bytes read, without the passes that canonicalize and decode, one each.
    fn bytes_read(template: &UriTemplate, uri: &str) -> usize {
        let mut sum = 0;
        match_steps(&template.steps, uri, |bytes| sum += bytes);
        sum
    }

    #[test]
    fn cost_is_linear_in_the_uri_length() {
        let text = "{a}xx/{b}xx/{c}xx/{d}xx{/p*}/xx/xx{;e,f}{?g,h}";
        let template = UriTemplate::parse(text).unwrap();
        let head = "1xx/2xx/3xx/4xx/";
        for (piece, end) in [
            ("x", ""),
            ("x/", "y"),
            ("/xx", "/xx"),
            ("xx/xx/", ""),
            ("x/", "xx/xx;e=1"),
            ("%2F", ""),
            ("x;e=", ""),
            ("x?g=1&", "h=2"),
            ("?", ""),
            ("&h", ""),
        ] {
            for head in ["", head] {
                let uri = |count: usize| format!("{head}{}{end}", piece.repeat(count));
                for count in [1, 10, 100, 1_000, 10_000] {
                    let uri = uri(count);
                    // A run, a tail or its segments, and each of two names: at most four reads, and the template.
                    let bound = 4 * uri.len() + text.len();
                    assert!(
                        bytes_read(&template, &uri) <= bound,
                        "{piece} {count} {}",
                        bytes_read(&template, &uri)
                    );
                }
            }
        }
    }
}
