//! Applies the changes of the rules to a text, and changes nothing else.
//!
//! There are three texts: the original, the original as its type serializes it, and the same after the rules. Where the
//! last two are equal, the original stays as it is, to the byte. Where they differ, their members are compared: a
//! member that only the original has is unknown and kept, one that the rules removed is removed, one that they set is
//! set.
//!
//! It recurses only where a rule changed something, and so no deeper than the types of the protocol.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::jsonrpc::Raw;
use crate::jsonrpc::raw_members::{self, EditableMembers, RawMember};

/// The members of `original` with the changes from `untouched` to `translated`; `None` unless all are objects.
pub(super) fn merge_objects<'a>(
    original: Raw<'a>,
    untouched: Raw<'a>,
    translated: Raw<'a>,
) -> Option<EditableMembers<'a>> {
    let (original, untouched, translated) =
        (original.members()?, untouched.members()?, translated.members()?);
    let before: HashMap<_, _> = names_and_values(&untouched).collect();
    let after: HashMap<_, _> = names_and_values(&translated).collect();
    let mut placed = HashSet::new();
    let mut merged = EditableMembers::with_capacity(original.len());
    for member in original {
        let Some(name) = member.name() else {
            merged.push(member.with_value(Cow::Borrowed(member.value)));
            continue;
        };
        let kept = match (before.get(&name), after.get(&name)) {
            (Some(old), Some(new)) => Some(merge_values(member.value, old, new)),
            (None, Some(new)) => Some(Cow::Borrowed(*new)),
            (Some(_), None) => None,
            (None, None) => Some(Cow::Borrowed(member.value)),
        };
        merged.extend(kept.map(|value| member.with_value(value)));
        placed.insert(name);
    }
    let set = translated.iter().filter(|member| member.name().is_some_and(|name| !placed.contains(&name)));
    merged.extend(set.map(|member| member.with_value(Cow::Borrowed(member.value))));
    Some(merged)
}

fn names_and_values<'a>(members: &[RawMember<'a>]) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
    members.iter().filter_map(|member| Some((member.name()?, member.value)))
}

fn merge_values<'a>(original: &'a str, untouched: &'a str, translated: &'a str) -> Cow<'a, str> {
    if untouched == translated {
        return Cow::Borrowed(original);
    }
    let (original, untouched, translated) =
        (Raw::from_validated(original), Raw::from_validated(untouched), Raw::from_validated(translated));
    if let Some(merged) = merge_objects(original, untouched, translated) {
        return Cow::Owned(raw_members::build_object(&merged));
    }
    match (original.items(), untouched.items(), translated.items()) {
        (Some(original), Some(untouched), Some(translated)) => {
            Cow::Owned(raw_members::build_array(merge_arrays(&original, &untouched, &translated)))
        }
        // A single item of an array that became the value itself.
        (Some(original), Some(untouched), None) => match (original.as_slice(), untouched.as_slice()) {
            ([original], [untouched]) => merge_values(original, untouched, translated.text()),
            _ => Cow::Borrowed(translated.text()),
        },
        _ => Cow::Borrowed(translated.text()),
    }
}

/// Merges arrays by position. If items were added or removed, only the items before and after that are paired.
fn merge_arrays<'a>(
    original: &[&'a str],
    untouched: &[&'a str],
    translated: &[&'a str],
) -> Vec<Cow<'a, str>> {
    if original.len() != untouched.len() {
        return translated.iter().map(|item| Cow::Borrowed(*item)).collect();
    }
    if untouched.len() == translated.len() {
        let pairs = original.iter().zip(untouched).zip(translated);
        return pairs
            .map(|((original, untouched), translated)| merge_values(original, untouched, translated))
            .collect();
    }
    let same = |(old, new): &(&&str, &&str)| old == new;
    let head = untouched.iter().zip(translated).take_while(same).count();
    let most = untouched.len().min(translated.len()) - head;
    let tail = untouched.iter().rev().zip(translated.iter().rev()).take(most).take_while(same).count();
    let first = original.iter().take(head);
    let middle = translated.iter().take(translated.len() - tail).skip(head);
    let last = original.iter().skip(original.len() - tail);
    first.chain(middle).chain(last).map(|item| Cow::Borrowed(*item)).collect()
}
