//! An entry of a file in the current folder, as the user sees it before it is used.

use std::path::PathBuf;

use ring::digest::{Context, SHA256};
use serde_json::Value;
use tsugite::client::servers::ConnectionConfig;

use super::{consents, real_path, warnings};
use crate::console::sanitize_name;
use crate::edit::Node;
use crate::environment::HOME_VARIABLES;
use crate::error::{CliError, Result};
use crate::readable_path::is_plain;
use crate::targets::config_files::{self, ConfigFile};
use crate::targets::lookup::{self, FoundServer};
use crate::targets::references::{Reference, split_references};

/// An entry with its variables unexpanded.
pub(crate) struct FolderEntry {
    pub(crate) file: PathBuf,
    pub(crate) name: String,
    /// The digest of everything that decides what the entry does, apart from the values of variables.
    id: String,
    /// The command or the URL with all that belongs to it: labels and lines, sanitized.
    pub(crate) rows: Vec<(&'static str, String)>,
    /// The variables that it reads.
    pub(crate) variables: Vec<String>,
    pub(crate) warnings: Vec<String>,
    is_command: bool,
}

impl FolderEntry {
    /// Reads an entry. Fails if it is invalid or gone.
    pub(crate) fn read(found: &FoundServer) -> Result<Self> {
        let FoundServer { name, location } = found;
        let listed = lookup::read_unexpanded(found)?;
        let opened = config_files::open(location).map_err(|wrong| wrong.to_cli_error(location))?;
        let gone =
            || CliError::usage(format!("{} no longer has `{name}`", location.describe())).at_step("name");
        let opened = opened.ok_or_else(gone)?;
        let list = opened.list().ok_or_else(gone)?;
        let member = list.members().iter().find(|member| member.name == *name).ok_or_else(gone)?;
        let inputs = inputs(&opened);
        let env = match &listed {
            ConnectionConfig::Command { env, .. } => env.as_slice(),
            _ => &[],
        };
        let file = real_path(&location.path);
        let inputs_text = inputs.map(|inputs| opened.document.text_of(inputs)).unwrap_or_default();
        let mut parts: Vec<&[u8]> = vec![
            file.as_os_str().as_encoded_bytes(),
            name.as_bytes(),
            opened.document.text_of(&member.value).as_bytes(),
            inputs_text.as_bytes(),
        ];
        // Those of `envFile` are not in the entry.
        parts.extend(env.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]));
        let id = digest(&parts);
        let entry = member.value.value();
        let inputs = inputs.map(Node::value);
        let written = WrittenEntry { entry: &entry, inputs: inputs.as_ref(), env };
        let variables = written.variables();
        let is_command = matches!(listed, ConnectionConfig::Command { .. });
        let warnings = warnings::warnings(&written.words(), &written.env_names(), &variables, is_command);
        let rows = written.rows();
        Ok(Self { file, name: name.clone(), id, rows, variables, warnings, is_command })
    }

    /// Returns the digest.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn reads_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable == name)
            // `${userHome}` is the home folder unless it is set itself.
            || (HOME_VARIABLES.contains(&name) && self.variables.iter().any(|variable| variable == "userHome"))
    }

    /// Records that the user agrees to the entry.
    pub(crate) fn record(&self) -> Result<()> {
        consents::add(&self.id, &self.file, &self.name).map_err(|error| {
            CliError::usage("cannot store the consent")
                .at_step("trust")
                .detail(error.to_string())
                .hint("--trust-folder trusts all files of the folder, for this run")
        })
    }

    /// Whether the user has agreed to the entry.
    pub(crate) fn is_trusted(&self) -> bool {
        consents::contains(&self.id)
    }

    /// Describes the entry in full.
    pub(crate) fn describe(&self) -> String {
        let name = sanitize_name(&self.name);
        let mut text = format!("`{name}` in {}\n", sanitize_name(&self.file.to_string_lossy()));
        let mut row = |label: &str, line: &str| text.push_str(&format!("  {label:<9} {line}\n"));
        for (label, line) in &self.rows {
            row(label, line);
        }
        if !self.variables.is_empty() {
            let state = |name: &String| match std::env::var_os(name) {
                Some(_) => format!("{name} (set)"),
                None => format!("{name} (not set)"),
            };
            row("reads", &sanitize_name(&self.variables.iter().map(state).collect::<Vec<_>>().join(", ")));
        }
        for warning in &self.warnings {
            row("warning", warning);
        }
        text
    }

    /// The question whether to use the entry.
    pub(super) fn question(&self) -> String {
        let verb = if self.is_command { "Start it" } else { "Connect to it" };
        format!("{verb}, and trust this entry from now on?")
    }
}

/// An entry as it is written in its file.
struct WrittenEntry<'a> {
    entry: &'a Value,
    /// The values that VS Code would prompt for, which may have defaults.
    inputs: Option<&'a Value>,
    /// The variables that it sets, with those of `envFile`.
    env: &'a [(String, String)],
}

