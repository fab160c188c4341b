//! Parses the text of an answer into the value of a form field.

use serde_json::Number;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::elicitation::FieldValue;
use tsugite::protocol::form::{ChoiceOptions, Field, FieldKind, FormSchema};

/// Parses a text as a value of the field, and validates it. A choice is named by its value, title or number.
pub(super) fn parse(name: &str, field: &Field, text: &str) -> Result<FieldValue, String> {
    let value = match &field.kind {
        FieldKind::Number { integer, .. } => FieldValue::Number(parse_number(text, *integer)?),
        FieldKind::Boolean { .. } => FieldValue::Boolean(parse_bool(text).ok_or("expected yes or no")?),
        FieldKind::Choice { options, .. } => FieldValue::Text(match_choice(options, text)),
        FieldKind::MultipleChoice { options, .. } => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            FieldValue::List(parts.map(|part| match_choice(options, part)).collect())
        }
        _ => FieldValue::Text(text.to_owned()),
    };
    let schema = FormSchema::new().field(name, field.clone());
    match schema.check(&OrderedMap::from_iter([(name.to_owned(), value.clone())])) {
        Ok(()) => Ok(value),
        Err(wrong) => {
            let wrong = wrong.to_string();
            Err(wrong.split_once(": ").map_or(wrong.as_str(), |(_, rest)| rest).to_owned())
        }
    }
}

/// Parses yes or no.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "y" => Some(true),
        "false" | "no" | "n" => Some(false),
        _ => None,
    }
}

/// Returns the choices: values and their titles.
pub(super) fn choices(options: &ChoiceOptions) -> Vec<(&str, Option<&str>)> {
    match options {
        ChoiceOptions::Plain(values) => values.iter().map(|value| (value.as_str(), None)).collect(),
        ChoiceOptions::Titled(titled) => {
            titled.iter().map(|option| (option.value.as_str(), Some(option.title.as_str()))).collect()
        }
        ChoiceOptions::EnumNames { values, names } => {
            let mut names = names.iter().map(String::as_str);
            values.iter().map(|value| (value.as_str(), names.next())).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the default of a field as text.
pub(super) fn default_text(field: &Field) -> Option<String> {
    match &field.kind {
        FieldKind::Text { default, .. } | FieldKind::Choice { default, .. } => default.clone(),
        FieldKind::Number { default, .. } => default.as_ref().map(Number::to_string),
        FieldKind::Boolean { default } => default.map(|yes| if yes { "yes" } else { "no" }.to_owned()),
        FieldKind::MultipleChoice { default, .. } => default.as_ref().map(|many| many.join(", ")),
        _ => None,
    }
}

fn parse_number(text: &str, integer: bool) -> Result<Number, String> {
    let text = text.trim();
    let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
    match (whole, integer) {
        (Ok(number), _) => Ok(number),
        (Err(_), true) => Err(format!("expected a whole number, got {text:?}")),
        (Err(_), false) => text
            .parse::<f64>()
            .ok()
            .and_then(Number::from_f64)
            .ok_or_else(|| format!("expected a number, got {text:?}")),
    }
}

fn match_choice(options: &ChoiceOptions, text: &str) -> String {
    let all = choices(options);
    let same = |other: &str| other.eq_ignore_ascii_case(text);
    let by_value = all.iter().find(|(value, _)| *value == text);
    let by_name = || all.iter().find(|(value, title)| same(value) || title.is_some_and(same));
    let by_number = || text.parse::<usize>().ok().and_then(|number| all.get(number.checked_sub(1)?));
    by_value.or_else(by_name).or_else(by_number).map_or(text, |(value, _)| value).to_owned()
}
