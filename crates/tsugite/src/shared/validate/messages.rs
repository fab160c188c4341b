//! Error messages for values that do not match a schema: the path, the expectation and the actual value, so that a model can
//! correct its call.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use super::subschemas::{format_path, is_bare_name, summarize, truncate};

/// Describes one violation. Long values are truncated.
pub(super) fn error_message(error: &ValidationError<'_>) -> String {
    let (path, problem) = (format_location(error.instance_path()), truncate(&describe(error)));
    match path.as_str() {
        "" => format!("invalid arguments: {problem}"),
        path => format!("invalid argument `{}`: {problem}", truncate(path)),
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let actual = summarize(error.instance());
    match error.kind() {
        Kind::Required { property } => {
            format!("{} is missing", quote_name(property.as_str().unwrap_or_default()))
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let names: Vec<_> = unexpected.iter().take(MAX_LISTED).map(|name| quote_name(name)).collect();
            format!(
                "unexpected {}{}",
                names.join(", "),
                if unexpected.len() > MAX_LISTED { ", …" } else { "" }
            )
        }
        Kind::Enum { options } => {
            let options: Vec<_> = options.as_array().into_iter().flatten().map(summarize).collect();
            format!("{actual} is not one of {}", options.join(", "))
        }
        Kind::Constant { expected_value } => format!("{actual} is not {}", summarize(expected_value)),
        Kind::FalseSchema => "no value is allowed here".to_owned(),
        Kind::Not { .. } => format!("{actual} is not allowed here"),
        Kind::PropertyNames { error } => format!("property name: {}", describe(error)),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            describe_alternatives(error.instance_path(), &actual, context)
        }
        _ => error.masked_with(actual).to_string(),
    }
}

/// Describes the alternative that matched deepest into the value, or else the first violation of each alternative.
fn describe_alternatives(
    path_here: &Location,
    actual: &str,
    context: &[Vec<ValidationError<'static>>],
) -> String {
    let first: Vec<_> = context.iter().filter_map(|errors| errors.first()).collect();
    let depth = |location: &Location| location.into_iter().count();
    let here = depth(path_here);
    // `max_by_key` returns the last maximum, so the reversed iterator yields the first alternative of that depth.
    let deepest = first.iter().rev().max_by_key(|error| depth(error.instance_path()));
    match deepest {
        Some(error) if depth(error.instance_path()) > here => {
            let path = truncate(&format_location(error.instance_path()));
            format!("{actual} matches no alternative; in the closest one, `{path}`: {}", describe(error))
        }
        _ => {
            let mut reasons: Vec<_> = first.into_iter().take(MAX_LISTED).map(describe).collect();
            reasons.dedup();
            format!("{actual} matches no alternative: {}", reasons.join("; "))
        }
    }
}

/// Formats a location as `items[2].name`.
fn format_location(location: &Location) -> String {
    let segments: Vec<_> = location.into_iter().collect();
    format_path(segments.iter().map(|segment| match segment {
        LocationSegment::Index(index) => Ok(*index),
        LocationSegment::Property(name) => Err(&**name),
    }))
}

fn quote_name(name: &str) -> String {
    if is_bare_name(name) { format!("`{}`", truncate(name)) } else { summarize(&Value::from(name)) }
}

const MAX_LISTED: usize = 5;
