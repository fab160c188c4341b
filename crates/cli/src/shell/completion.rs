//! Completes a line of the shell: commands, names, arguments and values.
//!
//! Candidates come from the server's lists and from `completion/complete`.

use serde_json::Value;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::completion::{CompleteParams, CompletionArgument, CompletionContext, Reference};

use super::uri_template::{self, TemplatePosition};
use super::words::{self, PartialLine};
use crate::catalog::Catalog;
use crate::console::sanitize;
use crate::schema;

/// A candidate for the word at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The text to show in the list of candidates.
    pub(super) display: String,
    /// The text to insert.
    pub(super) replacement: String,
}

/// The name and options of a command.
pub(super) struct CommandSpec {
    pub(super) name: String,
    pub(super) options: Vec<String>,
}

/// The sources of candidates.
pub(super) struct Completer<'a> {
    pub(super) commands: &'a [CommandSpec],
    pub(super) catalog: &'a Catalog,
    /// Asks the server to complete an argument.
    pub(super) query: &'a dyn Fn(CompleteParams) -> Vec<String>,
}

impl Completer<'_> {
    /// Returns the candidates for the end of `line`, and the offset of the word that they replace.
    pub(super) fn candidates(&self, line: &str) -> (usize, Vec<Candidate>) {
        let Some(PartialLine { words: before, partial_word: last, start }) = words::parse_partial(line)
        else {
            return (line.len(), Vec::new());
        };
        let found = match before.split_first() {
            None => self.complete_command(&last),
            Some((command, rest)) => self.complete_argument(command, rest, &last),
        };
        (start, found)
    }

    fn complete_command(&self, prefix: &str) -> Vec<Candidate> {
        let commands = self.commands.iter().map(|command| command.name.as_str());
        let tools = self.catalog.tools.iter().map(|tool| tool.name.as_str());
        let tools = tools.filter(|name| self.commands.iter().all(|command| command.name != *name));
        matching_words(commands.chain(tools), prefix)
    }

    fn complete_argument(&self, command: &str, rest: &[String], prefix: &str) -> Vec<Candidate> {
        let Some(known) = self.commands.iter().find(|known| known.name == command) else {
            return self.complete_tool_arguments(command, rest, prefix);
        };
        if prefix.starts_with('-') {
            return matching_words(known.options.iter().map(String::as_str), prefix);
        }
        let catalog = self.catalog;
        let rest: Vec<String> = rest.iter().filter(|word| !word.starts_with('-')).cloned().collect();
        match (command, rest.as_slice()) {
            ("list", []) => {
                let lists = catalog.lists();
                let names = lists.iter().flat_map(|(_, entries)| entries).map(|entry| entry.name);
                matching_words(names, prefix)
            }
            ("call", []) => matching_words(catalog.tools.iter().map(|tool| tool.name.as_str()), prefix),
            ("call", [tool, given @ ..]) => self.complete_tool_arguments(tool, given, prefix),
            ("prompt", []) => {
                matching_words(catalog.prompts.iter().map(|prompt| prompt.name.as_str()), prefix)
            }
            ("prompt", [prompt, given @ ..]) => self.complete_prompt_arguments(prompt, given, prefix),
            ("tasks", []) => matching_words(["list", "get", "wait", "cancel"].into_iter(), prefix),
            ("read", []) => self.complete_uris(prefix, true),
            ("listen", _) => self.complete_uris(prefix, false),
            ("complete", given) => self.complete_reference(given, prefix),
            ("help", []) => matching_words(self.commands.iter().map(|command| command.name.as_str()), prefix),
            _ => Vec::new(),
        }
    }

    fn complete_tool_arguments(&self, tool: &str, given: &[String], prefix: &str) -> Vec<Candidate> {
        let Some(tool) = self.catalog.tools.iter().find(|catalog| catalog.name == tool) else {
            return Vec::new();
        };
        let root = Value::Object(tool.input_schema.keywords().clone());
        let is_list = |property: &Value| schema::types(property, &root).iter().any(|kind| kind == "array");
        let Some((name, value)) = prefix.split_once('=') else {
            let free = schema::property_names(&root).filter(|name| {
                // An array may be given item by item.
                !is_given(name, given)
                    || schema::property(&root, name).is_some_and(|property| is_list(&property))
            });
            return matching_arguments(free, prefix);
        };
        let Some(property) = schema::property(&root, name) else { return Vec::new() };
        let property = match is_list(&property) {
            true => schema::items(&property, &root).unwrap_or_default(),
            false => property,
        };
        let values: Vec<String> = match schema::allowed_values(&property, &root) {
            Some(allowed) => allowed.iter().map(value_text).collect(),
            None if schema::types(&property, &root).iter().any(|kind| kind == "boolean") => {
                vec!["true".to_owned(), "false".to_owned()]
            }
            None => Vec::new(),
        };
        self::argument_values(
            name,
            values.iter().map(String::as_str).filter(|known| known.starts_with(value)),
        )
    }

    fn complete_prompt_arguments(&self, prompt: &str, given: &[String], prefix: &str) -> Vec<Candidate> {
        let Some(prompt) = self.catalog.prompts.iter().find(|catalog| catalog.name == prompt) else {
            return Vec::new();
        };
        let names = || prompt.arguments.iter().flatten().map(|argument| argument.name.as_str());
        match prefix.split_once('=') {
            None => matching_arguments(names().filter(|name| !is_given(name, given)), prefix),
            Some((name, value)) if names().any(|known| known == name) => {
                let reference = Reference::prompt(&prompt.name);
                let values = self.query_server(reference, name, value, given_pairs(given, name));
                argument_values(name, values.iter().map(String::as_str))
            }
            Some(_) => Vec::new(),
        }
    }

    /// Completes URIs of resources, and of resource templates if `templates` is set.
    fn complete_uris(&self, prefix: &str, templates: bool) -> Vec<Candidate> {
        let catalog = self.catalog;
        let mut found =
            matching_words(catalog.resources.iter().map(|resource| resource.uri.as_str()), prefix);
        if !templates {
            return found;
        }
        for template in &catalog.resource_templates {
            match uri_template::match_template(&template.uri_template, prefix) {
                None => {}
                Some(TemplatePosition::Literal(uri, is_whole)) => {
                    found.extend(candidate(&template.uri_template, &uri, is_whole));
                }
                Some(TemplatePosition::Variable(variable)) => {
                    let reference = Reference::resource(&template.uri_template);
                    let values = self.query_server(
                        reference,
                        variable.name,
                        &variable.prefix,
                        variable.earlier_variables.clone(),
                    );
                    found.extend(values.iter().filter_map(|value| {
                        let (uri, is_whole) = variable.expand(value);
                        candidate(value, &uri, is_whole)
                    }));
                }
            }
        }
        found
    }

    /// Completes the arguments of `complete PROMPT|TEMPLATE ARGUMENT [PREFIX] [k=v]…`.
    fn complete_reference(&self, given: &[String], prefix: &str) -> Vec<Candidate> {
        let catalog = self.catalog;
        let [about, rest @ ..] = given else {
            let prompts = catalog.prompts.iter().map(|prompt| prompt.name.as_str());
            let templates = catalog.resource_templates.iter().map(|template| template.uri_template.as_str());
            return matching_words(prompts.chain(templates), prefix);
        };
        let prompt = catalog.prompts.iter().find(|prompt| prompt.name == *about);
        let names: Vec<&str> = match prompt {
            Some(prompt) => {
                prompt.arguments.iter().flatten().map(|argument| argument.name.as_str()).collect()
            }
            None => uri_template::variable_names(about).collect(),
        };
        match rest {
            [] => matching_words(names.into_iter(), prefix),
            [name] => {
                let reference = match prompt {
                    Some(prompt) => Reference::prompt(&prompt.name),
                    None => Reference::resource(about),
                };
                let values = self.query_server(reference, name, prefix, OrderedMap::new());
                values.iter().filter_map(|value| candidate(value, value, true)).collect()
            }
            [name, _, more @ ..] => {
                let others = names.into_iter().filter(|other| other != name && !is_given(other, more));
                matching_arguments(others, prefix)
            }
        }
    }

    fn query_server(
        &self,
        reference: Reference,
        name: &str,
        prefix: &str,
        known: OrderedMap<String>,
    ) -> Vec<String> {
        let mut params = CompleteParams::new(reference, CompletionArgument::new(name, prefix));
        if !known.is_empty() {
            params = params.context(CompletionContext::new().arguments(known));
        }
        let mut values = (self.query)(params);
        values.truncate(MAX_VALUES);
        values
    }
}

