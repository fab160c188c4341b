//! Resolves variables in the strings of an entry.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{MAIN_SEPARATOR_STR, Path};

use super::home::HOME_VARIABLES;
use super::jsonc::Node;
use super::servers_file_error::EntryFieldError;
use super::text_file;

/// The sources of variable values.
pub(super) struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    workspace: Option<&'a Path>,
    /// The defaults of inputs, by id.
    input_defaults: HashMap<&'a str, &'a str>,
    /// How many bytes values may still add, so that a small file cannot expand without limit.
    remaining_bytes: Cell<usize>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(
        lookup: &'a dyn Fn(&str) -> Option<String>,
        workspace: Option<&'a Path>,
        inputs: Option<&'a Node>,
    ) -> Self {
        Self {
            lookup,
            workspace,
            input_defaults: inputs.map(input_defaults).unwrap_or_default(),
            remaining_bytes: Cell::new(text_file::MAX_FILE_BYTES),
        }
    }

    /// Replaces each variable by its value. Values are not expanded again.
    pub(super) fn resolve(&self, text: &str) -> Result<String, EntryFieldError> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, behind) = after.split_once('}').ok_or(EntryFieldError::UnclosedVariable)?;
            if let Some((outer, _)) = inside.split_once("${") {
                return Err(if outer.contains(":-") {
                    EntryFieldError::NestedVariable
                } else {
                    EntryFieldError::UnclosedVariable
                });
            }
            let value = self.value(inside)?;
            self.remaining_bytes.set(
                self.remaining_bytes
                    .get()
                    .checked_sub(value.len())
                    .ok_or(EntryFieldError::VariablesTooLong)?,
            );
            out.push_str(before);
            out.push_str(&value);
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn value(&self, inside: &str) -> Result<String, EntryFieldError> {
        if let Some((name, default)) = inside.split_once(":-") {
            return Ok(self.lookup_variable(check_name(name)?).unwrap_or_else(|| default.to_owned()));
        }
        match inside.split_once(':') {
            None => self.lookup_variable(check_name(inside)?).ok_or_else(|| unset_error(inside)),
            Some(("env", name)) => (self.lookup)(check_name(name)?).ok_or_else(|| unset_error(name)),
            Some(("input", id)) => self.input_value(id),
            Some((kind, _)) => Err(EntryFieldError::UnknownVariableKind(check_name(kind)?.to_owned())),
        }
    }

    /// Resolves a host variable or an environment variable.
    fn lookup_variable(&self, name: &str) -> Option<String> {
        match name {
            "/" | "pathSeparator" => Some(MAIN_SEPARATOR_STR.to_owned()),
            "userHome" => {
                (self.lookup)(name).or_else(|| HOME_VARIABLES.iter().find_map(|home| (self.lookup)(home)))
            }
            "workspaceFolder" => self.workspace(),
            "workspaceFolderBasename" => {
                Some(Path::new(&self.workspace()?).file_name()?.to_str()?.to_owned())
            }
            _ => (self.lookup)(name),
        }
    }

    fn workspace(&self) -> Option<String> {
        (self.lookup)("workspaceFolder").or_else(|| Some(self.workspace?.to_str()?.to_owned()))
    }

    /// Resolves an input that VS Code would prompt for.
    fn input_value(&self, id: &str) -> Result<String, EntryFieldError> {
        if id.is_empty() {
            return Err(EntryFieldError::InvalidVariableName);
        }
        let letter =
            |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
        let variable: String = "MCP_INPUT_".chars().chain(id.chars().map(letter)).collect();
        let value = (self.lookup)(&variable)
            .or_else(|| self.input_defaults.get(id).map(|default| (*default).to_owned()));
        value.ok_or_else(|| EntryFieldError::UnsetVariable { variable, input: Some(id.to_owned()) })
    }
}

/// `inputs` of another shape have no defaults; the rest is irrelevant here.
fn input_defaults(inputs: &Node) -> HashMap<&str, &str> {
    let Node::Array(inputs) = inputs else { return HashMap::new() };
    inputs
        .iter()
        .filter_map(|input| Some((string_member(input, "id")?, string_member(input, "default")?)))
        .collect()
}

fn string_member<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    let Node::Object(members) = node else { return None };
    members.iter().find_map(|(member, node)| match node {
        Node::String(string) if member == name => Some(string.as_str()),
        _ => None,
    })
}

