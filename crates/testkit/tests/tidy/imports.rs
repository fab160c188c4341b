//! Imports of the library point one way: between its top-level modules, and between the modules of each folder.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;
use crate::{assert_none, tree};

const LIBRARY: &str = "crates/tsugite/src/";

/// How many modules of a folder may import each other in a cycle; none in a folder that is not listed.
const LARGEST_CYCLES: [(&str, usize); 1] = [("server", 3)];

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

#[test]
fn modules_of_a_folder_import_each_other_without_cycles() {
    let sources = library();
    let mut found = Vec::new();
    for folder in folders(&sources) {
        let graph = folder_graph(&folder, &sources);
        let cycle = largest_cycle(&graph);
        let max = LARGEST_CYCLES.iter().find(|(listed, _)| *listed == folder.join("/"));
        if cycle.len() <= max.map_or(1, |(_, max)| *max) {
            continue;
        }
        found.push(format!("{} modules of {} import each other:", cycle.len(), folder.join("/")));
        for (from, imported) in graph.iter().filter(|(from, _)| cycle.contains(*from)) {
            let edges = imported.iter().filter(|(to, _)| cycle.contains(*to));
            found.extend(edges.map(|(to, place)| format!("  {from} imports {to} at {place}")));
        }
    }
    assert_none(found);
}

#[test]
fn imports_of_a_folder_are_found_through_its_names() {
    let read = |path: &str, text: &str| Source::read(text, format!("{LIBRARY}{path}")).without_tests();
    let sources = [
        read(
            "a/mod.rs",
            "mod one; mod two; #[path = \"no_three.rs\"] mod three; pub use two::{Two, x as Y};",
        ),
        read("a/one.rs", "use super::Two; fn f() -> crate::a::Y { super::three::g::<u8>() }"),
        read("a/two.rs", "pub(in crate::a) struct Two; #[cfg(test)] mod tests { use super::super::one; }"),
        read("a/no_three.rs", "use crate::{b, a::{self, four::{Four, Five}}};"),
        read("a/four/mod.rs", "use super::one::One;"),
        read("a/four/five.rs", "use super::four; use super::super::two::*;"),
    ];
    let graph = folder_graph(&["a".to_owned()], &sources);
    let edges: Vec<_> =
        graph.iter().map(|(from, to)| (&**from, to.keys().map(|to| &**to).collect())).collect();
    let expected: [(&str, Vec<&str>); 4] = [
        ("four", vec!["one", "two"]),
        ("one", vec!["three", "two"]),
        ("three", vec!["four"]),
        ("two", vec![]),
    ];
    assert_eq!(edges, expected);
    assert_eq!(largest_cycle(&graph), BTreeSet::from(["four", "one", "three"].map(str::to_owned)));
}

/// Each module of a folder, the modules of the folder that it imports, and where it imports them.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// The imports between the modules of a folder. Names that its `mod.rs` exports count as those of their modules.
fn folder_graph(folder: &[String], sources: &[Source]) -> Graph {
    let inside: Vec<_> = sources
        .iter()
        .filter_map(|source| Some((module_of(source, sources)?, source)))
        .filter(|(module, _)| module.starts_with(folder))
        .collect();
    let modules: BTreeSet<_> = inside.iter().filter_map(|(module, _)| module.get(folder.len())).collect();
    let own = inside.iter().filter(|(module, _)| module == folder).flat_map(|(_, source)| exports(source));
    let exported: Vec<_> = own.filter(|(_, home)| modules.contains(home)).collect();
    let mut graph: Graph = modules.iter().map(|module| ((*module).clone(), BTreeMap::new())).collect();
    for (module, source) in &inside {
        let Some(importing) = module.get(folder.len()) else { continue };
        for (at, path) in absolute_paths(source, module) {
            let Some(name) = path.strip_prefix(folder).and_then(|rest| rest.first()) else { continue };
            let named: Vec<_> = match modules.contains(name) {
                true => vec![name],
                false => exported.iter().filter(|(own, _)| own == name).map(|(_, home)| home).collect(),
            };
            for imported in named.into_iter().filter(|imported| *imported != importing) {
                let edges = graph.entry(importing.clone()).or_default();
                edges.entry(imported.clone()).or_insert_with(|| source.place(at));
            }
        }
    }
    graph
}