/// Returns the words that begin with `prefix`.
fn matching_words<'a>(words: impl Iterator<Item = &'a str>, prefix: &str) -> Vec<Candidate> {
    words.filter(|word| word.starts_with(prefix)).filter_map(|word| candidate(word, word, true)).collect()
}

/// Returns the argument names that begin with `prefix`, without values.
fn matching_arguments<'a>(names: impl Iterator<Item = &'a str>, prefix: &str) -> Vec<Candidate> {
    let matching = names.filter(|name| name.starts_with(prefix));
    matching.map(|name| format!("{name}=")).filter_map(|word| candidate(&word, &word, false)).collect()
}

/// Returns an argument with each of the values.
fn argument_values<'a>(name: &str, values: impl Iterator<Item = &'a str>) -> Vec<Candidate> {
    values.filter_map(|value| candidate(value, &format!("{name}={value}"), true)).collect()
}

/// Builds a candidate; `None` for text from a server that contains control characters or is too long.
fn candidate(shown: &str, word: &str, is_whole: bool) -> Option<Candidate> {
    let harmless = |text: &str| sanitize(text) == text && !text.contains(['\n', '\t']);
    if !harmless(shown) || !harmless(word) || word.len() > MAX_WORD_BYTES {
        return None;
    }
    let end = if is_whole { " " } else { "" };
    Some(Candidate { display: shown.to_owned(), replacement: format!("{}{end}", words::quote(word)) })
}

