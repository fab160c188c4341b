//! Several servers behind one: names have a prefix, from the first server on, so that none changes when another comes.

use std::borrow::Cow;
use std::sync::Arc;

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::raw_tasks::withdraw_tasks;
use tsugite_core::protocol::{Method, NotificationMethod, OrderedMap, completion, prompts, resources, tools};
use tsugite_core::revision::{Revision, RpcError};

use super::target::Target;
use crate::server::ListKind;
use crate::shared::list_kind::{inner_name, outer_name};

/// Whether the method asks for a list that several servers answer together.
pub(super) fn is_list(method: &str) -> bool {
    list_shape(method).is_some()
}

/// Where a list stands in its result, what its items are, and which member names them.
pub(super) fn list_shape(method: &str) -> Option<(&'static str, ListKind, &'static str)> {
    Some(match method {
        tools::List::NAME => ("tools", ListKind::Tool, "name"),
        prompts::List::NAME => ("prompts", ListKind::Prompt, "name"),
        resources::List::NAME => ("resources", ListKind::Resource, "uri"),
        resources::ListTemplates::NAME => ("resourceTemplates", ListKind::Resource, "uriTemplate"),
        _ => return None,
    })
}

/// Which server a request is for, and the request as that one knows it.
pub(super) fn route<'a>(
    targets: &[Arc<Target>],
    method: &str,
    params: &'a RawJson,
    revision: Revision,
) -> Result<(usize, Cow<'a, RawJson>), RpcError> {
    if let [only] = targets
        && only.prefix.is_none()
    {
        return Ok((0, Cow::Borrowed(params)));
    }
    let unfit = |error| RpcError::invalid_params(&error);
    let mut members: OrderedMap<RawJson> = params.read().map_err(unfit)?;
    if method == completion::Complete::NAME {
        let reference = members.get("ref").ok_or_else(|| missing_member("ref"))?;
        let mut reference: OrderedMap<RawJson> = reference.read().map_err(unfit)?;
        let (member, kind) = if reference.get("uri").is_some() {
            ("uri", ListKind::Resource)
        } else {
            ("name", ListKind::Prompt)
        };
        let name = string_member(&reference, member)?;
        let (index, inner) =
            find_target(targets, kind, &name).ok_or_else(|| unknown_name_error(kind, name, revision))?;
        reference.insert(member, RawJson::from_value(&inner).map_err(unfit)?);
        members.insert("ref", RawJson::from_value(&reference).map_err(unfit)?);
        return Ok((index, Cow::Owned(RawJson::from_value(&members).map_err(unfit)?)));
    }
    let (member, kind) = match method {
        tools::Call::NAME => ("name", ListKind::Tool),
        prompts::Get::NAME => ("name", ListKind::Prompt),
        resources::Read::NAME | resources::Subscribe::NAME | resources::Unsubscribe::NAME => {
            ("uri", ListKind::Resource)
        }
        other => return Err(RpcError::MethodNotFound { method: other.to_owned() }),
    };
    if kind == ListKind::Tool {
        // The methods of tasks have no name with a prefix.
        withdraw_tasks(&mut members).map_err(unfit)?;
    }
    let name = string_member(&members, member)?;
    let (index, inner) =
        find_target(targets, kind, &name).ok_or_else(|| unknown_name_error(kind, name, revision))?;
    members.insert(member, RawJson::from_value(&inner).map_err(unfit)?);
    Ok((index, Cow::Owned(RawJson::from_value(&members).map_err(unfit)?)))
}

/// The server with the longest prefix that fits, and the name it has there.
fn find_target(targets: &[Arc<Target>], kind: ListKind, name: &str) -> Option<(usize, String)> {
    let fitting = targets.iter().enumerate().filter_map(|(index, target)| {
        let prefix = target.prefix.as_deref()?;
        Some((prefix.len(), index, inner_name(kind, prefix, name)?))
    });
    fitting.max_by_key(|(length, ..)| *length).map(|(_, index, inner)| (index, inner))
}

/// A URI as the server knows it, if it is one of its.
pub(super) fn upstream_uri(targets: &[Arc<Target>], target: &Arc<Target>, uri: &str) -> Option<String> {
    if target.prefix.is_none() {
        return Some(uri.to_owned());
    }
    let (index, inner) = find_target(targets, ListKind::Resource, uri)?;
    targets.get(index).filter(|found| Arc::ptr_eq(found, target)).map(|_| inner)
}