impl WrittenEntry<'_> {
    fn string(&self, name: &str) -> Option<&str> {
        self.entry.get(name).and_then(Value::as_str)
    }

    fn members(&self, name: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.entry.get(name).and_then(Value::as_object).into_iter().flatten()
    }

    /// The settings of a login.
    fn login_members(&self) -> impl Iterator<Item = (&String, &Value)> {
        ["oauth", "auth"].into_iter().flat_map(|name| self.members(name))
    }

    fn url(&self) -> Option<&str> {
        self.string("url").or_else(|| self.string("serverUrl"))
    }

    /// The program and its arguments.
    fn command(&self) -> Vec<&str> {
        let args = self.entry.get("args").and_then(Value::as_array).into_iter().flatten();
        self.string("command").into_iter().chain(args.filter_map(Value::as_str)).collect()
    }

    /// The defaults of the inputs that it refers to, by id.
    fn input_defaults(&self) -> Vec<(&str, &str)> {
        let inputs = self.inputs.and_then(Value::as_array).into_iter().flatten();
        let text = |input: &'_ Value, name: &str| input.get(name).and_then(Value::as_str).map(str::to_owned);
        let used = self.texts();
        inputs
            .filter(|input| {
                let reference = text(input, "id").map(|id| format!("${{input:{id}}}"));
                reference.is_some_and(|reference| used.iter().any(|used| used.contains(&reference)))
            })
            .filter_map(|input| Some((input.get("id")?.as_str()?, input.get("default")?.as_str()?)))
            .collect()
    }

    /// All strings in which variables are expanded.
    fn texts(&self) -> Vec<&str> {
        let values = ["env", "headers"].into_iter().flat_map(|name| self.members(name));
        let mut texts = self.command();
        texts.extend(["cwd", "envFile", "url", "serverUrl"].into_iter().filter_map(|name| self.string(name)));
        texts.extend(values.filter_map(|(_, value)| value.as_str()));
        for (_, value) in self.login_members() {
            let items = value.as_array().into_iter().flatten();
            texts.extend(value.as_str().into_iter().chain(items.filter_map(Value::as_str)));
        }
        texts
    }

    /// All that a warning could be about: the command, the URL, and the defaults that may take their place.
    fn words(&self) -> Vec<&str> {
        let defaults = self.input_defaults().into_iter().map(|(_, default)| default);
        self.command()
            .into_iter()
            .chain(self.url())
            .chain(["cwd", "envFile"].into_iter().filter_map(|name| self.string(name)))
            .chain(self.members("env").filter_map(|(_, value)| value.as_str()))
            .chain(defaults)
            .collect()
    }

    fn env_names(&self) -> Vec<&str> {
        self.env.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The variables of the environment that it reads, each once.
    fn variables(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (_, reference) in self.texts().into_iter().flat_map(split_references) {
            let name = match reference {
                Some(Reference::Variable { name, .. }) => name.to_owned(),
                Some(Reference::Input(id)) => input_variable(id),
                Some(Reference::EditorVariable("userHome")) => "userHome".to_owned(),
                Some(Reference::EditorVariable("workspaceFolder" | "workspaceFolderBasename")) => {
                    "workspaceFolder".to_owned()
                }
                Some(Reference::EditorVariable(_)) | None => continue,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        let command: Vec<String> = self.command().into_iter().map(quoted).collect();
        if !command.is_empty() {
            rows.push(("command", command.join(" ")));
        }
        rows.extend(self.url().map(|url| ("url", sanitize_name(url))));
        for (name, value) in self.members("env") {
            rows.push((
                "env",
                match value {
                    Value::Null => format!("{} is removed", sanitize_name(name)),
                    Value::String(value) => format!("{}={}", sanitize_name(name), quoted(value)),
                    other => format!("{}={other}", sanitize_name(name)),
                },
            ));
        }
        if let Some(path) = self.string("envFile") {
            let own: Vec<&String> = self.members("env").map(|(name, _)| name).collect();
            let names: Vec<&str> =
                self.env_names().into_iter().filter(|name| own.iter().all(|own| own != name)).collect();
            rows.push(("env file", format!("{}: sets {}", quoted(path), sanitize_name(&names.join(", ")))));
        }
        rows.extend(self.string("cwd").map(|folder| ("folder", quoted(folder))));
        let headers: Vec<&str> = self.members("headers").map(|(name, _)| name.as_str()).collect();
        if !headers.is_empty() {
            rows.push(("headers", sanitize_name(&headers.join(", "))));
        }
        let login: Vec<&str> = self.login_members().map(|(name, _)| name.as_str()).collect();
        if !login.is_empty() {
            rows.push(("login", sanitize_name(&login.join(", "))));
        }
        for (id, default) in self.input_defaults() {
            rows.push(("input", format!("{} is {} by default", sanitize_name(id), quoted(default))));
        }
        rows
    }
}

/// Returns the `inputs` beside the list of servers.
fn inputs(opened: &ConfigFile) -> Option<&Node> {
    let mut path = opened.list_names();
    path.pop();
    path.push("inputs");
    opened.document.find(&path).ok().flatten()
}

/// The variable of an input, as the library names it.
fn input_variable(id: &str) -> String {
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_uppercase() } else { '_' };
    "MCP_INPUT_".chars().chain(id.chars().map(letter)).collect()
}

/// Returns the hexadecimal SHA-256 of parts, each with its length so that none can pass for two.
fn digest(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in [&b"tsugite trust 1"[..]].iter().chain(parts) {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Quotes a word that contains spaces or quotes, and escapes what a terminal would not show.
fn quoted(word: &str) -> String {
    match !word.is_empty() && word.chars().all(is_plain) {
        true => sanitize_name(word),
        false => sanitize_name(&format!("{word:?}")),
    }
}

/// Quotes a word for a shell, so that a hint can be pasted.
pub(crate) fn shell_word(word: &str) -> String {
    let word = sanitize_name(word);
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_each_part() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(digest(&[b"a"]), digest(&[b"a", b""]));
        assert_eq!(digest(&[b"a"]).len(), 64);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(shell_word(".mcp.json:a-b_c"), ".mcp.json:a-b_c");
        assert_eq!(shell_word("a b'c$(d)"), r"'a b'\''c$(d)'");
        assert_eq!(shell_word(""), "''");
    }
}
