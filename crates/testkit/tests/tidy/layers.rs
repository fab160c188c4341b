//! Layer rules: the core has no I/O and no clock, only one of its modules compares revisions, and every method name is
//! written in one place.

use crate::source::Source;
use crate::{assert_none, tree};

/// The module that compares revisions.
const REVISIONS: &str = "crates/core/src/revision/";

/// Exceptions that may name or compare a revision elsewhere: the file, the code of the line, and the reason. None now.
const ALLOWED: [(&str, &str, &str); 0] = [];

fn core() -> Vec<Source> {
    tree::live_sources().into_iter().filter(|source| source.path.starts_with("crates/core/src/")).collect()
}

#[test]
fn core_has_no_io_and_no_clock() {
    let mut found = Vec::new();
    for source in core() {
        let words = [
            "tokio",
            "std::net",
            "std::fs",
            "std::process",
            "std::thread",
            "Instant::now",
            "SystemTime::now",
        ];
        for word in words {
            found.extend(source.words(word).iter().map(|at| format!("{}: {word}", source.place(*at))));
        }
        for at in source.words("use std::{") {
            let list = source.code[at..].split(';').next().unwrap_or_default();
            let names = list.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let taken: Vec<_> =
                names.filter(|name| ["net", "fs", "process", "thread"].contains(name)).collect();
            if !taken.is_empty() {
                found.push(format!("{}: std::{}", source.place(at), taken.join(", ")));
            }
        }
    }
    assert_none(found);
}

#[test]
fn revisions_are_compared_only_in_their_module() {
    let mut found = Vec::new();
    let mut unused: Vec<_> = ALLOWED.iter().collect();
    for source in tree::live_sources() {
        if source.path.starts_with(REVISIONS) {
            continue;
        }
        let mut places = Vec::new();
        places
            .extend(source.code.match_indices("V20").map(|(at, _)| at).filter(|at| is_variant(&source, *at)));
        for sign in [" == ", " != ", " < ", " <= ", " > ", " >= "] {
            let signs = source.code.match_indices(sign).map(|(at, _)| at);
            places.extend(signs.filter(|at| {
                is_revision(last_word(&source.code[..*at]))
                    || is_revision(first_word(&source.code[at + sign.len()..]))
            }));
        }
        for named in ["Revision::NEWEST", "Revision::NEWEST_HANDSHAKE", "Revision::ASSUMED"] {
            let patterns = source.words(named).into_iter().filter(|at| {
                let after = source.code[at + named.len()..].trim_start();
                after.starts_with("=>") || after.starts_with("| ")
            });
            places.extend(patterns);
        }
        let is_version = |text: &str| text.parse::<Date>().is_ok();
        let strings = source.strings.iter().map(|string| (string.start, &source.text[string.clone()]));
        places.extend(strings.filter(|(_, text)| is_version(text)).map(|(at, _)| at));
        places.sort_unstable();
        places.dedup();
        for at in places {
            let line = line_at(&source.text, at);
            let allows = |allowed: &(&str, &str, &str)| source.path == allowed.0 && line.contains(allowed.1);
            unused.retain(|allowed| !allows(allowed));
            if !ALLOWED.iter().any(allows) {
                found.push(format!("{}: {}", source.place(at), line.trim()));
            }
        }
    }
    found.extend(unused.iter().map(|(path, code, _)| format!("{path}: `{code}` is allowed but not there")));
    assert_none(found);
}

/// A version as written on the wire.
struct Date;

impl std::str::FromStr for Date {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let shape: String =
            text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
        if shape == "0000-00-00" { Ok(Date) } else { Err(()) }
    }
}

fn is_variant(source: &Source, at: usize) -> bool {
    let bytes = source.code.as_bytes();
    let begins = at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    begins && bytes.get(at + 3).is_some_and(u8::is_ascii_digit)
}

/// Whether an operand is a revision, judged by its name.
fn is_revision(operand: &str) -> bool {
    let operand = operand.trim_start_matches(['*', '&', '(', '!']);
    let name = operand.rsplit(['.', ':']).next().unwrap_or_default();
    operand.contains("Revision::")
        || name == "revision"
        || name.starts_with("revision(")
        || name.ends_with("_revision")
}

fn last_word(code: &str) -> &str {
    code.rsplit(|letter: char| letter.is_whitespace()).next().unwrap_or_default()
}

fn first_word(code: &str) -> &str {
    let end =
        code.find(|letter: char| letter.is_whitespace() || ";,){".contains(letter)).unwrap_or(code.len());
    &code[..end]
}

fn line_at(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().unwrap_or_default()
}

#[test]
fn every_method_name_is_written_once() {
    let sources = core();
    let mut names = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with("crates/core/src/protocol/")) {
        for at in ["method! {", "notification! {"].iter().flat_map(|opening| source.words(opening)) {
            let string = source.strings.iter().find(|string| string.start > at).unwrap();
            names.push(&source.text[string.clone()]);
        }
    }
    assert!(names.len() > 30 && names.contains(&"tools/call"), "{names:?}");
    let mut found = Vec::new();
    for name in names {
        let strings =
            sources.iter().flat_map(|source| source.strings.iter().map(move |string| (source, string)));
        let places: Vec<_> = strings
            .filter(|(source, string)| &source.text[(*string).clone()] == name)
            .map(|(source, string)| source.place(string.start))
            .collect();
        if places.len() != 1 {
            found.push(format!("{name}: {}", places.join(", ")));
        }
    }
    assert_none(found);
}
