//! Imports between the top-level modules of the library: they point one way.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;
use crate::{assert_none, tree};

const LIBRARY: &str = "crates/tsugite/src/";

#[test]
fn client_does_not_import_the_server() {
    let mut found = Vec::new();
    for source in library().iter().filter(|source| module(source) == "client") {
        let from_server = imports(source).into_iter().filter(|(_, imported)| imported == "server");
        found.extend(from_server.map(|(at, _)| source.place(at)));
    }
    assert_none(found);
}

#[test]
fn top_level_modules_import_each_other_without_cycles() {
    let mut graph: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for source in library() {
        for (at, imported) in imports(&source) {
            if imported != module(&source) {
                let importing = graph.entry(module(&source).to_owned()).or_default();
                importing.entry(imported).or_insert_with(|| source.place(at));
            }
        }
    }
    assert!(graph["transport"].contains_key("server"), "imports are found: {graph:?}");
    // A module that imports only removed modules is on no cycle.
    loop {
        let before = graph.len();
        let remaining: BTreeSet<_> = graph.keys().cloned().collect();
        graph.retain(|_, imported| imported.keys().any(|name| remaining.contains(name)));
        if graph.len() == before {
            break;
        }
    }
    let remaining: BTreeSet<_> = graph.keys().cloned().collect();
    let edges = graph.iter().flat_map(|(from, imported)| {
        let kept = imported.iter().filter(|(name, _)| remaining.contains(*name));
        kept.map(move |(to, place)| format!("{from} imports {to} at {place}"))
    });
    assert_none(edges.collect());
}

/// The library's files without `lib.rs`, which imports all of them.
fn library() -> Vec<Source> {
    let sources = tree::live_sources().into_iter();
    sources.filter(|source| source.path.starts_with(LIBRARY) && module(source) != "lib").collect()
}

/// The top-level module a file belongs to.
fn module(source: &Source) -> &str {
    let path = source.path.trim_start_matches(LIBRARY);
    path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

/// The places where a file names a top-level module, with the module.
fn imports(source: &Source) -> Vec<(usize, String)> {
    let places = source.code.match_indices("crate::").filter(|(at, _)| !source.code[..*at].ends_with('$'));
    let named = places.flat_map(|(at, mark)| {
        let rest = &source.code[at + mark.len()..];
        let names = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default().split(',').collect(),
            None => vec![rest],
        };
        names.into_iter().map(move |name| (at, first_name(name))).collect::<Vec<_>>()
    });
    named.filter_map(|(at, name)| Some((at, home(name)?))).collect()
}

fn first_name(path: &str) -> &str {
    let path = path.trim_start();
    let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(path.len());
    &path[..end]
}

/// The module of a name in `crate::`; none for names from other crates.
fn home(name: &str) -> Option<String> {
    let module = match name {
        "Server" => "server",
        "Client" => "client",
        "Error" | "Result" => "error",
        "lock" => "shared",
        name => name,
    };
    let is_module = tree::text(&format!("{LIBRARY}{module}.rs")).is_some()
        || tree::text(&format!("{LIBRARY}{module}/mod.rs")).is_some();
    is_module.then(|| module.to_owned())
}
