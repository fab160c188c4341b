//! What is said about a value that does not fit: where, what was expected and what came, in words a model can act on.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use super::subschemas::{format_path, is_bare_name, summarize, truncate};

/// One sentence about one mistake. Never quotes more than a little of the value.
pub(super) fn error_message(error: &ValidationError<'_>) -> String {
    let (path, what) = (format_location(error.instance_path()), truncate(&describe(error)));
    match path.as_str() {
        "" => format!("invalid arguments: {what}"),
        path => format!("invalid argument `{}`: {what}", truncate(path)),
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let came = summarize(error.instance());
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
            format!("{came} is not one of {}", options.join(", "))
        }
        Kind::Constant { expected_value } => format!("{came} is not {}", summarize(expected_value)),
        Kind::FalseSchema => "nothing may stand here".to_owned(),
        Kind::Not { .. } => format!("{came} is what may not stand here"),
        Kind::PropertyNames { error } => format!("one of the names: {}", describe(error)),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            describe_alternatives(error.instance_path(), &came, context)
        }
        _ => error.masked_with(came).to_string(),
    }
}

/// The alternative that came furthest before it failed, or else why each of them did.
fn describe_alternatives(
    path_here: &Location,
    came: &str,
    context: &[Vec<ValidationError<'static>>],
) -> String {
    let first: Vec<_> = context.iter().filter_map(|errors| errors.first()).collect();
    let depth = |location: &Location| location.into_iter().count();
    let here = depth(path_here);
    // The first of those that came equally far.
    let furthest = first.iter().rev().max_by_key(|error| depth(error.instance_path()));
    match furthest {
        Some(error) if depth(error.instance_path()) > here => {
            let path = truncate(&format_location(error.instance_path()));
            format!("{came} fits no alternative; in the nearest, `{path}`: {}", describe(error))
        }
        _ => {
            let mut reasons: Vec<_> = first.into_iter().take(MAX_LISTED).map(describe).collect();
            reasons.dedup();
            format!("{came} fits no alternative: {}", reasons.join("; "))
        }
    }
}

/// `items[2].name`.
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
