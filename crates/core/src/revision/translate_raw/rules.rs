//! The translation rules of each method: one entry per method of the protocol.

use serde::Serialize;

use super::super::{InferResultType, Revision, Translate, UnsupportedByRevisionError};
use super::unchanged;
use crate::jsonrpc::raw_members::RawMember;
use crate::jsonrpc::{JsonError, Raw};
use crate::protocol::{
    Method, NotificationMethod, Output, ResultType, cancellation, completion, discover, elicitation,
    lifecycle, logging, ping, progress, prompts, resources, roots, sampling, subscriptions, tasks, tools,
};

/// A value as its type serializes it, before and after the rules.
pub(super) struct Translation {
    pub(super) before: String,
    pub(super) after: String,
}

/// The rule for params, or for a result.
pub(super) struct Rule<F> {
    is_same_in: fn(Revision, Revision) -> bool,
    needs_no_change: fn(&[RawMember<'_>], Revision, Revision) -> bool,
    /// Applies the rule.
    pub(super) translate: F,
}

impl<F> Rule<F> {
    /// Whether both revisions write every value the same.
    pub(super) fn is_same_in(&self, from: Revision, to: Revision) -> bool {
        (self.is_same_in)(from, to)
    }

    /// Whether a text with these members needs no change, as far as that can be told without deserializing it. `false`
    /// is always correct, only slower.
    pub(super) fn needs_no_change(
        &self,
        members: Option<&[RawMember<'_>]>,
        from: Revision,
        to: Revision,
    ) -> bool {
        self.is_same_in(from, to) || members.is_some_and(|members| (self.needs_no_change)(members, from, to))
    }
}

/// Returns `None` if nothing changes, or the text cannot be deserialized.
pub(super) type TranslateParams =
    fn(Raw<'_>, Revision, Revision) -> Result<Option<Translation>, UnsupportedByRevisionError>;
/// Also returns the type of the result, inferred if it is not given. A complete result that `needs_no_change` is not
/// deserialized.
pub(super) type TranslateResult = fn(
    Raw<'_>,
    Option<ResultType>,
    bool,
    Revision,
    Revision,
)
    -> Result<(ResultType, Option<Translation>), UnsupportedByRevisionError>;

/// The rules for a request.
pub(super) struct RequestRules {
    name: &'static str,
    pub(super) params: Rule<TranslateParams>,
    pub(super) output: Rule<TranslateResult>,
    /// Whether the result has cache hints on 2026-07-28.
    pub(super) cacheable: bool,
}

/// The rules for a notification.
pub(super) struct NotificationRules {
    name: &'static str,
    pub(super) params: Rule<TranslateParams>,
}

/// The rules of a request, if any revision has it.
pub(super) fn request_rules(method: &str) -> Option<&'static RequestRules> {
    REQUEST_RULES.iter().find(|rules| rules.name == method)
}

/// The rules of a notification, if any revision has it.
pub(super) fn notification_rules(method: &str) -> Option<&'static NotificationRules> {
    NOTIFICATION_RULES.iter().find(|rules| rules.name == method)
}

fn translate_params<P>(
    params: Raw<'_>,
    from: Revision,
    to: Revision,
) -> Result<Option<Translation>, UnsupportedByRevisionError>
where
    P: Translate + Serialize + serde::de::DeserializeOwned,
{
    match params.read::<P>() {
        Ok(params) => apply_rules(params, from, to),
        Err(_) => Ok(None),
    }
}

fn translate_output<O: Output + Translate + InferResultType>(
    result: Raw<'_>,
    named: Option<ResultType>,
    stays: bool,
    from: Revision,
    to: Revision,
) -> Result<(ResultType, Option<Translation>), UnsupportedByRevisionError> {
    let kind = match named {
        Some(ResultType::InputRequired) if !to.is_stateless() => {
            return Err(UnsupportedByRevisionError::InputRequired);
        }
        Some(kind) => kind,
        None if O::is_same_in(from, to) => ResultType::Complete,
        None => O::infer_result_type(result, from),
    };
    if kind == ResultType::Complete && stays {
        return Ok((kind, None));
    }
    match O::read(kind, result) {
        Ok(output) => Ok((kind, apply_rules(output, from, to)?)),
        Err(_) if kind == ResultType::Complete => Ok((kind, None)),
        // It is not a complete result, and must not be taken for one.
        Err(_) if kind == ResultType::Task && !to.has_core_tasks() => Err(UnsupportedByRevisionError::Tasks),
        Err(error) => Err(error.into()),
    }
}

fn apply_rules<T: Translate + Serialize>(
    mut value: T,
    from: Revision,
    to: Revision,
) -> Result<Option<Translation>, UnsupportedByRevisionError> {
    let untouched = to_json(&value)?;
    value.upgrade(from);
    value.downgrade(to)?;
    let translated = to_json(&value)?;
    Ok((untouched != translated).then_some(Translation { before: untouched, after: translated }))
}

fn to_json(value: &impl Serialize) -> Result<String, JsonError> {
    serde_json::to_string(value).map_err(JsonError::from)
}

const fn for_request<M: Method>() -> RequestRules
where
    M::Params: Translate,
    M::Output: Translate + InferResultType,
{
    let params = rule_for::<M::Params, TranslateParams>(translate_params::<M::Params>);
    let output = rule_for::<M::Output, TranslateResult>(translate_output::<M::Output>);
    RequestRules { name: M::NAME, params, output, cacheable: false }
}

const fn rule_for<T: Translate, F>(change: F) -> Rule<F> {
    Rule { is_same_in: T::is_same_in, needs_no_change: |_, _, _| false, translate: change }
}

/// Adds the shortcuts for tool calls, which are most of a bridge's traffic.
const fn with_call_shortcuts(mut rules: RequestRules) -> RequestRules {
    rules.params.needs_no_change = unchanged::call_params_unchanged;
    rules.output.needs_no_change = unchanged::call_result_unchanged;
    rules
}

const fn with_cache_hints(mut rules: RequestRules) -> RequestRules {
    rules.cacheable = true;
    rules
}

const fn for_notification<N: NotificationMethod>() -> NotificationRules
where
    N::Params: Translate,
{
    NotificationRules {
        name: N::NAME,
        params: rule_for::<N::Params, TranslateParams>(translate_params::<N::Params>),
    }
}

static REQUEST_RULES: [RequestRules; 23] = [
    for_request::<lifecycle::Initialize>(),
    for_request::<ping::Ping>(),
    with_cache_hints(for_request::<discover::Discover>()),
    with_cache_hints(for_request::<tools::List>()),
    with_call_shortcuts(for_request::<tools::Call>()),
    with_cache_hints(for_request::<resources::List>()),
    with_cache_hints(for_request::<resources::ListTemplates>()),
    with_cache_hints(for_request::<resources::Read>()),
    for_request::<resources::Subscribe>(),
    for_request::<resources::Unsubscribe>(),
    with_cache_hints(for_request::<prompts::List>()),
    for_request::<prompts::Get>(),
    for_request::<completion::Complete>(),
    for_request::<logging::SetLevel>(),
    for_request::<subscriptions::Listen>(),
    for_request::<sampling::CreateMessage>(),
    for_request::<roots::List>(),
    for_request::<elicitation::Create>(),
    for_request::<tasks::Get>(),
    for_request::<tasks::Cancel>(),
    for_request::<tasks::Payload>(),
    for_request::<tasks::List>(),
    for_request::<tasks::Update>(),
];

static NOTIFICATION_RULES: [NotificationRules; 13] = [
    for_notification::<lifecycle::Initialized>(),
    for_notification::<cancellation::Cancelled>(),
    for_notification::<progress::Progress>(),
    for_notification::<logging::Log>(),
    for_notification::<tools::ListChanged>(),
    for_notification::<prompts::ListChanged>(),
    for_notification::<resources::ListChanged>(),
    for_notification::<resources::Updated>(),
    for_notification::<roots::ListChanged>(),
    for_notification::<elicitation::Complete>(),
    for_notification::<tasks::StatusChanged>(),
    for_notification::<subscriptions::Acknowledged>(),
    for_notification::<tasks::TaskChanged>(),
];

#[cfg(test)]
mod tests {
    use super::super::super::{MethodKind, methods};
    use super::*;

    #[test]
    fn every_method_of_the_protocol_has_rules() {
        for row in methods() {
            let found = match row.kind {
                MethodKind::Request => request_rules(row.name).is_some(),
                MethodKind::Notification => notification_rules(row.name).is_some(),
            };
            assert!(found, "{}", row.name);
        }
        assert_eq!(REQUEST_RULES.len() + NOTIFICATION_RULES.len(), methods().len());
    }

    /// Asserts that a text that `needs_no_change` is not changed by the rules.
    fn assert_skipped_unchanged<T>(
        texts: &[&str],
        stays: fn(&[RawMember<'_>], Revision, Revision) -> bool,
    ) -> usize
    where
        T: Translate + Serialize + serde::de::DeserializeOwned,
    {
        let mut spared = 0;
        for (text, from, to) in
            texts.iter().flat_map(|text| revision_pairs().map(move |(from, to)| (text, from, to)))
        {
            let members = Raw::from_validated(text).members().unwrap();
            if !T::is_same_in(from, to) && stays(&members, from, to) {
                let changed = apply_rules(Raw::from_validated(text).read::<T>().unwrap(), from, to);
                assert!(matches!(changed, Ok(None)), "{text} from {from} to {to}");
                spared += 1;
            }
        }
        spared
    }

    fn revision_pairs() -> impl Iterator<Item = (Revision, Revision)> {
        let all = Revision::ALL;
        all.into_iter()
            .flat_map(move |from| all.into_iter().filter(move |to| *to != from).map(move |to| (from, to)))
    }

    #[test]
    fn skipped_texts_would_not_change() {
        let params = [
            r#"{"name":"add"}"#,
            r#"{"name":"add","arguments":{"task":1,"requestState":"a"},"_meta":{"x":1}}"#,
            r#"{"name":"add","task":{"ttl":1}}"#,
            r#"{"name":"add","requestState":"a"}"#,
            r#"{"name":"add","inputResponses":{}}"#,
        ];
        let spared = assert_skipped_unchanged::<tools::CallParams>(&params, unchanged::call_params_unchanged);
        assert!(spared >= 2 * 10, "plain calls are spared everywhere: {spared}");
        let results = [
            r#"{"content":[{"type":"text","text":"a","annotations":{"lastModified":"x"},"_meta":{"a":1}}]}"#,
            r#"{"content":[],"structuredContent":{"sum":3}}"#,
            r#"{"content":[],"structuredContent":[1]}"#,
            r#"{"content":[],"structuredContent":"a"}"#,
            r#"{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}],"isError":true}"#,
            r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n","icons":[{"src":"a:i"}]}]}"#,
        ];
        assert_skipped_unchanged::<tools::CallResult>(&results, unchanged::call_result_unchanged);
        let newest_two = [Revision::V2025_11_25, Revision::V2026_07_28];
        for (from, to) in [(newest_two[0], newest_two[1]), (newest_two[1], newest_two[0])] {
            for text in &results[..2] {
                let members = Raw::from_validated(text).members();
                assert!(
                    request_rules("tools/call").unwrap().output.needs_no_change(members.as_deref(), from, to),
                    "{text}"
                );
            }
        }
    }
}
