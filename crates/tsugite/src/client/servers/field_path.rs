//! The path of a field in a servers file, for error messages.

use std::fmt;

/// A path into the file. It is formatted only when an error is reported.
#[derive(Clone, Copy)]
pub(super) enum FieldPath<'a> {
    Root(&'static str),
    Member(&'a FieldPath<'a>, &'a str),
    Item(&'a FieldPath<'a>, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Root(name) => f.write_str(name),
            FieldPath::Member(above, name) if is_plain(name) => write!(f, "{above}.{name}"),
            // Names come from the file and may contain dots, or escapes that a terminal would execute.
            FieldPath::Member(above, name) => write!(f, "{above}[{name:?}]"),
            FieldPath::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

#[test]
fn field_path_is_written_as_in_javascript() {
    let (list, top) = (FieldPath::Root("mcpServers"), FieldPath::Root("mcp"));
    let server = FieldPath::Member(&list, "git-hub_2");
    let args = FieldPath::Member(&server, "args");
    assert_eq!(FieldPath::Item(&args, 1).to_string(), "mcpServers.git-hub_2.args[1]");
    assert_eq!(FieldPath::Member(&top, "servers").to_string(), "mcp.servers");
    for (name, written) in
        [("", r#"mcp[""]"#), ("a.b", r#"mcp["a.b"]"#), ("a\u{1b}\"", r#"mcp["a\u{1b}\""]"#)]
    {
        assert_eq!(FieldPath::Member(&top, name).to_string(), written);
    }
}
