//! The start page of `tsugite serve`: which servers run, and how to connect to them.
//!
//! It is one HTML template with placeholders, `{{like this}}`. Every value is escaped before it is inserted.

mod shared;

use std::fmt::Write;

use serde_json::{Value, json};
use tsugite::revision::Revision;

use crate::catalog::Catalog;
use crate::console::sanitize_name;

pub(crate) use shared::SharedStartPage;

/// The contents of the page.
pub(crate) struct StartPage {
    /// The name for the configuration files of hosts: letters, digits and `-`.
    pub(crate) name: String,
    /// The servers behind the address.
    pub(crate) servers: Vec<PageServer>,
    /// An example call: the arguments after `tsugite call URL`.
    pub(crate) example: Option<String>,
    /// Whether other machines can reach it.
    pub(crate) is_public: bool,
    /// The path of the endpoint.
    pub(crate) path: String,
    /// Whether HTTP+SSE is served.
    pub(crate) has_sse: bool,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
}

/// A server on the page.
pub(crate) struct PageServer {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) title: Option<String>,
    /// The lists of the server, or why they are unknown.
    pub(crate) catalog: Result<Catalog, String>,
}

/// The reader of the page.
#[derive(Clone, Copy)]
pub(crate) enum Visitor<'a> {
    /// The server needs no token.
    Anyone,
    /// A visitor who has the token, which the page gives to hosts.
    Owner { token: &'a str },
    /// A visitor without the token, to whom the page says nothing about the servers.
    Stranger,
    /// A visitor of a server whose users log in. The page cannot tell who it is, and says nothing about the servers either.
    Unknown,
}

/// Renders the page for a visitor. `host` is the host of the request.
pub(crate) fn render(host: &str, visitor: Visitor<'_>, about: &StartPage) -> String {
    let url = format!("{}://{host}{}", about.scheme, about.path);
    let token = match visitor {
        Visitor::Stranger => return locked_page(TOKEN_NEEDED),
        Visitor::Unknown => return locked_page(&LOGIN_NEEDED.replace("{{url}}", &escape_html(&url))),
        Visitor::Owner { token } => Some(token),
        Visitor::Anyone => None,
    };
    // The entry of a host, with the header that the server needs.
    let with_header = |mut entry: Value| {
        if let (Some(token), Some(members)) = (token, entry.as_object_mut()) {
            let headers = json!({ "Authorization": format!("Bearer {token}") });
            members.insert("headers".to_owned(), headers);
        }
        entry
    };
    let entry = |key: &str, entry: Value| escape_html(&host_config(key, &about.name, &entry));
    fill_template(TEMPLATE, |placeholder| match placeholder {
        "heading" => match about.servers.len() {
            1 => "An MCP server runs here".to_owned(),
            count => format!("{count} MCP servers run here"),
        },
        "version" => env!("CARGO_PKG_VERSION").to_owned(),
        "url" => escape_html(&url),
        "sse" if about.has_sse => format!(
            " Clients that\nsupport only HTTP+SSE connect to <code>{}</code>.",
            escape_html(&format!("{}://{host}/sse", about.scheme))
        ),
        "sse" => String::new(),
        "revisions" => {
            Revision::ALL.iter().rev().map(|revision| format!("<li>{}</li>\n", revision.as_str())).collect()
        }
        "servers" => about.servers.iter().map(render_server).collect(),
        "name" => escape_html(&about.name),
        "example" => match &about.example {
            Some(words) => escape_html(&format!("\ntsugite call {url} {words}")),
            None => String::new(),
        },
        "cursor" => entry("mcpServers", with_header(json!({ "url": url }))),
        "vscode" => entry("servers", with_header(json!({ "type": "http", "url": url }))),
        "windsurf" => entry("mcpServers", with_header(json!({ "serverUrl": url }))),
        "desktop" => entry(
            "mcpServers",
            match token {
                None => json!({ "command": "tsugite", "args": ["bridge", url] }),
                // Not as an argument, which every user of the machine can read.
                Some(token) => json!({
                    "command": "tsugite",
                    "args": ["bridge", url, "--bearer-env", "TSUGITE_TOKEN"],
                    "env": { "TSUGITE_TOKEN": token },
                }),
            },
        ),
        "header" => match token {
            Some(token) => {
                format!(" <span>--header \"Authorization: Bearer {}\"</span>", escape_html(token))
            }
            None => String::new(),
        },
        "option" if token.is_some() => " --bearer-env TSUGITE_TOKEN".to_owned(),
        "option" => String::new(),
        "reach" => match about.is_public {
            false => "Only programs on this machine can reach it.".to_owned(),
            true => "It is open to every machine that can reach this address.".to_owned(),
        },
        // A test fails if a placeholder is unknown.
        unknown => format!("{{{{{unknown}}}}}"),
    })
}

/// Renders one server, with its lists collapsed.
fn render_server(server: &PageServer) -> String {
    let version =
        server.version.as_deref().map(|version| format!(" <small>{}</small>", escape_html(version)));
    let title = server.title.as_deref().map(|title| format!("<p>{}</p>\n", escape_html(title)));
    let (state, more) = match &server.catalog {
        Ok(catalog) => ("<span class=\"state\">running</span>", render_catalog(catalog)),
        Err(reason) => {
            ("<span class=\"state bad\">not ready</span>", format!("<p>{}</p>\n", escape_html(reason)))
        }
    };
    format!(
        "<article>\n<h3>{}{} {state}</h3>\n{}{more}</article>\n",
        escape_html(&sanitize_name(&server.name)),
        version.unwrap_or_default(),
        title.unwrap_or_default()
    )
}