/// A valid variable name. Other shell syntax in braces is not a variable.
fn check_name(name: &str) -> Result<&str, EntryFieldError> {
    let plain = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    if name == "/" || (!name.is_empty() && name.chars().all(plain)) {
        Ok(name)
    } else {
        Err(EntryFieldError::InvalidVariableName)
    }
}

fn unset_error(variable: &str) -> EntryFieldError {
    EntryFieldError::UnsetVariable { variable: variable.to_owned(), input: None }
}

#[cfg(test)]
mod tests {
    use std::path::MAIN_SEPARATOR_STR;

    use super::super::jsonc;
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        let value = match name {
            "TOKEN" => "secret",
            "EMPTY" => "",
            "HOME" => "/Users/ann",
            "LOOP" => "${LOOP}",
            "with-dash.and_dot" => "odd",
            "MCP_INPUT_API_KEY_2" => "answered",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn resolve(text: &str) -> Result<String, EntryFieldError> {
        Variables::new(&lookup, Some(Path::new("/srv/shop")), None).resolve(text)
    }

    #[test]
    fn variable_is_replaced_anywhere_in_the_text() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("${TOKEN}", "secret"),
            ("Bearer ${TOKEN}, ${env:TOKEN}!", "Bearer secret, secret!"),
            ("${TOKEN}${TOKEN}", "secretsecret"),
            ("${EMPTY}", ""),
            ("${with-dash.and_dot}", "odd"),
            ("継${TOKEN}手", "継secret手"),
        ];
        for (text, expected) in cases {
            assert_eq!(resolve(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn default_applies_to_an_unset_variable() {
        let cases = [
            ("${NONE:-a}", "a"),
            ("${TOKEN:-a}", "secret"),
            ("${EMPTY:-a}", ""),
            ("${NONE:-}", ""),
            ("${NONE:-https://example.com:8080/-:-x}/mcp", "https://example.com:8080/-:-x/mcp"),
            ("${NONE:--1}", "-1"),
            ("${userHome:-a}", "/Users/ann"),
        ];
        for (text, expected) in cases {
            assert_eq!(resolve(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn predefined_variables_are_resolved() {
        let separated = ["a", "b", "c"].join(MAIN_SEPARATOR_STR);
        let cases = [
            ("${workspaceFolder}/a", "/srv/shop/a"),
            ("${workspaceFolderBasename}", "shop"),
            ("${userHome}", "/Users/ann"),
            ("a${pathSeparator}b${/}c", &separated),
        ];
        for (text, expected) in cases {
            assert_eq!(resolve(text).unwrap(), expected, "{text}");
        }
        // The lookup function takes precedence over the predefined values.
        let own = |name: &str| match name {
            "workspaceFolder" => Some("/own/place".to_owned()),
            "userHome" => Some("/own".to_owned()),
            other => lookup(other),
        };
        let own = Variables::new(&own, Some(Path::new("/srv/shop")), None);
        let text = "${workspaceFolder} ${workspaceFolderBasename} ${userHome}";
        assert_eq!(own.resolve(text).unwrap(), "/own/place place /own");
        // The first variable of the platform that is set names the home folder.
        for home in HOME_VARIABLES {
            let one = |name: &str| (name == *home).then(|| "/Users/ann".to_owned());
            assert_eq!(Variables::new(&one, None, None).resolve("${userHome}").unwrap(), "/Users/ann");
        }
        let nowhere = Variables::new(&lookup, None, None);
        assert_eq!(nowhere.resolve("${workspaceFolder}"), Err(unset_error("workspaceFolder")));
        assert_eq!(
            nowhere.resolve("${workspaceFolderBasename}"),
            Err(unset_error("workspaceFolderBasename"))
        );
        assert_eq!(resolve("${env:workspaceFolder}"), Err(unset_error("workspaceFolder")));
    }

    #[test]
    fn unset_variable_is_named() {
        for text in ["a ${NONE}", "${env:NONE}", "${TOKEN} ${NONE}"] {
            assert_eq!(resolve(text), Err(unset_error("NONE")), "{text}");
        }
        assert_eq!(unset_error("NONE").to_string(), "the variable NONE is not set");
    }

    #[test]
    fn invalid_variable_is_refused() {
        let cases = [
            ("${", EntryFieldError::UnclosedVariable),
            ("${TOKEN", EntryFieldError::UnclosedVariable),
            ("${TOKEN} ${", EntryFieldError::UnclosedVariable),
            ("${TOKEN ${TOKEN}", EntryFieldError::UnclosedVariable),
            ("${NONE:-${TOKEN}}", EntryFieldError::NestedVariable),
            ("${}", EntryFieldError::InvalidVariableName),
            ("${:-a}", EntryFieldError::InvalidVariableName),
            ("${env:}", EntryFieldError::InvalidVariableName),
            ("${env:TOKEN:-a}", EntryFieldError::InvalidVariableName),
            ("${input:}", EntryFieldError::InvalidVariableName),
            ("${TO KEN}", EntryFieldError::InvalidVariableName),
            ("${TOKEN%.*}", EntryFieldError::InvalidVariableName),
            ("${#TOKEN}", EntryFieldError::InvalidVariableName),
            ("${T\u{1b}}", EntryFieldError::InvalidVariableName),
            ("${a b:c}", EntryFieldError::InvalidVariableName),
            ("${file:/srv/key}", EntryFieldError::UnknownVariableKind("file".to_owned())),
            ("${workspaceFolder:other}", EntryFieldError::UnknownVariableKind("workspaceFolder".to_owned())),
        ];
        for (text, wrong) in cases {
            assert_eq!(resolve(text), Err(wrong), "{text}");
        }
        assert_eq!(
            EntryFieldError::UnknownVariableKind("file".to_owned()).to_string(),
            "unknown kind of variable: `${file:…}`"
        );
    }

    #[test]
    fn variable_needs_braces() {
        for text in ["$TOKEN", "$", "$$", "{TOKEN}", "$ {TOKEN}", "}", "a}b", "%TOKEN%", "$(TOKEN)"] {
            assert_eq!(resolve(text).unwrap(), text);
        }
    }

    #[test]
    fn value_is_not_searched_for_variables() {
        assert_eq!(resolve("${LOOP}").unwrap(), "${LOOP}");
    }

    #[test]
    fn input_is_a_variable_or_its_default() {
        let inputs = r#"[
            5, {}, { "id": 5, "default": "no" }, { "default": "no" },
            { "type": "promptString", "id": "api-key.2", "default": "no" },
            { "type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu" },
            { "type": "promptString", "id": "port", "default": 80 },
            { "type": "promptString", "id": "key", "password": true },
        ]"#;
        let inputs = jsonc::parse(inputs).unwrap();
        let variables = Variables::new(&lookup, None, Some(&inputs));
        assert_eq!(variables.resolve("${input:api-key.2}").unwrap(), "answered");
        assert_eq!(variables.resolve("${input:region}").unwrap(), "eu");
        for (id, variable) in
            [("port", "MCP_INPUT_PORT"), ("key", "MCP_INPUT_KEY"), ("no é", "MCP_INPUT_NO__")]
        {
            let wrong = variables.resolve(&format!("${{input:{id}}}")).unwrap_err();
            assert_eq!(
                wrong,
                EntryFieldError::UnsetVariable { variable: variable.to_owned(), input: Some(id.to_owned()) }
            );
        }
        assert_eq!(
            variables.resolve("${input:key}").unwrap_err().to_string(),
            r#"the variable MCP_INPUT_KEY for the input "key" is not set"#
        );
        for inputs in ["{}", "null", "\"region\""] {
            let inputs = jsonc::parse(inputs).unwrap();
            assert!(Variables::new(&lookup, None, Some(&inputs)).resolve("${input:region}").is_err());
        }
    }

    #[test]
    fn total_size_of_values_is_limited() {
        let long = |_: &str| Some("a".repeat(text_file::MAX_FILE_BYTES / 2));
        let variables = Variables::new(&long, None, None);
        assert_eq!(variables.resolve("${A}").unwrap().len(), text_file::MAX_FILE_BYTES / 2);
        assert_eq!(variables.resolve("${A}").unwrap().len(), text_file::MAX_FILE_BYTES / 2);
        assert_eq!(variables.resolve("${A}"), Err(EntryFieldError::VariablesTooLong));
        assert_eq!(
            Variables::new(&long, None, None).resolve("${A}${A}${A}"),
            Err(EntryFieldError::VariablesTooLong)
        );
    }
}
