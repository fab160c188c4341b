//! What is said about a value that does not fit: where, what was expected and what came, in words a model can act on.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use super::places::{clip, is_plain, named_path, shown};

/// One sentence about one mistake. Never quotes more than a little of the value.
pub(super) fn sentence(error: &ValidationError<'_>) -> String {
    let (path, what) = (path(error.instance_path()), clip(&what(error)));
    match path.as_str() {
        "" => format!("invalid arguments: {what}"),
        path => format!("invalid argument `{}`: {what}", clip(path)),
    }
}

fn what(error: &ValidationError<'_>) -> String {
    let came = shown(error.instance());
    match error.kind() {
        Kind::Required { property } => format!("{} is missing", named(property.as_str().unwrap_or_default())),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let names: Vec<_> = unexpected.iter().take(LISTED).map(|name| named(name)).collect();
            format!("unexpected {}{}", names.join(", "), if unexpected.len() > LISTED { ", …" } else { "" })
        }
        Kind::Enum { options } => {
            let options: Vec<_> = options.as_array().into_iter().flatten().map(shown).collect();
            format!("{came} is not one of {}", options.join(", "))
        }
        Kind::Constant { expected_value } => format!("{came} is not {}", shown(expected_value)),
        Kind::FalseSchema => "nothing may stand here".to_owned(),
        Kind::Not { .. } => format!("{came} is what may not stand here"),
        Kind::PropertyNames { error } => format!("one of the names: {}", what(error)),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            alternatives(error.instance_path(), &came, context)
        }
        _ => error.masked_with(came).to_string(),
    }
}

/// The alternative that came furthest before it failed, or else why each of them did.
fn alternatives(path_here: &Location, came: &str, context: &[Vec<ValidationError<'static>>]) -> String {
    let first: Vec<_> = context.iter().filter_map(|errors| errors.first()).collect();
    let depth = |location: &Location| location.into_iter().count();
    let here = depth(path_here);
    // The first of those that came equally far.
    let furthest = first.iter().rev().max_by_key(|error| depth(error.instance_path()));
    match furthest {
        Some(error) if depth(error.instance_path()) > here => {
            let path = clip(&path(error.instance_path()));
            format!("{came} fits no alternative; in the nearest, `{path}`: {}", what(error))
        }
        _ => {
            let mut reasons: Vec<_> = first.into_iter().take(LISTED).map(what).collect();
            reasons.dedup();
            format!("{came} fits no alternative: {}", reasons.join("; "))
        }
    }
}

/// `items[2].name`.
fn path(location: &Location) -> String {
    let segments: Vec<_> = location.into_iter().collect();
    named_path(segments.iter().map(|segment| match segment {
        LocationSegment::Index(index) => Ok(*index),
        LocationSegment::Property(name) => Err(&**name),
    }))
}

fn named(name: &str) -> String {
    if is_plain(name) { format!("`{}`", clip(name)) } else { shown(&Value::from(name)) }
}

const LISTED: usize = 5;