fn render_catalog(catalog: &Catalog) -> String {
    let mut text = String::new();
    for (title, entries) in catalog.lists() {
        let title = match entries.len() {
            0 => continue,
            1 => title.trim_end_matches('s'),
            _ => title,
        };
        let names: Vec<_> = entries.iter().map(|entry| sanitize_name(entry.name)).collect();
        let names = escape_html(&names.join(" · "));
        let _ =
            writeln!(text, "<details><summary>{} {title}<span>{names}</span></summary>\n<dl>", entries.len());
        for entry in entries {
            let title = entry.title.map(|title| format!(" · {}", escape_html(&sanitize_name(title))));
            let summary = escape_html(&sanitize_name(&entry.summary));
            let _ = write!(text, "<dt><code>{summary}</code>{}</dt>", title.unwrap_or_default());
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

/// Formats the configuration file of a host that lists one server.
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

/// Fills the placeholders in one pass, because a value may look like a placeholder.
fn fill_template(template: &str, fill: impl Fn(&str) -> String) -> String {
    let mut text = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, (placeholder, after))) =
        rest.split_once("{{").and_then(|(before, after)| Some((before, after.split_once("}}")?)))
    {
        text.push_str(before);
        text.push_str(&fill(placeholder));
        rest = after;
    }
    text + rest
}

/// Escapes a text for HTML.
fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The page for a visitor who may not see the servers. The reason is HTML.
fn locked_page(reason: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>MCP server</title>\n\
         <h1>An MCP server runs here</h1>\n<p>{reason}</p>\n</html>\n"
    )
}

const TOKEN_NEEDED: &str =
    "It needs a token. The link with the token is in the terminal where <code>tsugite</code> was started.";
const LOGIN_NEEDED: &str = "It needs a login. Add <code>{{url}}</code> to your client, which opens the login page; or run \
    <code>tsugite login {{url}}</code>.";

const TEMPLATE: &str = include_str!("page.html");
/// The `Content-Security-Policy` of the page: its own script, by digest, and its own styles.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'sha256-trq98Em+/X7YSuT+tAalessJnTqbaSrSM0T8iHEW/YQ='; img-src data:; base-uri 'none'; form-action 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    fn start_page(name: &str, state: Result<Catalog, String>) -> StartPage {
        let server = PageServer {
            name: name.to_owned(),
            version: None,
            title: Some("{{version}}".to_owned()),
            catalog: state,
        };
        StartPage {
            name: "shop".to_owned(),
            servers: vec![server],
            example: None,
            is_public: false,
            path: "/mcp".to_owned(),
            has_sse: true,
            scheme: "http",
        }
    }

    #[test]
    fn values_are_escaped() {
        let evil = "<script>alert(1)</script>";
        let page = render(evil, Visitor::Anyone, &start_page(evil, Err(evil.to_owned())));
        assert!(page.contains("http://&lt;script&gt;"), "{page}");
        assert_eq!(page.matches("<script").count(), 1, "{page}");
        // A value that looks like a placeholder is not filled.
        assert_eq!(page.matches("{{").count(), 1, "{page}");
        assert!(page.contains("<p>{{version}}</p>"), "{page}");
    }

    #[test]
    fn visitors_without_a_login_see_no_server() {
        let page = render("<b>", Visitor::Unknown, &start_page("secret", Err("it ended with 1".to_owned())));
        assert!(page.contains("tsugite login http://&lt;b&gt;/mcp") && !page.contains("{{"), "{page}");
        assert!(!page.contains("secret") && !page.contains("it ended"), "{page}");
    }

    #[test]
    fn policy_has_the_digest_of_the_script() {
        let (_, script) = TEMPLATE.split_once("<script>").unwrap();
        let (script, _) = script.split_once("</script>").unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
        let digest = tsugite::base64::encode(digest.as_ref());
        assert!(POLICY.contains(&format!("script-src 'sha256-{digest}'")), "{digest}");
    }

    #[test]
    fn every_placeholder_is_filled() {
        let mut about = start_page("one", Err("reason".to_owned()));
        about.servers.clear();
        let page = render("127.0.0.1:8808", Visitor::Anyone, &about);
        assert!(!page.contains("{{"), "{page}");
    }

    #[test]
    fn page_says_why_a_server_is_not_ready() {
        let mut about = start_page("one", Err("it ended with 1".to_owned()));
        about.servers.push(PageServer {
            name: "two".to_owned(),
            version: None,
            title: None,
            catalog: Err(String::new()),
        });
        let page = render("127.0.0.1:8808", Visitor::Anyone, &about);
        assert!(page.contains("2 MCP servers run here"), "{page}");
        assert!(page.contains("not ready</span></h3>") && page.contains("it ended with 1"), "{page}");
    }

    #[test]
    fn host_config_is_valid_json() {
        let text = host_config("servers", "a\"b", &json!({ "type": "http", "url": "http://h/mcp" }));
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, json!({ "servers": { "a\"b": { "type": "http", "url": "http://h/mcp" } } }));
    }
}
