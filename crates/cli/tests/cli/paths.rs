//! Paths in the output of the binary, written as on Unix.

use std::sync::LazyLock;

use crate::support::TSUGITE;

/// The path of the binary as it prints it itself.
pub(crate) fn tsugite_path() -> &'static str {
    // A binary of another system that built it has no letter of a drive in its path.
    static PATH: LazyLock<String> =
        LazyLock::new(|| std::path::absolute(TSUGITE).unwrap().into_os_string().into_string().unwrap());
    &PATH
}

/// Replaces a path by a name, in text, in JSON and in URLs, and writes `/` between the names that follow it.
pub(crate) fn with_name(text: &str, path: &str, name: &str) -> String {
    // On Unix a path looks the same everywhere.
    if !path.contains('\\') {
        return text.replace(path, name);
    }
    let url = format!("/{}", path.replace('\\', "/"));
    let text = text.replace(&url, name);
    // In text, in JSON, and in JSON that is a text in JSON.
    let separators = [r"\\\\", r"\\", r"\"];
    separators
        .iter()
        .fold(text, |text, separator| with_separator(&text, &path.replace('\\', separator), name, separator))
}

/// Replaces a path, and the separators in the names that follow it.
fn with_separator(text: &str, path: &str, name: &str, separator: &str) -> String {
    let mut parts = text.split(path);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (names, rest) = part.split_at(part.find(ends_path).unwrap_or(part.len()));
        all.extend([name, &names.replace(separator, "/"), rest]);
    }
    all
}

fn ends_path(letter: char) -> bool {
    letter.is_whitespace() || "\"'`,;:()".contains(letter)
}

#[test]
fn path_of_windows_is_replaced_in_every_spelling() {
    for (text, expected) in [
        (r"read C:\srv\shop\.mcp.json, line 3\n", r"read ~/shop/.mcp.json, line 3\n"),
        (
            r#"{"path":"C:\\srv\\shop\\mcp.json","diff":"-a\n"}"#,
            r#"{"path":"~/shop/mcp.json","diff":"-a\n"}"#,
        ),
        (r#"{"diff":"-{\"a\": \"C:\\\\srv\\\\x\"}\n"}"#, r#"{"diff":"-{\"a\": \"~/x\"}\n"}"#),
        (r#"["file:///C:/srv/shop"]"#, r#"["file://~/shop"]"#),
        (r"C:\srv", "~"),
    ] {
        assert_eq!(with_name(text, r"C:\srv", "~"), expected);
    }
    assert_eq!(with_name(r"in /srv/x\y", "/srv", "~"), r"in ~/x\y");
}
