//! Checks the values of a form, applies its defaults, and detects forms that ask for secrets.
//!
//! Formats are checked simply: a value that is rejected is clearly wrong, one that passes may still be wrong.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use serde_json::Number;

use super::OrderedMap;
use super::elicitation::{FieldValue, FormParams};
use super::form::{ChoiceOptions, Field, FieldKind, FormSchema, TextFormat};
use crate::jsonrpc::JsonError;

impl FormSchema {
    /// Checks `content` against the form. The error names the first wrong field, the expected and the actual value.
    ///
    /// ```
    /// use tsugite_core::protocol::OrderedMap;
    /// use tsugite_core::protocol::elicitation::FieldValue;
    /// use tsugite_core::protocol::form::{Field, FieldKind, FormSchema};
    ///
    /// let age = FieldKind::Number { integer: true, minimum: Some(18.into()), maximum: None, default: None };
    /// let form = FormSchema::new().required_field("age", age);
    /// let content = OrderedMap::from_iter([("age", FieldValue::Number(7.into()))]);
    /// assert_eq!(form.check(&content).unwrap_err().to_string(), "`age`: expected at least 18, got 7");
    /// ```
    pub fn check(&self, content: &OrderedMap<FieldValue>) -> Result<(), JsonError> {
        // Maps, not searches: a hostile form with many fields must not cost quadratic time.
        let fields: HashMap<&str, &Field> = self.properties.iter().collect();
        for (name, value) in content.iter() {
            // A form is open: unknown fields are ignored.
            if let Some(field) = fields.get(name) {
                field.kind.check(value).map_err(|mismatch| mismatch.in_field(name))?;
            }
        }
        let filled: HashSet<&str> = content.iter().map(|(name, _)| name).collect();
        match self.required.iter().flatten().find(|name| !filled.contains(name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Mismatch::new("a value", "none").in_field(name)),
        }
    }

    /// Adds the defaults of the fields that were left out.
    #[must_use]
    pub fn with_defaults(&self, content: OrderedMap<FieldValue>) -> OrderedMap<FieldValue> {
        let filled: HashSet<String> = content.iter().map(|(name, _)| name.to_owned()).collect();
        let missing = self.properties.iter().filter(|(name, _)| !filled.contains(*name));
        let defaults = missing.filter_map(|(name, field)| Some((name.to_owned(), field.kind.default()?)));
        content.into_iter().chain(defaults).collect()
    }

    /// The name of a field that asks for a secret. Forms must not: their values pass through the client.
    ///
    /// Decided by the words in the name and the title, and only for fields that take text: `reset_password` may be a
    /// boolean.
    pub fn secret_field(&self) -> Option<&str> {
        let typed = |field: &Field| matches!(field.kind, FieldKind::Text { .. } | FieldKind::Number { .. });
        let secret = |name: &str, field: &Field| {
            names_secret(name) || field.title.as_deref().is_some_and(names_secret)
        };
        self.properties.iter().find(|(name, field)| typed(field) && secret(name, field)).map(|(name, _)| name)
    }
}

impl FormParams {
    /// The place of a clickable URL: `message`, or the name of a field whose title or description has one. Forms must
    /// have none, since a user could be led to another page without the checks of URL elicitation.
    pub fn clickable_url(&self) -> Option<&str> {
        if has_url(&self.message) {
            return Some("message");
        }
        let has = |field: &Field| {
            [&field.title, &field.description].into_iter().flatten().any(|text| has_url(text))
        };
        self.requested_schema.properties.iter().find(|(_, field)| has(field)).map(|(name, _)| name)
    }
}

fn has_url(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("http://") || text.contains("https://")
}

/// The expected and the actual value.
struct Mismatch {
    expected: String,
    got: String,
}

impl Mismatch {
    fn new(expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { expected: expected.into(), got: got.into() }
    }

    fn in_field(self, name: &str) -> JsonError {
        let Self { expected, got } = self;
        JsonError::new(format!("`{}`: expected {expected}, got {got}", truncated(name)))
    }
}

