//! What could be typed next: names, arguments and values, from what the server offers and from what it says when asked.

use serde_json::Value;
use tsugite::core::protocol::OrderedMap;
use tsugite::core::protocol::completion::{Argument, CompleteParams, CompletionContext, Reference};

use super::uris::{self, Way};
use super::words::{self, Typed};
use crate::offered::Offered;
use crate::schema;
use crate::screen::clean;

/// Something that could stand where somebody types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// What is shown of it.
    pub(super) shown: String,
    /// What the line holds if it is taken.
    pub(super) word: String,
}

/// A command of the shell, as far as it can be completed.
pub(super) struct Known {
    pub(super) name: String,
    pub(super) options: Vec<String>,
}

/// What is known for completing.
pub(super) struct Knowledge<'a> {
    pub(super) commands: &'a [Known],
    pub(super) offered: &'a Offered,
    /// Asks the server what could stand in an argument.
    pub(super) ask: &'a dyn Fn(CompleteParams) -> Vec<String>,
}

impl Knowledge<'_> {
    /// What could stand at the end of `line`, and where that begins.
    pub(super) fn candidates(&self, line: &str) -> (usize, Vec<Candidate>) {
        let Some(Typed { before, last, start }) = words::typed(line) else { return (line.len(), Vec::new()) };
        let found = match before.split_first() {
            None => self.first(&last),
            Some((command, rest)) => self.later(command, rest, &last),
        };
        (start, found)
    }

    fn first(&self, begun: &str) -> Vec<Candidate> {
        let commands = self.commands.iter().map(|command| command.name.as_str());
        let tools = self.offered.tools.iter().map(|tool| tool.name.as_str());
        let tools = tools.filter(|name| self.commands.iter().all(|command| command.name != *name));
        whole(commands.chain(tools), begun)
    }

    fn later(&self, command: &str, rest: &[String], begun: &str) -> Vec<Candidate> {
        let Some(known) = self.commands.iter().find(|known| known.name == command) else {
            return self.arguments_of_tool(command, rest, begun);
        };
        if begun.starts_with('-') {
            return whole(known.options.iter().map(String::as_str), begun);
        }
        let offered = self.offered;
        let rest: Vec<String> = rest.iter().filter(|word| !word.starts_with('-')).cloned().collect();
        match (command, rest.as_slice()) {
            ("call", []) => whole(offered.tools.iter().map(|tool| tool.name.as_str()), begun),
            ("call", [tool, given @ ..]) => self.arguments_of_tool(tool, given, begun),
            ("prompt", []) => whole(offered.prompts.iter().map(|prompt| prompt.name.as_str()), begun),
            ("prompt", [prompt, given @ ..]) => self.arguments_of_prompt(prompt, given, begun),
            ("read", []) => self.uris(begun, true),
            ("listen", _) => self.uris(begun, false),
            ("complete", given) => self.completion(given, begun),
            ("help", []) => whole(self.commands.iter().map(|command| command.name.as_str()), begun),
            _ => Vec::new(),
        }
    }

    fn arguments_of_tool(&self, tool: &str, given: &[String], begun: &str) -> Vec<Candidate> {
        let Some(tool) = self.offered.tools.iter().find(|offered| offered.name == tool) else {
            return Vec::new();
        };
        let root = Value::Object(tool.input_schema.keywords().clone());
        let is_list = |asked: &Value| schema::types(asked, &root).iter().any(|kind| kind == "array");
        let Some((name, value)) = begun.split_once('=') else {
            let free = schema::names(&root).filter(|name| {
                // A list may be given piece by piece.
                !is_given(name, given) || schema::property(&root, name).is_some_and(|asked| is_list(&asked))
            });
            return begun_arguments(free, begun);
        };
        let Some(asked) = schema::property(&root, name) else { return Vec::new() };
        let asked = match is_list(&asked) {
            true => schema::items(&asked, &root).unwrap_or_default(),
            false => asked,
        };
        let values: Vec<String> = match schema::allowed(&asked, &root) {
            Some(allowed) => allowed.iter().map(in_words).collect(),
            None if schema::types(&asked, &root).iter().any(|kind| kind == "boolean") => {
                vec!["true".to_owned(), "false".to_owned()]
            }
            None => Vec::new(),
        };
        self::values(name, values.iter().map(String::as_str).filter(|known| known.starts_with(value)))
    }

    fn arguments_of_prompt(&self, prompt: &str, given: &[String], begun: &str) -> Vec<Candidate> {
        let Some(prompt) = self.offered.prompts.iter().find(|offered| offered.name == prompt) else {
            return Vec::new();
        };
        let names = || prompt.arguments.iter().flatten().map(|argument| argument.name.as_str());
        match begun.split_once('=') {
            None => begun_arguments(names().filter(|name| !is_given(name, given)), begun),
            Some((name, value)) if names().any(|known| known == name) => {
                let reference = Reference::prompt(&prompt.name);
                let said = self.asked(reference, name, value, pairs(given, name));
                values(name, said.iter().map(String::as_str))
            }
            Some(_) => Vec::new(),
        }
    }

    /// Resources, and with `templates` how their URIs go on.
    fn uris(&self, begun: &str, templates: bool) -> Vec<Candidate> {
        let offered = self.offered;
        let mut found = whole(offered.resources.iter().map(|resource| resource.uri.as_str()), begun);
        if !templates {
            return found;
        }
        for template in &offered.resource_templates {
            match uris::follow(&template.uri_template, begun) {
                None => {}
                Some(Way::Given(uri, is_whole)) => {
                    found.extend(candidate(&template.uri_template, &uri, is_whole));
                }
                Some(Way::Variable(variable)) => {
                    let reference = Reference::resource(&template.uri_template);
                    let said = self.asked(reference, variable.name, &variable.begun, variable.known.clone());
                    found.extend(said.iter().filter_map(|value| {
                        let (uri, is_whole) = variable.with(value);
                        candidate(value, &uri, is_whole)
                    }));
                }
            }
        }
        found
    }

    /// `complete PROMPT|TEMPLATE ARGUMENT BEGINNING k=v`.
    fn completion(&self, given: &[String], begun: &str) -> Vec<Candidate> {
        let offered = self.offered;
        let [about, rest @ ..] = given else {
            let prompts = offered.prompts.iter().map(|prompt| prompt.name.as_str());
            let templates = offered.resource_templates.iter().map(|template| template.uri_template.as_str());
            return whole(prompts.chain(templates), begun);
        };
        let prompt = offered.prompts.iter().find(|prompt| prompt.name == *about);
        let names: Vec<&str> = match prompt {
            Some(prompt) => {
                prompt.arguments.iter().flatten().map(|argument| argument.name.as_str()).collect()
            }
            None => uris::variables(about).collect(),
        };
        match rest {
            [] => whole(names.into_iter(), begun),
            [name] => {
                let reference = match prompt {
                    Some(prompt) => Reference::prompt(&prompt.name),
                    None => Reference::resource(about),
                };
                let said = self.asked(reference, name, begun, OrderedMap::new());
                said.iter().filter_map(|value| candidate(value, value, true)).collect()
            }
            [name, _, more @ ..] => {
                let others = names.into_iter().filter(|other| other != name && !is_given(other, more));
                begun_arguments(others, begun)
            }
        }
    }

    fn asked(&self, reference: Reference, name: &str, begun: &str, known: OrderedMap<String>) -> Vec<String> {
        let mut params = CompleteParams::new(reference, Argument::new(name, begun));
        if !known.is_empty() {
            params = params.context(CompletionContext::new().arguments(known));
        }
        let mut said = (self.ask)(params);
        said.truncate(MOST);
        said
    }
}

