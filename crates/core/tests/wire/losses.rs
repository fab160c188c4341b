//! The members that a value may lose when it passes through an older revision, and no others.
//!
//! One line per rule; a difference without a line fails the test.

use serde_json::Value;
use tsugite_core::revision::Revision;
use tsugite_core::revision::Revision::*;

/// Fails when `back`, which went from `source` through `to` and back, differs from `original` in a way that `to`
/// does not excuse.
#[track_caller]
pub(crate) fn same_but_for_losses(original: &Value, back: &Value, source: Revision, to: Revision) {
    let mut differences = Vec::new();
    compare(&mut Vec::new(), original, back, &mut differences);
    let unexplained: Vec<_> = differences
        .into_iter()
        .filter(|path| !excused(path, original, source, to))
        .map(|path| path.join("/"))
        .collect();
    assert!(
        unexplained.is_empty(),
        "{source} through {to} lost {unexplained:?}\nbefore {original:#}\nafter {back:#}"
    );
}

fn compare(path: &mut Vec<String>, before: &Value, after: &Value, differences: &mut Vec<Vec<String>>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
                path.push(name.clone());
                match (before.get(name), after.get(name)) {
                    (Some(before), Some(after)) => compare(path, before, after, differences),
                    _ => differences.push(path.clone()),
                }
                path.pop();
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                path.push(index.to_string());
                compare(path, before, after, differences);
                path.pop();
            }
        }
        _ if before == after => {}
        _ => differences.push(path.clone()),
    }
}

fn excused(path: &[String], original: &Value, source: Revision, to: Revision) -> bool {
    let last = path.last().map(String::as_str).unwrap_or_default();
    let inside = |name: &str| path.iter().any(|step| step == name);
    let above = |up: usize| path.len().checked_sub(up + 1).map(|at| path[at].as_str()).unwrap_or_default();
    let older = to < V2025_11_25;
    let much_older = to < V2025_06_18;
    let meta_at_top = above(1) == "params" || path.len() == 1;

    // Unknown members are kept only in `_meta`, capabilities and schemas.
    let open = path.len() == 1 || above(1) == "params" && path.len() == 2;
    if open && ["extra", "a", "b"].contains(&last) {
        return true;
    }
    // Empty and absent params mean the same.
    let empty = |params: &Value| {
        params.as_object().is_some_and(|params| {
            params.keys().all(|name| ["_meta", "extra", "a", "b"].contains(&name.as_str()))
        })
    };
    if last == "params" && at(original, path).is_none_or(empty) {
        return true;
    }
    // Keys of `_meta` that only the newest revision defines, set again or never written.
    if inside("_meta") && last.starts_with("io.modelcontextprotocol/")
        || last == "_meta" && meta_at_top && to != source
    {
        return true;
    }
    match last {
        "form" | "url" | "elicitation" | "tools" | "context" if inside("capabilities") => older,
        "toolChoice" | "tools" if above(1) == "params" => older,
        "resultType" | "ttlMs" | "cacheScope" => source.is_stateless() != to.is_stateless(),
        "title" => much_older,
        "icons" | "description" | "websiteUrl" if inside("serverInfo") || inside("clientInfo") => older,
        "icons" => older,
        "annotations" if tool(path) => much_older,
        "execution" => to != V2025_11_25,
        "outputSchema" => much_older || !to.is_stateless(),
        "structuredContent" => {
            much_older || !to.is_stateless() && !at(original, path).is_some_and(Value::is_object)
        }
        "lastModified" => much_older,
        "message" if inside("params") && original["method"] == "notifications/progress" => to == V2024_11_05,
        "context" => much_older,
        "task" => to != V2025_11_25,
        "inputResponses" | "requestState" => !to.is_stateless(),
        "_meta" if sampling_message(path) => older,
        "_meta" => much_older || to.is_stateless(),
        "mode" | "$schema" => to == V2025_06_18,
        "elicitationId" => to.is_stateless(),
        "default" => to == V2025_06_18,
        "enum" | "enumNames" | "oneOf" => to == V2025_06_18 || source == V2025_06_18,
        "listChanged" if inside("roots") => to.is_stateless(),
        "completions" => to == V2024_11_05,
        "tasks" if inside("capabilities") => to != V2025_11_25,
        // Sampling: an array of blocks is cut into messages, or merged into one block.
        _ if older && blocks(original, path) => true,
        _ => block_replaced(path, original, to) || text_added(path, original, to),
    }
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => value.get(step),
    })
}

/// The annotations of a tool, not those of content.
fn tool(path: &[String]) -> bool {
    path.iter().any(|step| step == "tools")
}

fn sampling_message(path: &[String]) -> bool {
    matches!(path, [params, messages, _, _] if params == "params" && messages == "messages")
}

/// Whether there is an array of blocks in the messages, or in the result.
fn blocks(original: &Value, path: &[String]) -> bool {
    match path {
        [content] => content == "content" && original.get("model").is_some(),
        [params, messages, ..] if params == "params" && messages == "messages" => {
            original["params"]["messages"]
                .as_array()
                .unwrap()
                .iter()
                .any(|message| message["content"].is_array())
        }
        _ => false,
    }
}

/// Audio and links are replaced where they do not exist.
fn block_replaced(path: &[String], original: &Value, to: Revision) -> bool {
    (0..path.len()).any(|length| {
        let kind = at(original, &path[..length]).and_then(|block| block.get("type")).and_then(Value::as_str);
        match kind {
            Some("audio") => to == V2024_11_05,
            Some("resource_link") => to < V2025_06_18,
            _ => false,
        }
    })
}

/// Structured content without other content is also written as text.
fn text_added(path: &[String], original: &Value, to: Revision) -> bool {
    let Some((last, holder)) = path.split_last() else { return false };
    let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    last == "content"
        && !to.is_stateless()
        && at(original, path).is_some_and(empty)
        && at(original, holder).is_some_and(|holder| holder.get("structuredContent").is_some())
}