impl FieldKind {
    fn check(&self, value: &FieldValue) -> Result<(), Mismatch> {
        match (self, value) {
            (FieldKind::Text { min_length, max_length, format, .. }, FieldValue::Text(text)) => {
                check_length(text.chars().count(), *min_length, *max_length, ["character", "characters"])?;
                match format {
                    Some(format) if !format.matches(text) => {
                        Err(Mismatch::new(format.description(), display_value(value)))
                    }
                    _ => Ok(()),
                }
            }
            (FieldKind::Number { integer: true, .. }, FieldValue::Number(number))
                if as_integer(number).is_none() =>
            {
                Err(Mismatch::new("a whole number", number.to_string()))
            }
            (FieldKind::Number { minimum, maximum, .. }, FieldValue::Number(number)) => {
                match (minimum, maximum) {
                    (Some(least), _) if compare(number, least) == Ordering::Less => {
                        Err(Mismatch::new(format!("at least {least}"), number.to_string()))
                    }
                    (_, Some(most)) if compare(number, most) == Ordering::Greater => {
                        Err(Mismatch::new(format!("at most {most}"), number.to_string()))
                    }
                    _ => Ok(()),
                }
            }
            (FieldKind::Boolean { .. }, FieldValue::Boolean(_)) => Ok(()),
            (FieldKind::Choice { options, .. }, FieldValue::Text(choice)) => options.check([choice]),
            (FieldKind::MultipleChoice { options, min_items, max_items, .. }, FieldValue::List(choices)) => {
                check_length(choices.len(), *min_items, *max_items, ["choice", "choices"])?;
                options.check(choices)
            }
            _ => Err(Mismatch::new(self.description(), display_value(value))),
        }
    }

    fn description(&self) -> &'static str {
        match self {
            FieldKind::Text { .. } => "a string",
            FieldKind::Number { integer: true, .. } => "a whole number",
            FieldKind::Number { integer: false, .. } => "a number",
            FieldKind::Boolean { .. } => "true or false",
            FieldKind::Choice { .. } => "one choice",
            FieldKind::MultipleChoice { .. } => "an array of choices",
        }
    }

    fn default(&self) -> Option<FieldValue> {
        match self {
            FieldKind::Text { default, .. } | FieldKind::Choice { default, .. } => {
                default.clone().map(FieldValue::Text)
            }
            FieldKind::Number { default, .. } => default.clone().map(FieldValue::Number),
            FieldKind::Boolean { default } => default.map(FieldValue::Boolean),
            FieldKind::MultipleChoice { default, .. } => default.clone().map(FieldValue::List),
        }
    }
}

impl ChoiceOptions {
    fn values(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            ChoiceOptions::Plain(values) | ChoiceOptions::EnumNames { values, .. } => {
                Box::new(values.iter().map(String::as_str))
            }
            ChoiceOptions::Titled(titled) => Box::new(titled.iter().map(|option| option.value.as_str())),
        }
    }

    fn check<'a>(&self, choices: impl IntoIterator<Item = &'a String>) -> Result<(), Mismatch> {
        let values: HashSet<&str> = self.values().collect();
        let Some(wrong) = choices.into_iter().find(|choice| !values.contains(choice.as_str())) else {
            return Ok(());
        };
        let mut listed: Vec<String> = self.values().take(MAX_LISTED_OPTIONS).map(quoted).collect();
        if self.values().nth(MAX_LISTED_OPTIONS).is_some() {
            listed.push("…".to_owned());
        }
        Err(Mismatch::new(format!("one of {}", listed.join(", ")), quoted(wrong)))
    }
}

impl TextFormat {
    fn matches(self, text: &str) -> bool {
        match self {
            TextFormat::Email => is_email(text),
            TextFormat::Uri => is_uri(text),
            TextFormat::Date => is_date(text),
            TextFormat::DateTime => is_date_time(text),
        }
    }

    fn description(self) -> &'static str {
        match self {
            TextFormat::Email => "an e-mail address",
            TextFormat::Uri => "a URI with its scheme",
            TextFormat::Date => "a date such as 2030-12-31",
            TextFormat::DateTime => "a date and time such as 2030-12-31T23:59:59Z",
        }
    }
}

fn check_length(
    count: usize,
    least: Option<u64>,
    most: Option<u64>,
    [one, many]: [&str; 2],
) -> Result<(), Mismatch> {
    let of = |limit: u64| format!("{limit} {}", if limit == 1 { one } else { many });
    match (least, most) {
        (Some(least), _) if (count as u64) < least => {
            Err(Mismatch::new(format!("at least {}", of(least)), count.to_string()))
        }
        (_, Some(most)) if count as u64 > most => {
            Err(Mismatch::new(format!("at most {}", of(most)), count.to_string()))
        }
        _ => Ok(()),
    }
}

