//! The start page: what runs here, and how to connect to it.
//!
//! One file of HTML with gaps, `{{like this}}`. Whatever comes from elsewhere is text in it and nothing else.

mod shared;

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use tsugite::revision::Revision;

use crate::catalog::Catalog;

pub(crate) use shared::SharedStartPage;

/// What the page tells.
pub(crate) struct StartPage {
    /// What hosts call all of it in their files: letters, digits and `-`.
    pub(crate) name: String,
    /// The servers behind the address.
    pub(crate) servers: Vec<PageServer>,
    /// What to call first: the words after `tsugite call URL`.
    pub(crate) example: Option<String>,
    /// Whether other machines can reach it.
    pub(crate) is_public: bool,
}

/// A server.
pub(crate) struct PageServer {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) title: Option<String>,
    /// What it offers, or why nobody knows.
    pub(crate) catalog: Result<Catalog, String>,
}

/// The page, for the host that was asked.
pub(crate) fn render(host: &str, about: &StartPage) -> String {
    let url = format!("http://{host}/mcp");
    let program = std::env::current_exe();
    let program = program.as_deref().unwrap_or(Path::new("tsugite")).display().to_string();
    let entry = |key: &str, entry: Value| escape_html(&host_config(key, &about.name, &entry));
    fill_template(TEMPLATE, |gap| match gap {
        "heading" => match about.servers.len() {
            1 => "An MCP server runs here".to_owned(),
            count => format!("{count} MCP servers run here"),
        },
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        "url" => escape_html(&url),
        "sse" => escape_html(&format!("http://{host}/sse")),
        "revisions" => {
            Revision::ALL.iter().rev().map(|revision| format!("<li>{}</li>\n", revision.as_str())).collect()
        }
        "servers" => about.servers.iter().map(render_server).collect(),
        "name" => escape_html(&about.name),
        "example" => match &about.example {
            Some(words) => escape_html(&format!("\ntsugite call {url} {words}")),
            None => String::new(),
        },
        "cursor" => entry("mcpServers", json!({ "url": url })),
        "vscode" => entry("servers", json!({ "type": "http", "url": url })),
        "windsurf" => entry("mcpServers", json!({ "serverUrl": url })),
        "desktop" => entry("mcpServers", json!({ "command": program, "args": ["bridge", url] })),
        "reach" => match about.is_public {
            false => "Only programs on this machine can reach it.".to_owned(),
            true => "Anybody who can reach this address can use it.".to_owned(),
        },
        // Nobody fills it: a test sees it.
        unknown => format!("{{{{{unknown}}}}}"),
    })
}

/// One server, with what it offers folded away.
fn render_server(runs: &PageServer) -> String {
    let version = runs.version.as_deref().map(|version| format!(" <small>{}</small>", escape_html(version)));
    let title = runs.title.as_deref().map(|title| format!("<p>{}</p>\n", escape_html(title)));
    let (state, more) = match &runs.catalog {
        Ok(offered) => ("<span class=\"state\">runs</span>", render_catalog(offered)),
        Err(why) => ("<span class=\"state bad\">not ready</span>", format!("<p>{}</p>\n", escape_html(why))),
    };
    format!(
        "<article>\n<h3>{}{} {state}</h3>\n{}{more}</article>\n",
        escape_html(&runs.name),
        version.unwrap_or_default(),
        title.unwrap_or_default()
    )
}

fn render_catalog(offered: &Catalog) -> String {
    let mut text = String::new();
    for (title, entries) in offered.lists() {
        let title = match entries.len() {
            0 => continue,
            1 => title.trim_end_matches('s'),
            _ => title,
        };
        let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
        let names = escape_html(&names.join(" · "));
        let _ =
            writeln!(text, "<details><summary>{} {title}<span>{names}</span></summary>\n<dl>", entries.len());
        for entry in entries {
            let _ = write!(text, "<dt><code>{}</code></dt>", escape_html(&entry.summary));
            let about =
                entry.description.and_then(|about| about.lines().find(|line| !line.trim().is_empty()));
            let _ = writeln!(text, "<dd>{}</dd>", escape_html(about.unwrap_or_default().trim()));
        }
        text.push_str("</dl>\n</details>\n");
    }
    match text.is_empty() {
        true => "<p>It offers nothing.</p>\n".to_owned(),
        false => text,
    }
}

/// The file of a host that lists one server, in as many lines as are good to read.
fn host_config(key: &str, name: &str, entry: &Value) -> String {
    let shown = |value: &Value| match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(Value::to_string).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    };
    let members = entry.as_object().into_iter().flatten();
    let members: Vec<_> =
        members.map(|(name, value)| format!("      {}: {}", json!(name), shown(value))).collect();
    format!("{{\n  {}: {{\n    {}: {{\n{}\n    }}\n  }}\n}}", json!(key), json!(name), members.join(",\n"))
}

/// Fills the gaps, in one pass: what stands in them may look like a gap itself.
fn fill_template(template: &str, fill: impl Fn(&str) -> String) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, (gap, after))) =
        rest.split_once("{{").and_then(|(before, after)| Some((before, after.split_once("}}")?)))
    {
        text.push_str(before);
        text.push_str(&fill(gap));
        rest = after;
    }
    text + rest
}

/// As text, not as HTML.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const TEMPLATE: &str = include_str!("page.html");

#[cfg(test)]
mod tests {
    use super::*;

    fn start_page(name: &str, state: Result<Catalog, String>) -> StartPage {
        let runs = PageServer {
            name: name.to_owned(),
            version: None,
            title: Some("{{version}}".to_owned()),
            catalog: state,
        };
        StartPage { name: "shop".to_owned(), servers: vec![runs], example: None, is_public: false }
    }

    #[test]
    fn what_comes_from_elsewhere_is_text_and_nothing_else() {
        let evil = "<script>alert(1)</script>";
        let page = render(evil, &start_page(evil, Err(evil.to_owned())));
        assert!(page.contains("http://&lt;script&gt;"), "{page}");
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        // What looks like a gap is none.
        assert_eq!(page.matches("{{").count(), 1, "{page}");
        assert!(page.contains("<p>{{version}}</p>"), "{page}");
    }

    #[test]
    fn every_gap_is_filled() {
        let mut about = start_page("one", Err("why".to_owned()));
        about.servers.clear();
        let page = render("127.0.0.1:8808", &about);
        assert!(!page.contains("{{"), "{page}");
    }

    #[test]
    fn servers_that_are_not_ready_say_why() {
        let mut about = start_page("one", Err("it ended with 1".to_owned()));
        about.servers.push(PageServer {
            name: "two".to_owned(),
            version: None,
            title: None,
            catalog: Err(String::new()),
        });
        let page = render("127.0.0.1:8808", &about);
        assert!(page.contains("2 MCP servers run here"), "{page}");
        assert!(page.contains("not ready</span></h3>") && page.contains("it ended with 1"), "{page}");
    }

    #[test]
    fn a_file_of_a_host_is_json() {
        let text = host_config("servers", "a\"b", &json!({ "type": "http", "url": "http://h/mcp" }));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, json!({ "servers": { "a\"b": { "type": "http", "url": "http://h/mcp" } } }));
    }
}
