//! References to variables in the strings of an entry, in the syntax of each host.
//!
//! | host | the variable `A` | more |
//! |---|---|---|
//! | Claude Code | `${A}` | `${A:-default}` |
//! | Cursor, VS Code | `${env:A}` | `${workspaceFolder}` and the like; in VS Code `${input:id}` |
//! | Claude Desktop | none | |
//! | tsugite | all of these | |

use crate::targets::hosts::OWN_HOST;

/// A reference, `${…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    Variable {
        name: &'a str,
        default: Option<&'a str>,
    },
    /// A value that VS Code prompts for.
    Input(&'a str),
    /// A variable of the editor.
    EditorVariable(&'a str),
}

/// Translates the references in a text to the syntax of `host`. Fails on a reference that the host does not support.
pub(crate) fn translate(text: &str, host: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    for (written, reference) in split_references(text) {
        match reference {
            None => out.push_str(written),
            Some(reference) => out.push_str(&write_reference(reference, written, host)?),
        }
    }
    Ok(out)
}

/// Returns a reference to an environment variable in the syntax of `host`.
pub(crate) fn env_reference(name: &str, host: &str) -> Result<String, String> {
    write_reference(Reference::Variable { name, default: None }, &format!("${{{name}}}"), host)
}

fn write_reference(reference: Reference<'_>, written: &str, host: &str) -> Result<String, String> {
    let unsupported = || Err(format!("{host} does not support `{written}`"));
    match (host, reference) {
        (OWN_HOST, _) => Ok(written.to_owned()),
        ("claude-code", Reference::Variable { name, default: None }) => Ok(format!("${{{name}}}")),
        ("claude-code", Reference::Variable { .. }) => Ok(written.to_owned()),
        ("claude-code", Reference::EditorVariable("userHome")) => Ok("${HOME}".to_owned()),
        ("cursor" | "vscode", Reference::Variable { name, default: None }) => Ok(format!("${{env:{name}}}")),
        ("cursor" | "vscode", Reference::EditorVariable(_)) | ("vscode", Reference::Input(_)) => {
            Ok(written.to_owned())
        }
        _ => unsupported(),
    }
}

/// Whether `host` supports a reference in the way it is written.
pub(crate) fn is_supported(reference: Reference<'_>, written_with_env: bool, host: &str) -> bool {
    match (host, reference) {
        (OWN_HOST, _) => true,
        ("claude-code", Reference::Variable { .. }) => !written_with_env,
        ("cursor" | "vscode", Reference::Variable { default, .. }) => written_with_env && default.is_none(),
        ("cursor" | "vscode", Reference::EditorVariable(_)) | ("vscode", Reference::Input(_)) => true,
        _ => false,
    }
}

/// Splits a text into plain parts and references. Other uses of `${`, such as those of a shell, are plain text.
pub(crate) fn split_references(text: &str) -> Vec<(&str, Option<Reference<'_>>)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, reference) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let Some(end) = reference.find('}') else { break };
        let (written, behind) = reference.split_at_checked(end + 1).unwrap_or((reference, ""));
        let inside = written.get(2..end).unwrap_or_default();
        parts.push((before, None));
        parts.push((written, parse_reference(inside)));
        rest = behind;
    }
    parts.push((rest, None));
    parts.retain(|(written, _)| !written.is_empty());
    parts
}

fn parse_reference(inside: &str) -> Option<Reference<'_>> {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter))
    };
    if let Some((name, default)) = inside.split_once(":-") {
        return is_name(name).then_some(Reference::Variable { name, default: Some(default) });
    }
    match inside.split_once(':') {
        Some(("env", name)) if is_name(name) => Some(Reference::Variable { name, default: None }),
        Some(("input", id)) if !id.is_empty() => Some(Reference::Input(id)),
        Some(_) => None,
        None if EDITOR_VARIABLES.contains(&inside) => Some(Reference::EditorVariable(inside)),
        None => is_name(inside).then_some(Reference::Variable { name: inside, default: None }),
    }
}

/// The editor variables of Cursor and VS Code.
const EDITOR_VARIABLES: [&str; 5] =
    ["workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_translated_for_each_host() {
        let cases = [
            ("Bearer ${A}!", "claude-code", Ok("Bearer ${A}!")),
            ("Bearer ${A}!", "cursor", Ok("Bearer ${env:A}!")),
            ("${env:A}${env:B}", "claude-code", Ok("${A}${B}")),
            ("${env:A}", "vscode", Ok("${env:A}")),
            ("${A:-b}", "claude-code", Ok("${A:-b}")),
            ("${A:-b}", "vscode", Err("vscode does not support `${A:-b}`")),
            ("${input:key}", "vscode", Ok("${input:key}")),
            ("${input:key}", "cursor", Err("cursor does not support `${input:key}`")),
            ("${userHome}/x", "claude-code", Ok("${HOME}/x")),
            ("${workspaceFolder}", "claude-code", Err("claude-code does not support `${workspaceFolder}`")),
            ("${A}", "claude-desktop", Err("claude-desktop does not support `${A}`")),
            ("plain $A {A}", "claude-desktop", Ok("plain $A {A}")),
            // References for a shell are kept.
            ("${A%.*} ${", "claude-desktop", Ok("${A%.*} ${")),
            ("${input:x} ${env:A:-b}", "tsugite", Ok("${input:x} ${env:A:-b}")),
        ];
        for (text, host, expected) in cases {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(translate(text, host), expected, "{text} for {host}");
        }
        assert_eq!(env_reference("A", "vscode"), Ok("${env:A}".to_owned()));
        assert_eq!(env_reference("A", "tsugite"), Ok("${A}".to_owned()));
        assert!(env_reference("A", "claude-desktop").is_err());
    }
}