/// Whether a request for the item of a server under this name reaches that server: a longer prefix wins.
pub(super) fn is_reachable(
    targets: &[Arc<Target>],
    target: &Arc<Target>,
    kind: ListKind,
    name: &str,
) -> bool {
    let Some((index, _)) = find_target(targets, kind, name) else { return false };
    targets.get(index).is_some_and(|found| Arc::ptr_eq(found, target))
}

/// A notification with the names that clients know; `None` if there are none in it, or no others.
pub(super) fn prefix_notification(target: &Target, method: &str, params: Raw<'_>) -> Option<RawJson> {
    let prefix = target.prefix.as_deref()?;
    if method != resources::Updated::NAME {
        return None;
    }
    let mut members: OrderedMap<RawJson> = params.read().ok()?;
    prefix_member(&mut members, "uri", ListKind::Resource, prefix)?;
    RawJson::from_value(&members).ok()
}

/// A result with the names that clients know; `None` if there are none in it, or no others.
pub(super) fn prefix_result(target: &Target, method: &str, result: &RawJson) -> Option<RawJson> {
    let prefix = target.prefix.as_deref()?;
    let mut members: OrderedMap<RawJson> = result.read().ok()?;
    match method {
        resources::Read::NAME => map_objects(&mut members, "contents", |item| {
            prefix_member(item, "uri", ListKind::Resource, prefix);
        })?,
        tools::Call::NAME => {
            map_objects(&mut members, "content", |block| prefix_content_block(block, prefix))?
        }
        prompts::Get::NAME => map_objects(&mut members, "messages", |message| {
            if let Some(mut block) =
                message.get("content").and_then(|block| block.read::<OrderedMap<RawJson>>().ok())
            {
                prefix_content_block(&mut block, prefix);
                if let Ok(block) = RawJson::from_value(&block) {
                    message.insert("content", block);
                }
            }
        })?,
        _ => return None,
    }
    RawJson::from_value(&members).ok()
}

/// Links and embedded resources name resources.
fn prefix_content_block(block: &mut OrderedMap<RawJson>, prefix: &str) {
    prefix_member(block, "uri", ListKind::Resource, prefix);
    if let Some(mut resource) =
        block.get("resource").and_then(|inner| inner.read::<OrderedMap<RawJson>>().ok())
    {
        prefix_member(&mut resource, "uri", ListKind::Resource, prefix);
        if let Ok(resource) = RawJson::from_value(&resource) {
            block.insert("resource", resource);
        }
    }
}

/// Puts the prefix before the name in a member. Returns the name with the prefix.
pub(super) fn prefix_member(
    members: &mut OrderedMap<RawJson>,
    member: &str,
    kind: ListKind,
    prefix: &str,
) -> Option<String> {
    let name: String = members.get(member)?.read().ok()?;
    let name = outer_name(kind, prefix, &name);
    members.insert(member, RawJson::from_value(&name).ok()?);
    Some(name)
}

/// Changes every object of a list.
fn map_objects(
    members: &mut OrderedMap<RawJson>,
    member: &str,
    change: impl Fn(&mut OrderedMap<RawJson>),
) -> Option<()> {
    let items: Vec<RawJson> = members.get(member)?.read().ok()?;
    let changed = items.into_iter().map(|item| match item.read::<OrderedMap<RawJson>>() {
        Ok(mut object) => {
            change(&mut object);
            RawJson::from_value(&object).unwrap_or(item)
        }
        Err(_) => item,
    });
    let changed: Vec<RawJson> = changed.collect();
    members.insert(member, RawJson::from_value(&changed).ok()?);
    Some(())
}

fn string_member(members: &OrderedMap<RawJson>, member: &str) -> Result<String, RpcError> {
    members.get(member).and_then(|value| value.read().ok()).ok_or_else(|| missing_member(member))
}

fn missing_member(member: &str) -> RpcError {
    RpcError::InvalidParams(format!("Invalid params: `{member}` is missing or malformed").into())
}

fn unknown_name_error(kind: ListKind, name: String, _revision: Revision) -> RpcError {
    match kind {
        ListKind::Tool => RpcError::UnknownTool { name },
        ListKind::Prompt => RpcError::UnknownPrompt { name },
        ListKind::Resource => RpcError::ResourceNotFound { uri: name },
    }
}