/// Whole words that begin like this.
fn whole<'a>(words: impl Iterator<Item = &'a str>, begun: &str) -> Vec<Candidate> {
    words.filter(|word| word.starts_with(begun)).filter_map(|word| candidate(word, word, true)).collect()
}

/// Arguments whose values are still to come.
fn begun_arguments<'a>(names: impl Iterator<Item = &'a str>, begun: &str) -> Vec<Candidate> {
    let fitting = names.filter(|name| name.starts_with(begun));
    fitting.map(|name| format!("{name}=")).filter_map(|word| candidate(&word, &word, false)).collect()
}

/// An argument with each of these values.
fn values<'a>(name: &str, values: impl Iterator<Item = &'a str>) -> Vec<Candidate> {
    values.filter_map(|value| candidate(value, &format!("{name}={value}"), true)).collect()
}

/// `None` for what could not be typed: a server may say anything.
fn candidate(shown: &str, word: &str, is_whole: bool) -> Option<Candidate> {
    let harmless = |text: &str| clean(text) == text && !text.contains(['\n', '\t']);
    if !harmless(shown) || !harmless(word) || word.len() > LONGEST {
        return None;
    }
    let end = if is_whole { " " } else { "" };
    Some(Candidate { shown: shown.to_owned(), word: format!("{}{end}", words::quoted(word)) })
}

fn is_given(name: &str, given: &[String]) -> bool {
    given.iter().filter_map(|word| word.split_once('=')).any(|(given, _)| given.trim_end_matches(':') == name)
}