/// The number, if it is an integer in any notation: JSON Schema calls `42.0` an integer.
fn as_integer(number: &Number) -> Option<i128> {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(value), ..) => Some(value.into()),
        (_, Some(value), _) => Some(value.into()),
        // `as` saturates, which does not affect comparisons with 64-bit numbers.
        (.., Some(value)) if value.fract() == 0.0 => Some(value as i128),
        _ => None,
    }
}

fn compare(a: &Number, b: &Number) -> Ordering {
    match (as_integer(a), as_integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// RFC 5321 allows nearly everything before the `@`, especially in quotes.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let bare = |part: &str| !part.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || (!local.is_empty() && bare(local) && !local.contains('@')))
        && bare(domain)
        && (domain.starts_with('[') || domain.split('.').all(|label| !label.is_empty()))
}

/// RFC 3986; after the scheme only characters that are never allowed are checked.
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
        && !rest.contains(|letter: char| {
            letter.is_whitespace() || letter.is_control() || "<>\"\\^`{|}".contains(letter)
        })
}

/// RFC 3339, `full-date`.
fn is_date(text: &str) -> bool {
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else { return false };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=last).contains(&day)
}

/// RFC 3339, `date-time`. Second 60 is a leap second, which cannot be known in advance.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let (clock, offset_fits) = match time.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, true),
        None => match time.rfind(['+', '-']).and_then(|at| time.split_at_checked(at)) {
            Some((clock, offset)) => (clock, offset.get(1..).is_some_and(|offset| is_time(offset, false))),
            None => return false,
        },
    };
    let (clock, fraction_fits) = match clock.split_once('.') {
        Some((clock, fraction)) => {
            (clock, !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit()))
        }
        None => (clock, true),
    };
    is_date(date) && is_time(clock, true) && fraction_fits && offset_fits
}

/// `23:59`, with or without seconds.
fn is_time(text: &str, seconds: bool) -> bool {
    let parts: Vec<_> = text.split(':').map(|part| digits(part, 2)).collect();
    match parts[..] {
        [Some(hour), Some(minute)] if !seconds => hour < 24 && minute < 60,
        [Some(hour), Some(minute), Some(second)] if seconds => hour < 24 && minute < 60 && second <= 60,
        _ => false,
    }
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let all = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

/// Whether one or two adjacent words of a name are one of [`SECRET_WORDS`].
fn names_secret(name: &str) -> bool {
    let words = words(name);
    let secret = |word: &str| SECRET_WORDS.contains(&word);
    // `token_count` is a count; a name that ends in `token` is a token.
    words.last().is_some_and(|word| word == "token")
        || words.iter().any(|word| secret(word))
        || words.windows(2).any(|pair| secret(&pair.concat()))
}

/// Splits a name into words: `apiKey2`, `API key` and `api_key` are `api` and `key`.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let lower = |letter: Option<&char>| letter.is_some_and(|letter| letter.is_lowercase());
        // An uppercase letter begins a word after a lowercase letter, and before one: the `K` of `APIKey`.
        let begins = letter.is_uppercase() && (lower(before) || lower(letters.get(at + 1)));
        if begins || !letter.is_alphabetic() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && letter.is_alphabetic()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn display_value(value: &FieldValue) -> String {
    match value {
        FieldValue::Text(text) => quoted(text),
        FieldValue::Number(number) => number.to_string(),
        FieldValue::Boolean(flag) => flag.to_string(),
        FieldValue::List(_) => "an array".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("{:?}", truncated(text))
}

/// Truncates text of the peer that is echoed.
fn truncated(text: &str) -> String {
    match text.char_indices().nth(MAX_ECHO_CHARS) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
    }
}

const MAX_ECHO_CHARS: usize = 60;

/// How many options an error lists.
const MAX_LISTED_OPTIONS: usize = 10;

const SECRET_WORDS: [&str; 18] = [
    "password",
    "passcode",
    "credential",
    "credentials",
    "iban",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "privatekey",
    "creditcard",
    "cardnumber",
    "cvv",
    "cvc",
    "ssn",
];