fn is_given(name: &str, given: &[String]) -> bool {
    given.iter().filter_map(|word| word.split_once('=')).any(|(given, _)| given.trim_end_matches(':') == name)
}

/// Returns the arguments that are already given, except `name`.
fn given_pairs(given: &[String], name: &str) -> OrderedMap<String> {
    let pairs = given.iter().filter_map(|word| word.split_once('='));
    pairs
        .filter(|(given, _)| *given != name)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Limits for candidates from a server: their number, and the bytes of one word.
const MAX_VALUES: usize = 200;
const MAX_WORD_BYTES: usize = 1_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn catalog() -> Catalog {
        fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
            serde_json::from_value(value).unwrap()
        }
        let tools = json!([
            {"name": "add", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}}},
            {"name": "adjust", "inputSchema": {"type": "object", "properties": {
                "size": {"$ref": "#/$defs/Size"},
                "sure": {"type": "boolean"},
                "tags": {"type": "array", "items": {"enum": ["old wood", "new"]}},
            }, "$defs": {"Size": {"enum": ["small", "smaller", "large", 3]}}}},
            {"name": "list", "inputSchema": {"type": "object"}},
            {"name": "bad\u{1b}[2J", "inputSchema": {"type": "object"}},
        ]);
        let prompts = json!([{"name": "review", "arguments": [{"name": "code"}, {"name": "language"}]}]);
        let templates = json!([{"name": "city", "uriTemplate": "demo://cities/{country}/{city}"}]);
        Catalog {
            tools: read(tools),
            resources: read(json!([{"name": "motto", "uri": "demo://motto"}])),
            resource_templates: read(templates),
            prompts: read(prompts),
        }
    }

    /// Returns the completed lines, and the queries that were sent.
    fn completions_for(line: &str) -> (Vec<String>, Vec<String>) {
        let commands: Vec<CommandSpec> = ["list", "listen", "call", "read", "prompt", "complete", "help"]
            .iter()
            .map(|name| CommandSpec {
                name: (*name).to_owned(),
                options: vec!["--json".to_owned(), "--help".to_owned()],
            })
            .collect();
        let catalog = catalog();
        let asked = std::cell::RefCell::new(Vec::new());
        let ask = |params: CompleteParams| {
            asked.borrow_mut().push(serde_json::to_string(&params).unwrap());
            match params.argument.name.as_str() {
                "language" => vec!["ruby".to_owned(), "rust".to_owned(), "bad\n".to_owned()],
                "country" => vec!["Japan".to_owned(), "New Land".to_owned()],
                "city" => vec!["Kyoto".to_owned()],
                _ => Vec::new(),
            }
        };
        let completer = Completer { commands: &commands, catalog: &catalog, query: &ask };
        let (start, found) = completer.candidates(line);
        let lines = found
            .into_iter()
            .map(|candidate| format!("{}{}", &line[..start], candidate.replacement))
            .collect();
        (lines, asked.into_inner())
    }

    fn local_completions_for(line: &str) -> Vec<String> {
        let (lines, asked) = completions_for(line);
        assert!(asked.is_empty(), "{line}: {asked:?}");
        lines
    }

    #[test]
    fn first_word_completes_to_commands_and_tools() {
        assert_eq!(local_completions_for("lis"), ["list ", "listen "]);
        assert_eq!(local_completions_for("ad"), ["add ", "adjust "]);
        assert_eq!(local_completions_for("call ad"), ["call add ", "call adjust "]);
        assert_eq!(local_completions_for("call li"), ["call list "]);
        // Names with control characters are not offered.
        assert_eq!(local_completions_for("bad"), [""; 0]);
        assert_eq!(local_completions_for("help re"), ["help read "]);
        assert_eq!(local_completions_for("call --j"), ["call --json "]);
        assert_eq!(local_completions_for("# li"), [""; 0]);
        assert_eq!(local_completions_for("nothing x"), [""; 0]);
    }

    #[test]
    fn tool_arguments_come_from_the_schema() {
        assert_eq!(local_completions_for("add "), ["add a=", "add b="]);
        assert_eq!(local_completions_for("call add a=1 "), ["call add a=1 b="]);
        assert_eq!(local_completions_for("call --json add a:=1 "), ["call --json add a:=1 b="]);
        assert_eq!(local_completions_for("adjust size=sm"), ["adjust size=small ", "adjust size=smaller "]);
        assert_eq!(local_completions_for("adjust size=3"), ["adjust size=3 "]);
        assert_eq!(local_completions_for("adjust sure="), ["adjust sure=true ", "adjust sure=false "]);
        assert_eq!(local_completions_for("adjust tags=o"), ["adjust tags=old\\ wood "]);
        assert_eq!(local_completions_for("adjust 'tags=old w"), ["adjust tags=old\\ wood "]);
        assert_eq!(local_completions_for("adjust tags=new ta"), ["adjust tags=new tags="]);
        assert_eq!(local_completions_for("add a="), [""; 0]);
    }

    #[test]
    fn prompt_and_template_arguments_are_queried() {
        assert_eq!(local_completions_for("prompt r"), ["prompt review "]);
        assert_eq!(local_completions_for("prompt review l"), ["prompt review language="]);
        let (lines, asked) = completions_for("prompt review code='a b' language=r");
        assert_eq!(
            lines,
            ["prompt review code='a b' language=ruby ", "prompt review code='a b' language=rust "]
        );
        assert_eq!(
            asked,
            [
                r#"{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"language","value":"r"},"context":{"arguments":{"code":"a b"}}}"#
            ]
        );
        assert_eq!(local_completions_for("read demo:"), ["read demo://motto ", "read demo://cities/"]);
        assert_eq!(local_completions_for("listen "), ["listen demo://motto "]);
        let (lines, _) = completions_for("read demo://cities/");
        assert_eq!(lines, ["read demo://cities/Japan/", "read demo://cities/New%20Land/"]);
        let (lines, asked) = completions_for("read demo://cities/New%20Land/K");
        assert_eq!(lines, ["read demo://cities/New%20Land/Kyoto "]);
        assert!(asked[0].contains(r#""context":{"arguments":{"country":"New Land"}}"#), "{asked:?}");
    }

    #[test]
    fn arguments_of_complete_are_completed() {
        assert_eq!(
            local_completions_for("complete "),
            ["complete review ", "complete demo://cities/{country}/{city} "]
        );
        assert_eq!(
            local_completions_for("complete review "),
            ["complete review code ", "complete review language "]
        );
        assert_eq!(local_completions_for("complete demo://cities/{country}/{city} ci").len(), 1);
        assert_eq!(completions_for("complete review language r").0.len(), 2);
        assert_eq!(
            local_completions_for("complete review language r "),
            ["complete review language r code="]
        );
    }
}