/// The most modules that all reach each other.
fn largest_cycle(graph: &Graph) -> BTreeSet<String> {
    let reached = |from: &String| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop() {
            open.extend(graph[next].keys().filter(|to| reached.insert((*to).clone())));
        }
        reached
    };
    let reached: BTreeMap<_, _> = graph.keys().map(|module| (module, reached(module))).collect();
    let cycles = reached.iter().map(|(module, theirs)| {
        theirs.iter().filter(|other| reached[other].contains(*module)).cloned().collect::<BTreeSet<_>>()
    });
    cycles.max_by_key(BTreeSet::len).unwrap_or_default()
}

/// The folders of the library, each as the path of its module.
fn folders(sources: &[Source]) -> Vec<Vec<String>> {
    let folders = sources.iter().filter_map(|source| {
        let folder = source.path.strip_prefix(LIBRARY)?.strip_suffix("/mod.rs")?;
        Some(folder.split('/').map(str::to_owned).collect())
    });
    folders.collect()
}

/// The path of the module that a file is. `#[path]` in the `mod.rs` of its folder gives the file another name.
fn module_of(source: &Source, sources: &[Source]) -> Option<Vec<String>> {
    let path = source.path.strip_prefix(LIBRARY)?;
    let mut module: Vec<_> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|name| name == "mod") {
        module.pop();
        return Some(module);
    }
    let (folder, file) = source.path.rsplit_once('/')?;
    let parent = sources.iter().find(|other| other.path == format!("{folder}/mod.rs"));
    let renamed = parent.and_then(|parent| {
        let attribute = format!("#[path = \"{file}\"]");
        let (_, after) = parent.text.split_once(&attribute)?;
        Some(first_name(after.trim_start().strip_prefix("mod ")?).to_owned())
    });
    if let Some(renamed) = renamed {
        module.pop();
        module.push(renamed);
    }
    Some(module)
}

/// The names that a `mod.rs` imports from its modules, each with the module.
fn exports(source: &Source) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for at in source.words("use") {
        let mut paths = Vec::new();
        read_paths(&source.code, at + "use".len(), &[], &mut paths);
        found.extend(paths.into_iter().filter_map(|path| {
            let name = path.last()?.clone();
            Some((name, path.into_iter().find(|name| name != "self")?))
        }));
    }
    found
}

/// The paths in a file that begin with `crate` or `super`, from the root of the crate on, and where they stand.
fn absolute_paths(source: &Source, module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let starts = ["crate", "super"].into_iter().flat_map(|start| source.words(start));
    for at in starts {
        let before = &source.code[..at];
        // `$crate` is in a macro, `pub(in crate::a)` is a visibility, and a later `super` belongs to an earlier one.
        if before.ends_with(['$', ':']) || before.ends_with("(in ") {
            continue;
        }
        let mut paths = Vec::new();
        read_paths(&source.code, at, &[], &mut paths);
        for path in paths {
            let supers = path.iter().take_while(|name| *name == "super").count();
            let absolute = match path.first().map(String::as_str) {
                Some("crate") => match path.get(1).map(|name| (home(name), name)) {
                    Some((Some(home), name)) if home != *name => [&[home], &path[1..]].concat(),
                    _ => path[1..].to_vec(),
                },
                _ => [&module[..module.len().saturating_sub(supers)], &path[supers..]].concat(),
            };
            found.push((at, absolute));
        }
    }
    found
}

/// Reads a path, or the tree of paths of a `use`, each under the name that it gets with `as`. Returns where it ends.
fn read_paths(code: &str, at: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let skip = |at: usize| at + code[at..].len() - code[at..].trim_start().len();
    let (mut at, mut path) = (skip(at), prefix.to_vec());
    loop {
        if code[at..].starts_with('{') {
            at = skip(at + 1);
            while !code[at..].starts_with('}') {
                let end = read_paths(code, at, &path, found);
                assert!(end > at, "a list of imports that cannot be read: {}", &code[at..]);
                at = skip(end + usize::from(code[end..].starts_with(',')));
            }
            return skip(at + 1);
        }
        let name = if code[at..].starts_with('*') { "*" } else { first_name(&code[at..]) };
        path.push(name.to_owned());
        at = skip(at + name.len());
        match code[at..].strip_prefix("::").map(str::trim_start) {
            Some(next)
                if next.starts_with(|letter: char| letter.is_alphanumeric() || "_{*".contains(letter)) =>
            {
                at = skip(at + "::".len());
            }
            _ => break,
        }
    }
    if let Some(alias) = code[at..].strip_prefix("as ") {
        path.push(first_name(alias).to_owned());
        at = skip(at + "as ".len() + first_name(alias).len());
    }
    found.push(path);
    at
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