/// What is filled in already, beside `name`.
fn pairs(given: &[String], name: &str) -> OrderedMap<String> {
    let pairs = given.iter().filter_map(|word| word.split_once('='));
    pairs
        .filter(|(given, _)| *given != name)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Values of a server that are looked at, and bytes of one word.
const MOST: usize = 200;
const LONGEST: usize = 1_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offered() -> Offered {
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
        Offered {
            tools: read(tools),
            resources: read(json!([{"name": "motto", "uri": "demo://motto"}])),
            resource_templates: read(templates),
            prompts: read(prompts),
        }
    }

    /// What a line could become, and what was asked for it.
    fn becomes(line: &str) -> (Vec<String>, Vec<String>) {
        let commands: Vec<Known> = ["list", "listen", "call", "read", "prompt", "complete", "help"]
            .iter()
            .map(|name| Known {
                name: (*name).to_owned(),
                options: vec!["--json".to_owned(), "--help".to_owned()],
            })
            .collect();
        let offered = offered();
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
        let knowledge = Knowledge { commands: &commands, offered: &offered, ask: &ask };
        let (start, found) = knowledge.candidates(line);
        let lines =
            found.into_iter().map(|candidate| format!("{}{}", &line[..start], candidate.word)).collect();
        (lines, asked.into_inner())
    }

    fn silently(line: &str) -> Vec<String> {
        let (lines, asked) = becomes(line);
        assert!(asked.is_empty(), "{line}: {asked:?}");
        lines
    }

    #[test]
    fn commands_and_tools_stand_first() {
        assert_eq!(silently("lis"), ["list ", "listen "]);
        assert_eq!(silently("ad"), ["add ", "adjust "]);
        assert_eq!(silently("call ad"), ["call add ", "call adjust "]);
        assert_eq!(silently("call li"), ["call list "]);
        // What a terminal would obey is not offered.
        assert_eq!(silently("bad"), [""; 0]);
        assert_eq!(silently("help re"), ["help read "]);
        assert_eq!(silently("call --j"), ["call --json "]);
        assert_eq!(silently("# li"), [""; 0]);
        assert_eq!(silently("nothing x"), [""; 0]);
    }

    #[test]
    fn arguments_of_tools_come_from_their_schema() {
        assert_eq!(silently("add "), ["add a=", "add b="]);
        assert_eq!(silently("call add a=1 "), ["call add a=1 b="]);
        assert_eq!(silently("call --json add a:=1 "), ["call --json add a:=1 b="]);
        assert_eq!(silently("adjust size=sm"), ["adjust size=small ", "adjust size=smaller "]);
        assert_eq!(silently("adjust size=3"), ["adjust size=3 "]);
        assert_eq!(silently("adjust sure="), ["adjust sure=true ", "adjust sure=false "]);
        assert_eq!(silently("adjust tags=o"), ["adjust tags=old\\ wood "]);
        assert_eq!(silently("adjust 'tags=old w"), ["adjust tags=old\\ wood "]);
        assert_eq!(silently("adjust tags=new ta"), ["adjust tags=new tags="]);
        assert_eq!(silently("add a="), [""; 0]);
    }

    #[test]
    fn arguments_of_prompts_and_templates_are_asked_for() {
        assert_eq!(silently("prompt r"), ["prompt review "]);
        assert_eq!(silently("prompt review l"), ["prompt review language="]);
        let (lines, asked) = becomes("prompt review code='a b' language=r");
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
        assert_eq!(silently("read demo:"), ["read demo://motto ", "read demo://cities/"]);
        assert_eq!(silently("listen "), ["listen demo://motto "]);
        let (lines, _) = becomes("read demo://cities/");
        assert_eq!(lines, ["read demo://cities/Japan/", "read demo://cities/New%20Land/"]);
        let (lines, asked) = becomes("read demo://cities/New%20Land/K");
        assert_eq!(lines, ["read demo://cities/New%20Land/Kyoto "]);
        assert!(asked[0].contains(r#""context":{"arguments":{"country":"New Land"}}"#), "{asked:?}");
    }

    #[test]
    fn completion_itself_is_completed() {
        assert_eq!(silently("complete "), ["complete review ", "complete demo://cities/{country}/{city} "]);
        assert_eq!(silently("complete review "), ["complete review code ", "complete review language "]);
        assert_eq!(silently("complete demo://cities/{country}/{city} ci").len(), 1);
        assert_eq!(becomes("complete review language r").0.len(), 2);
        assert_eq!(silently("complete review language r "), ["complete review language r code="]);
    }
}
