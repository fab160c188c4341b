//! Checks what a handler returned before it is encoded. A fault is a mistake of the server: the log names it, and the
//! client receives an internal error.

use tsugite_core::base64;
use tsugite_core::protocol::content::{ContentBlock, ResourceBody, ResourceContents};
use tsugite_core::protocol::meta::{RELATED_TASK, SERVER_INFO};
use tsugite_core::protocol::prompts::GetResult;
use tsugite_core::protocol::resources::{ListResult, ReadResult};
use tsugite_core::protocol::tools::CallResult;
use tsugite_core::protocol::{Meta, MetaKeyError};

/// Checks the `_meta` keys of a tool's result.
pub(super) fn check_call_result(result: &CallResult) -> Result<(), String> {
    let blocks = result.content.iter().flat_map(block_metas);
    check_metas(result.meta.iter().chain(blocks.flatten()))
}

/// Checks the `_meta` keys and the content blocks of a prompt's result.
pub(super) fn check_prompt_result(result: &GetResult) -> Result<(), String> {
    let blocks = || result.messages.iter().map(|message| &message.content);
    check_metas(result.meta.iter().chain(blocks().flat_map(block_metas).flatten()))?;
    blocks().try_for_each(check_block)
}

/// Checks the `_meta` keys of a resource's contents.
pub(super) fn check_read_result(result: &ReadResult) -> Result<(), String> {
    check_metas(result.meta.iter().chain(result.contents.iter().flat_map(|part| &part.meta)))
}

/// Checks the `_meta` keys of listed resources.
pub(super) fn check_resource_list(result: &ListResult) -> Result<(), String> {
    check_metas(result.meta.iter().chain(result.resources.iter().flat_map(|resource| &resource.meta)))
}

fn check_metas<'a>(mut metas: impl Iterator<Item = &'a Meta>) -> Result<(), String> {
    let checked: Result<(), MetaKeyError> =
        metas.try_for_each(|meta| meta.check_user_keys(&[SERVER_INFO, RELATED_TASK]));
    checked.map_err(|error| error.to_string())
}

/// The `_meta` of a block, and of the resource in it.
fn block_metas(block: &ContentBlock) -> [Option<&Meta>; 2] {
    match block {
        ContentBlock::Text(text) => [text.meta.as_ref(), None],
        ContentBlock::Image(image) => [image.meta.as_ref(), None],
        ContentBlock::Audio(audio) => [audio.meta.as_ref(), None],
        ContentBlock::ResourceLink(link) => [link.meta.as_ref(), None],
        ContentBlock::Resource(embedded) => [embedded.meta.as_ref(), embedded.resource.meta.as_ref()],
        _ => [None, None],
    }
}

/// Checks the data, the MIME type and the URI of a content block ("Prompts", "Data Types").
fn check_block(block: &ContentBlock) -> Result<(), String> {
    match block {
        ContentBlock::Image(image) => check_media("an image", &image.data, &image.mime_type),
        ContentBlock::Audio(audio) => check_media("audio", &audio.data, &audio.mime_type),
        ContentBlock::ResourceLink(link) => check_reference(&link.uri, link.mime_type.as_deref()),
        ContentBlock::Resource(embedded) => check_resource(&embedded.resource),
        _ => Ok(()),
    }
}

fn check_media(what: &str, data: &str, mime_type: &str) -> Result<(), String> {
    if base64::decode(data).is_none() {
        return Err(format!("the data of {what} is not base64; use `from_bytes`"));
    }
    check_mime_type(mime_type)
}

fn check_resource(resource: &ResourceContents) -> Result<(), String> {
    check_reference(&resource.uri, resource.mime_type.as_deref())?;
    match &resource.body {
        ResourceBody::Blob(blob) if base64::decode(blob).is_none() => Err(format!(
            "the blob of the resource {:?} is not base64; use `ResourceContents::bytes`",
            resource.uri
        )),
        _ => Ok(()),
    }
}

fn check_reference(uri: &str, mime_type: Option<&str>) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_graphic() || !letter.is_ascii() && !letter.is_control();
    if !has_scheme(uri) || !uri.chars().all(is_plain) {
        return Err(format!("{uri:?} is not a URI; use for example `file:///name`"));
    }
    mime_type.map_or(Ok(()), check_mime_type)
}

fn check_mime_type(mime_type: &str) -> Result<(), String> {
    let is_token = |text: &str| {
        let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(is_inside)
    };
    let essence = mime_type.split(';').next().unwrap_or_default().trim_end();
    match essence.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => Ok(()),
        _ => Err(format!("{mime_type:?} is not a MIME type; use for example `image/png`")),
    }
}

/// RFC 3986 §3.1: a scheme is a letter followed by letters, digits, `+`, `-` or `.`.
pub(super) fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}
