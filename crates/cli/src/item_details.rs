//! One tool, resource, template or prompt of a server in full, as text or as its definition.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::console::{Console, Style};
use crate::error::{CliError, Result};
use crate::schema_details::{field_lines, value_lines};
use crate::suggest::did_you_mean;

/// An item, and its definition as the server sent it.
pub(crate) struct ItemDetails {
    kind: &'static str,
    /// The signature, or the URI.
    summary: String,
    definition: Map<String, Value>,
}

/// Returns every item with this name or URI; several kinds of items may share a name. Fails if there is none.
pub(crate) fn find_items(catalog: &Catalog, wanted: &str) -> Result<Vec<ItemDetails>> {
    let [tools, resources, templates, prompts] = catalog.lists().map(|(_, entries)| entries);
    let definitions = [
        ("tool", tools, definitions(&catalog.tools)),
        ("resource", resources, definitions(&catalog.resources)),
        ("template", templates, definitions(&catalog.resource_templates)),
        ("prompt", prompts, definitions(&catalog.prompts)),
    ];
    let (mut found, mut names) = (Vec::new(), Vec::new());
    for (kind, entries, definitions) in definitions {
        for (entry, definition) in entries.into_iter().zip(definitions) {
            let uri = definition.get("uri").or(definition.get("uriTemplate")).and_then(Value::as_str);
            match entry.name == wanted || uri == Some(wanted) {
                true => found.push(ItemDetails { kind, summary: entry.summary, definition }),
                false => names.extend([entry.name.to_owned()].into_iter().chain(uri.map(str::to_owned))),
            }
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let failure = CliError::usage(format!("the server offers nothing named `{wanted}`")).at_step("list");
    Err(match did_you_mean(wanted, names.iter().map(String::as_str)) {
        Some(advice) => failure.hint(advice),
        None => failure.hint("`list` without a name shows what the server offers"),
    })
}

fn definitions<T: Serialize>(items: &[T]) -> Vec<Map<String, Value>> {
    let to_map = |item: &T| match serde_json::to_value(item) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    items.iter().map(to_map).collect()
}

impl ItemDetails {
    pub(crate) fn print(&self, console: &Console) -> Result<()> {
        if console.json {
            return console.print_json(&self.definition);
        }
        let mut text = format!(
            "{} {}\n",
            console.paint(Style::Bold, self.kind),
            console.paint(Style::Green, &console.sanitized_name(&self.summary))
        );
        for (title, lines) in self.sections() {
            let indent = match title {
                "" => "    ",
                title => {
                    text.push_str(&format!("{}\n", console.paint(Style::Bold, title)));
                    "  "
                }
            };
            for line in lines {
                text.push_str(format!("{indent}{}", console.sanitized(&line)).trim_end());
                text.push('\n');
            }
        }
        console.print(&text)
    }

    /// Returns the lines below the summary; the description has no title.
    fn sections(&self) -> Vec<(&str, Vec<String>)> {
        let texts = ["title", "description"].iter().filter_map(|key| self.definition.get(*key)?.as_str());
        let description = texts.flat_map(str::lines).map(str::to_owned).collect();
        let mut sections = vec![("", description)];
        for (name, value) in &self.definition {
            let section = match name.as_str() {
                // The summary and the description hold these.
                "name" | "title" | "description" | "uri" | "uriTemplate" | "mimeType" => continue,
                "inputSchema" => ("arguments", field_lines(value)),
                "outputSchema" => ("result", value_lines(value)),
                "arguments" => ("arguments", prompt_argument_lines(value)),
                other => (other, member_lines(value)),
            };
            sections.push(section);
        }
        sections.retain(|(_, lines)| !lines.is_empty());
        sections
    }
}

fn prompt_argument_lines(arguments: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for argument in arguments.as_array().into_iter().flatten() {
        let text = |key: &str| argument.get(key).and_then(Value::as_str);
        let mark = if argument.get("required") == Some(&Value::Bool(true)) { "" } else { "?" };
        lines.push(format!("{}{mark}", text("name").unwrap_or_default()));
        let about = ["title", "description"].into_iter().filter_map(text).flat_map(str::lines);
        lines.extend(about.map(|line| format!("    {line}")));
    }
    lines
}

/// Formats the members of an object, one on each line.
fn member_lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
        Value::Array(items) => items.iter().map(Value::to_string).collect(),
        other => vec![other.to_string()],
    }
}
