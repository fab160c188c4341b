//! Which type says how a method is carried: one row for each method of the protocol.

use serde::Serialize;

use super::super::{Reading, Revision, Translate, Unsayable};
use super::stays;
use crate::jsonrpc::parts::Member;
use crate::jsonrpc::{BadShape, Raw};
use crate::protocol::{
    Method, Notice, Output, ResultType, cancellation, completion, discover, elicitation, lifecycle, logging,
    ping, progress, prompts, resources, roots, sampling, subscriptions, tasks, tools,
};

/// A value as its type writes it, before and after the rules.
pub(super) struct Change {
    pub(super) untouched: String,
    pub(super) translated: String,
}

/// What the rules do to params, or to a result.
pub(super) struct Part<F> {
    alike: fn(Revision, Revision) -> bool,
    stays: fn(&[Member<'_>], Revision, Revision) -> bool,
    /// What they change.
    pub(super) change: F,
}

impl<F> Part<F> {
    /// Whether the two revisions write every value alike.
    pub(super) fn is_alike(&self, from: Revision, to: Revision) -> bool {
        (self.alike)(from, to)
    }

    /// Whether nothing is changed in what has these members, as far as they tell without being read. Saying no is never
    /// wrong, only slower.
    pub(super) fn stays(&self, members: Option<&[Member<'_>]>, from: Revision, to: Revision) -> bool {
        self.is_alike(from, to) || members.is_some_and(|members| (self.stays)(members, from, to))
    }
}

/// Gives `None` if nothing is changed, or if it cannot be read.
pub(super) type Params = fn(Raw<'_>, Revision, Revision) -> Result<Option<Change>, Unsayable>;
/// Gives the kind of the result as well; one that is not given is told from the result. What `stays` if it is complete is
/// not read.
pub(super) type Outcome = fn(
    Raw<'_>,
    Option<ResultType>,
    bool,
    Revision,
    Revision,
) -> Result<(ResultType, Option<Change>), Unsayable>;

/// How a request is carried.
pub(super) struct Request {
    name: &'static str,
    pub(super) params: Part<Params>,
    pub(super) output: Part<Outcome>,
    /// Whether the result has cache hints on 2026-07-28.
    pub(super) cacheable: bool,
}

/// How a notification is carried.
pub(super) struct Notification {
    name: &'static str,
    pub(super) params: Part<Params>,
}

/// The row of a request, if any revision has it.
pub(super) fn request(method: &str) -> Option<&'static Request> {
    REQUESTS.iter().find(|rules| rules.name == method)
}

/// The row of a notification, if any revision has it.
pub(super) fn notice(method: &str) -> Option<&'static Notification> {
    NOTICES.iter().find(|rules| rules.name == method)
}

fn params<P>(params: Raw<'_>, from: Revision, to: Revision) -> Result<Option<Change>, Unsayable>
where
    P: Translate + Serialize + serde::de::DeserializeOwned,
{
    match params.read::<P>() {
        Ok(params) => change(params, from, to),
        Err(_) => Ok(None),
    }
}

fn output<O: Output + Translate + Reading>(
    result: Raw<'_>,
    named: Option<ResultType>,
    stays: bool,
    from: Revision,
    to: Revision,
) -> Result<(ResultType, Option<Change>), Unsayable> {
    let kind = match named {
        Some(ResultType::InputRequired) if !to.is_stateless() => return Err(Unsayable::InputRequired),
        Some(kind) => kind,
        None if O::alike(from, to) => ResultType::Complete,
        None => O::kind_of(result, from),
    };
    if kind == ResultType::Complete && stays {
        return Ok((kind, None));
    }
    match O::read(kind, result) {
        Ok(output) => Ok((kind, change(output, from, to)?)),
        Err(_) if kind == ResultType::Complete => Ok((kind, None)),
        // Whatever it is, it is no answer, and must not be taken for one.
        Err(_) if kind == ResultType::Task && !to.has_core_tasks() => Err(Unsayable::Tasks),
        Err(error) => Err(error.into()),
    }
}

fn change<T: Translate + Serialize>(
    mut value: T,
    from: Revision,
    to: Revision,
) -> Result<Option<Change>, Unsayable> {
    let untouched = text(&value)?;
    value.inward(from);
    value.outward(to)?;
    let translated = text(&value)?;
    Ok((untouched != translated).then_some(Change { untouched, translated }))
}

fn text(value: &impl Serialize) -> Result<String, BadShape> {
    serde_json::to_string(value).map_err(BadShape::from)
}

const fn asks<M: Method>() -> Request
where
    M::Params: Translate,
    M::Output: Translate + Reading,
{
    let params = part::<M::Params, Params>(params::<M::Params>);
    let output = part::<M::Output, Outcome>(output::<M::Output>);
    Request { name: M::NAME, params, output, cacheable: false }
}

const fn part<T: Translate, F>(change: F) -> Part<F> {
    Part { alike: T::alike, stays: |_, _, _| false, change }
}

/// Calls are most of what crosses a bridge.
const fn calls(mut rules: Request) -> Request {
    rules.params.stays = stays::call;
    rules.output.stays = stays::result;
    rules
}

const fn cacheable(mut rules: Request) -> Request {
    rules.cacheable = true;
    rules
}

const fn tells<N: Notice>() -> Notification
where
    N::Params: Translate,
{
    Notification { name: N::NAME, params: part::<N::Params, Params>(params::<N::Params>) }
}

static REQUESTS: [Request; 23] = [
    asks::<lifecycle::Initialize>(),
    asks::<ping::Ping>(),
    cacheable(asks::<discover::Discover>()),
    cacheable(asks::<tools::List>()),
    calls(asks::<tools::Call>()),
    cacheable(asks::<resources::List>()),
    cacheable(asks::<resources::ListTemplates>()),
    cacheable(asks::<resources::Read>()),
    asks::<resources::Subscribe>(),
    asks::<resources::Unsubscribe>(),
    cacheable(asks::<prompts::List>()),
    asks::<prompts::Get>(),
    asks::<completion::Complete>(),
    asks::<logging::SetLevel>(),
    asks::<subscriptions::Listen>(),
    asks::<sampling::CreateMessage>(),
    asks::<roots::List>(),
    asks::<elicitation::Create>(),
    asks::<tasks::Get>(),
    asks::<tasks::Cancel>(),
    asks::<tasks::Payload>(),
    asks::<tasks::List>(),
    asks::<tasks::Update>(),
];

static NOTICES: [Notification; 13] = [
    tells::<lifecycle::Initialized>(),
    tells::<cancellation::Cancelled>(),
    tells::<progress::Progress>(),
    tells::<logging::Log>(),
    tells::<tools::ListChanged>(),
    tells::<prompts::ListChanged>(),
    tells::<resources::ListChanged>(),
    tells::<resources::Updated>(),
    tells::<roots::ListChanged>(),
    tells::<elicitation::Complete>(),
    tells::<tasks::StatusChanged>(),
    tells::<subscriptions::Acknowledged>(),
    tells::<tasks::Changed>(),
];

#[cfg(test)]
mod tests {
    use super::super::super::{Kind, methods};
    use super::*;

    #[test]
    fn every_method_of_the_protocol_has_a_row() {
        for row in methods() {
            let found = match row.kind {
                Kind::Request => request(row.name).is_some(),
                Kind::Notification => notice(row.name).is_some(),
            };
            assert!(found, "{}", row.name);
        }
        assert_eq!(REQUESTS.len() + NOTICES.len(), methods().len());
    }

    /// What `stays` spares to be read is what the rules leave alone.
    fn assert_spared<T>(texts: &[&str], stays: fn(&[Member<'_>], Revision, Revision) -> bool) -> usize
    where
        T: Translate + Serialize + serde::de::DeserializeOwned,
    {
        let mut spared = 0;
        for (text, from, to) in texts.iter().flat_map(|text| pairs().map(move |(from, to)| (text, from, to)))
        {
            let members = Raw::checked(text).members().unwrap();
            if !T::alike(from, to) && stays(&members, from, to) {
                let changed = change(Raw::checked(text).read::<T>().unwrap(), from, to);
                assert!(matches!(changed, Ok(None)), "{text} from {from} to {to}");
                spared += 1;
            }
        }
        spared
    }

    fn pairs() -> impl Iterator<Item = (Revision, Revision)> {
        let all = Revision::ALL;
        all.into_iter()
            .flat_map(move |from| all.into_iter().filter(move |to| *to != from).map(move |to| (from, to)))
    }

    #[test]
    fn what_is_not_read_is_not_changed() {
        let params = [
            r#"{"name":"add"}"#,
            r#"{"name":"add","arguments":{"task":1,"requestState":"a"},"_meta":{"x":1}}"#,
            r#"{"name":"add","task":{"ttl":1}}"#,
            r#"{"name":"add","requestState":"a"}"#,
            r#"{"name":"add","inputResponses":{}}"#,
        ];
        let spared = assert_spared::<tools::CallParams>(&params, stays::call);
        assert!(spared >= 2 * 10, "plain calls are spared everywhere: {spared}");
        let results = [
            r#"{"content":[{"type":"text","text":"a","annotations":{"lastModified":"x"},"_meta":{"a":1}}]}"#,
            r#"{"content":[],"structuredContent":{"sum":3}}"#,
            r#"{"content":[],"structuredContent":[1]}"#,
            r#"{"content":[],"structuredContent":"a"}"#,
            r#"{"content":[{"type":"audio","data":"","mimeType":"audio/wav"}],"isError":true}"#,
            r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n","icons":[{"src":"a:i"}]}]}"#,
        ];
        assert_spared::<tools::CallResult>(&results, stays::result);
        let newest_two = [Revision::V2025_11_25, Revision::V2026_07_28];
        for (from, to) in [(newest_two[0], newest_two[1]), (newest_two[1], newest_two[0])] {
            for text in &results[..2] {
                let members = Raw::checked(text).members();
                assert!(request("tools/call").unwrap().output.stays(members.as_deref(), from, to), "{text}");
            }
        }
    }
}
