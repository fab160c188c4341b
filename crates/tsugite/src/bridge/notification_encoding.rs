//! Notifications of a server as a client reads them: in its revision, with its progress token and subscription id.

use tsugite_core::jsonrpc::{Raw, RawJson, write};
use tsugite_core::protocol::progress::Progress;
use tsugite_core::protocol::{Meta, NotificationMethod, OrderedMap, meta};
use tsugite_core::revision::{Revision, translate_raw_notification};

use super::client_request::ReplyTarget;

/// Encodes progress for a client.
pub(super) fn encode_progress(
    place: &ReplyTarget,
    from: Revision,
    to: Revision,
    params: Raw<'_>,
) -> Option<Vec<u8>> {
    let params = with_progress_token(place, params)?;
    encode_notification(Progress::NAME, Raw::from(&params), false, from, to)
}

/// Encodes a notification in revision `to`. One that is `bare` stays without params if the translation adds none.
pub(super) fn encode_notification(
    method: &str,
    params: Raw<'_>,
    bare: bool,
    from: Revision,
    to: Revision,
) -> Option<Vec<u8>> {
    let params = translate_raw_notification(method, params, from, to).ok()?;
    let mut bytes = Vec::with_capacity(128);
    let sent = (!bare || params.text() != "{}").then_some(&params);
    write::notification(&mut bytes, method, sent).ok()?;
    Some(bytes)
}

/// The params of progress under the client's token; `None` if the client wants no progress.
pub(super) fn with_progress_token(place: &ReplyTarget, params: Raw<'_>) -> Option<RawJson> {
    let token = RawJson::from_value(place.progress_token.as_ref()?).ok()?;
    let mut params = params.read::<OrderedMap<RawJson>>().ok()?;
    params.insert("progressToken", token);
    RawJson::from_value(&params).ok()
}

/// Replaces the subscription id in `_meta` with the client's; `None` if there is none.
pub(super) fn replace_subscription_id(params: Raw<'_>, place: &ReplyTarget) -> Option<RawJson> {
    #[derive(serde::Deserialize)]
    struct MetaField {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    params.read::<MetaField>().ok()?.meta.get(meta::SUBSCRIPTION_ID)?;
    set_subscription_id(params, place)
}

/// Puts the client's subscription id into `_meta`.
pub(super) fn set_subscription_id(params: Raw<'_>, place: &ReplyTarget) -> Option<RawJson> {
    let mut params: OrderedMap<RawJson> = params.read().ok()?;
    let mut meta: Meta = match params.get("_meta") {
        Some(meta) => meta.read().ok()?,
        None => Meta::new(),
    };
    meta.set_subscription_id(&place.id);
    params.insert("_meta", RawJson::from_value(&meta).ok()?);
    RawJson::from_value(&params).ok()
}
