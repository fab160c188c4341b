//! Plain words: sentences name their subject, and a doc summary says what the item is or does. The words of the
//! specification are found in rustdoc and in the pages.

use crate::source::Source;
use crate::{assert_none, tree};

/// Pronouns that hide the subject of a sentence.
const VAGUE: [&str; 4] = ["whoever", "nobody", "somebody", "anybody"];

/// Places that may use such a word: the file, the text on that line, and the reason.
const ALLOWED: [(&str, &str, &str); 1] = [("docs/hosts.md", "USER nobody", "the name of a Unix user")];

#[test]
fn sentences_name_their_subject() {
    let mut found = Vec::new();
    let xtask = tree::sources("xtask").into_iter().map(Source::without_tests);
    for source in tree::live_sources().into_iter().chain(xtask) {
        for sentence in sentences(&source) {
            if is_vague(sentence.text) && !is_allowed(&source.path, sentence.text) {
                found.push(format!("{}: {}", source.place(sentence.at), sentence.text.trim()));
            }
        }
    }
    assert_none(found);
}

#[test]
fn pages_snapshots_and_transcripts_name_their_subject() {
    let is_read = |path: &str| {
        let is_page = path.ends_with(".md") && (!path.contains('/') || path.starts_with("docs/"));
        let is_script = path.ends_with(".txt") && path.starts_with("crates/");
        is_page || is_script || path.ends_with("Cargo.toml")
    };
    let mut found = Vec::new();
    for path in tree::files("").into_iter().filter(|path| is_read(path)) {
        let text = tree::text(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            if is_vague(line) && !is_allowed(&path, line) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_none(found);
}

#[test]
fn doc_summaries_do_not_begin_with_what_or_who() {
    let mut found = Vec::new();
    for source in tree::live_sources() {
        for sentence in sentences(&source).into_iter().filter(|sentence| sentence.is_doc) {
            let first = sentence.text.split_whitespace().next();
            if matches!(first, Some("What" | "Who")) && !is_allowed(&source.path, sentence.text) {
                found.push(format!("{}: {}", source.place(sentence.at), sentence.text.trim()));
            }
        }
    }
    assert_none(found);
}

/// The limit of words in a test name, inclusive.
const MAX_NAME_WORDS: usize = 10;

#[test]
fn test_names_have_at_most_ten_words() {
    let mut found = Vec::new();
    for source in ["crates", "examples", "xtask", "bench", "fuzz"].into_iter().flat_map(tree::sources) {
        // Every identifier is checked, because a macro may take the names of its tests as arguments.
        let names = source.code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let long = names.filter(|name| name.split('_').count() > MAX_NAME_WORDS);
        found.extend(long.map(|name| format!("{}: {name}", source.path)));
    }
    assert_none(found);
}

/// Words of the specification and of other SDKs that rustdoc must find, where the name here is another one.
const ALIASES: [&str; 26] = [
    "AuthInfo",
    "CallToolResult",
    "ClientSession",
    "FastMCP",
    "GetPromptResult",
    "McpError",
    "ReadResourceResult",
    "ServerHandler",
    "ToolError",
    "call_tool",
    "create_message",
    "elicit",
    "elicitation",
    "in_memory",
    "list_changed",
    "listTools",
    "logging",
    "middleware",
    "notifications",
    "protocol_version",
    "proxy",
    "rate_limit",
    "readResource",
    "report_progress",
    "sampling",
    "structured_output",
];

#[test]
fn words_of_the_specification_are_doc_aliases() {
    let mut aliases = std::collections::HashSet::new();
    for source in tree::live_sources() {
        for range in &source.strings {
            let line = source.text[..range.start].rsplit_once("doc(alias").map_or("", |(_, line)| line);
            if !line.is_empty() && !line.contains(']') {
                aliases.insert(source.text[range.clone()].to_owned());
            }
        }
    }
    assert_none(ALIASES.iter().filter(|word| !aliases.contains(**word)).map(ToString::to_string).collect());
}

/// Words of the specification, each with the pages on which a reader searches for it.
const PAGE_WORDS: [(&str, &[&str]); 8] = [
    ("elicitation", &["asking", "bridge", "cli", "client", "settings", "testing", "tools"]),
    ("sampling", &["asking", "bridge", "cli", "client", "settings", "testing", "tools"]),
    ("structured output", &["client", "testing", "tools"]),
    (
        "protocol version",
        &["asking", "bridge", "cli", "client", "composing", "host", "http", "testing", "tools"],
    ),
    ("middleware", &["composing", "http", "testing", "tools"]),
    ("rate limit", &["composing", "http", "tools"]),
    ("logging", &["client", "tools"]),
    ("notification", &["changing", "client", "composing", "http", "stdio"]),
];

#[test]
fn pages_use_the_words_of_the_specification() {
    let mut found = Vec::new();
    for (word, pages) in PAGE_WORDS {
        for page in pages {
            let path = format!("docs/{page}.md");
            let text =
                tree::text(&path).unwrap().to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
            if !text.contains(word) {
                found.push(format!("{path}: {word}"));
            }
        }
    }
    assert_none(found);
}

/// One line of a comment, or one string literal.
struct Sentence<'a> {
    at: usize,
    text: &'a str,
    is_doc: bool,
}

/// The comment lines and string literals outside test modules.
fn sentences(source: &Source) -> Vec<Sentence<'_>> {
    let strings = source.strings.iter().map(|range| Sentence {
        at: range.start,
        text: &source.text[range.clone()],
        is_doc: false,
    });
    let mut found: Vec<_> = strings.collect();
    let mut at = 0;
    for line in source.text.split_inclusive('\n') {
        let start = at + line.len() - line.trim_start().len();
        let comment = line.trim();
        if !source.is_test(start) {
            let doc = ["///", "//!"].into_iter().find_map(|marker| comment.strip_prefix(marker));
            let text = doc.or_else(|| comment.strip_prefix("//"));
            found.extend(text.map(|text| Sentence { at: start, text, is_doc: doc.is_some() }));
        }
        at += line.len();
    }
    found
}

/// Whether a text contains a pronoun that hides its subject.
fn is_vague(text: &str) -> bool {
    let lower = text.to_lowercase();
    lower.split(|letter: char| !letter.is_alphanumeric()).any(|word| VAGUE.contains(&word))
}

fn is_allowed(path: &str, text: &str) -> bool {
    ALLOWED.iter().any(|(allowed, part, _)| path == *allowed && text.contains(part))
}
