//! Reads how to log in to a server: `oauth` of Claude Code and VS Code, or `auth` of Cursor.

use super::OAuthConfig;
use super::field_path::FieldPath;
use super::jsonc::Node;
use super::server_list::members;
use super::servers_file_error::{EntryFieldError, ServerEntryError};

/// Resolves the variables of a string.
type Resolve<'a> = dyn Fn(&Node, &FieldPath<'_>) -> Result<String, ServerEntryError> + 'a;

/// Reads the settings of `oauth` or `auth`. Members that other hosts know are ignored, and so is a value that is not an
/// object: some hosts write a boolean or the name of a method there.
pub(super) fn read(
    node: &Node,
    field: &FieldPath<'_>,
    resolve: &Resolve<'_>,
) -> Result<Option<OAuthConfig>, ServerEntryError> {
    if !matches!(node, Node::Object(_)) {
        return Ok(None);
    }
    let mut config = OAuthConfig::default();
    for (name, node) in members(node, field)? {
        let field = FieldPath::Member(field, name);
        let node = node.ok_or_else(|| ServerEntryError::new(&field, EntryFieldError::Duplicate))?;
        match name {
            "clientId" | "CLIENT_ID" => config.client_id = Some(text(node, &field, resolve)?),
            "clientSecret" | "CLIENT_SECRET" => config.client_secret = Some(text(node, &field, resolve)?),
            "callbackPort" => config.callback_port = Some(port(node, &field)?),
            "scopes" | "scope" => config.scopes = Some(scopes(node, &field, resolve)?),
            _ => {}
        }
    }
    Ok(Some(config))
}

/// Reads a text that is sent to the authorization server.
fn text(node: &Node, field: &FieldPath<'_>, resolve: &Resolve<'_>) -> Result<String, ServerEntryError> {
    let text = resolve(node, field)?;
    let error = |wrong| Err(ServerEntryError::new(field, wrong));
    match text {
        text if text.is_empty() => error(EntryFieldError::Empty),
        text if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) => {
            error(EntryFieldError::Whitespace)
        }
        text => Ok(text),
    }
}

fn port(node: &Node, field: &FieldPath<'_>) -> Result<u16, ServerEntryError> {
    let port = match node {
        Node::Number(number) => number.parse().ok().filter(|port| *port != 0),
        _ => None,
    };
    port.ok_or_else(|| ServerEntryError::new(field, EntryFieldError::wrong_type("a port number", node)))
}

fn scopes(
    node: &Node,
    field: &FieldPath<'_>,
    resolve: &Resolve<'_>,
) -> Result<Vec<String>, ServerEntryError> {
    let Node::Array(items) = node else {
        return Ok(resolve(node, field)?.split_whitespace().map(str::to_owned).collect());
    };
    let items = items.iter().enumerate();
    items.map(|(index, item)| text(item, &FieldPath::Item(field, index), resolve)).collect()
}
