//! Matches a partial URI against a URI template, for completion.

use tsugite::protocol::OrderedMap;

/// The position of a partial URI in a template.
#[derive(Debug, PartialEq)]
pub(super) enum TemplatePosition<'a> {
    /// In a literal part: the URI up to the next variable, and whether that is the whole URI.
    Literal(String, bool),
    /// In a variable.
    Variable(TemplateVariable<'a>),
}

/// A partially typed variable.
#[derive(Debug, PartialEq)]
pub(super) struct TemplateVariable<'a> {
    pub(super) name: &'a str,
    /// The typed part of the value, decoded.
    pub(super) prefix: String,
    /// The values of the variables before it, decoded.
    pub(super) earlier_variables: OrderedMap<String>,
    /// The URI up to the variable.
    uri_prefix: String,
    /// The literal text after the variable.
    literal_suffix: &'a str,
    /// Whether the URI ends after `literal_suffix`.
    is_last: bool,
    allows_reserved: bool,
}

impl TemplateVariable<'_> {
    /// Returns the URI with this value, and whether it is complete.
    pub(super) fn expand(&self, value: &str) -> (String, bool) {
        (
            format!(
                "{}{}{}",
                self.uri_prefix,
                percent_encode(value, self.allows_reserved),
                self.literal_suffix
            ),
            self.is_last,
        )
    }
}

/// Matches `typed` against a template; `None` if it does not match, or the template uses unsupported operators.
pub(super) fn match_template<'a>(template: &'a str, typed: &str) -> Option<TemplatePosition<'a>> {
    let mut known = OrderedMap::new();
    let (mut rest, mut done) = (template, 0);
    loop {
        let (given, behind) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
        let left = typed.get(done..)?;
        if let Some(missing) = given.strip_prefix(left) {
            // At the start of a variable the literal is complete.
            if !missing.is_empty() || behind.is_empty() {
                return Some(TemplatePosition::Literal(
                    format!("{}{given}", typed.get(..done)?),
                    behind.is_empty(),
                ));
            }
        } else if !left.starts_with(given) {
            return None;
        }
        done += given.len();
        let (expression, after) = behind.strip_prefix('{')?.split_once('}')?;
        let (name, reserved) = match expression.strip_prefix('+') {
            Some(name) => (name, true),
            None => (expression, false),
        };
        if name.is_empty()
            || !name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '.'))
        {
            return None;
        }
        let tail = after.split('{').next().unwrap_or_default();
        let left = typed.get(done..)?;
        // A value without reserved characters ends at the first character of the literal after it.
        let end = match (tail.chars().next(), reserved) {
            (None, _) => None,
            (Some(_), true) => left.find(tail),
            (Some(first), false) => left.find(first),
        };
        match end {
            Some(end) => {
                known.insert(name, percent_decode(left.get(..end)?));
                done += end;
                rest = after;
            }
            None => {
                return Some(TemplatePosition::Variable(TemplateVariable {
                    name,
                    prefix: percent_decode(left),
                    earlier_variables: known,
                    uri_prefix: typed.get(..done)?.to_owned(),
                    literal_suffix: tail,
                    is_last: tail.len() == after.len(),
                    allows_reserved: reserved,
                }));
            }
        }
    }
}

/// Returns the names of the variables of a template.
pub(super) fn variable_names(template: &str) -> impl Iterator<Item = &str> {
    let expressions = template.split('{').skip(1).filter_map(|part| part.split('}').next());
    let lists = expressions.map(|inside| inside.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']));
    lists
        .flat_map(|list| list.split(','))
        .map(|name| name.trim_end_matches('*'))
        .filter(|name| !name.is_empty())
}

fn percent_encode(value: &str, reserved: bool) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match plain || (reserved && b":/?#[]@!$&'()*+,;=".contains(&byte)) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn percent_decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits = match (first, behind) {
            (b'%', [high, low, ..]) => char::from(*high).to_digit(16).zip(char::from(*low).to_digit(16)),
            _ => None,
        };
        let byte = digits.and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        out.push(byte.unwrap_or(*first));
        rest = behind.get(if byte.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CITIES: &str = "demo://cities/{country}/{city}";

    /// Returns the variable, its typed part, and the URI with `value`.
    fn variable(template: &str, typed: &str, value: &str) -> Option<(String, String, (String, bool))> {
        match match_template(template, typed)? {
            TemplatePosition::Variable(found) => {
                Some((found.name.to_owned(), found.prefix.clone(), found.expand(value)))
            }
            TemplatePosition::Literal(..) => None,
        }
    }

    #[test]
    fn literal_parts_are_completed() {
        let given = |uri: &str, whole| Some(TemplatePosition::Literal(uri.to_owned(), whole));
        assert_eq!(match_template(CITIES, "demo:"), given("demo://cities/", false));
        assert_eq!(match_template("demo://a", "demo://"), given("demo://a", true));
        assert_eq!(match_template("a/{b}/c/{d}", "a/x/"), given("a/x/c/", false));
        assert_eq!(match_template(CITIES, "demo://counter"), None);
        assert_eq!(match_template("x://{?q}", "x://"), None);
        assert_eq!(match_template("x://{a,b}", "x://"), None);
        assert_eq!(match_template("x://{", "x://"), None);
    }

    #[test]
    fn variable_has_the_values_before_it() {
        let first = variable(CITIES, "demo://cities/J", "Japan").unwrap();
        assert_eq!(first, ("country".into(), "J".into(), ("demo://cities/Japan/".into(), false)));
        let second = variable(CITIES, "demo://cities/The%20Isle/", "St. Ives/x").unwrap();
        assert_eq!(
            second,
            ("city".into(), String::new(), ("demo://cities/The%20Isle/St.%20Ives%2Fx".into(), true))
        );
        match match_template(CITIES, "demo://cities/The%20Isle/K").unwrap() {
            TemplatePosition::Variable(city) => {
                assert_eq!(city.earlier_variables.get("country").map(String::as_str), Some("The Isle"));
            }
            other => panic!("{other:?}"),
        }
        let path = variable("f:///{+path}", "f:///a/b", "a/b c").unwrap();
        assert_eq!(path, ("path".into(), "a/b".into(), ("f:///a/b%20c".into(), true)));
    }

    #[test]
    fn no_input_panics() {
        for template in [CITIES, "{a}{b}", "{", "}", "{}", "a{b}c{d}", "木/{x}/木"] {
            for typed in ["", "a", "木", "木/", "木/木/", "%", "%4", "%zz", "a%E6b", "demo://cities/%FF/"]
            {
                let _ = (match_template(template, typed), variable_names(template).count());
            }
        }
        assert_eq!(percent_decode("%E6%9C%A8%2"), "木%2");
        let names: Vec<&str> = variable_names("a://{b}/{+c}{?d,e}{/f*}").collect();
        assert_eq!(names, ["b", "c", "d", "e", "f"]);
    }
}
