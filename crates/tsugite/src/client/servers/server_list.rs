//! Finds the list of servers in a file.

use indexmap::IndexMap;

use super::field_path::FieldPath;
use super::jsonc::Node;
use super::servers_file_error::{EntryFieldError, ServerEntryError, ServersFileError};

/// The list of servers as it stands in the file.
pub(super) struct ServerList<'a> {
    pub(super) field: FieldPath<'static>,
    pub(super) entries: Members<'a>,
    /// The `inputs` that VS Code would prompt for.
    pub(super) inputs: Option<&'a Node>,
    /// Whether `http` means Streamable HTTP with a fallback to HTTP+SSE.
    pub(super) sse_fallback: bool,
}

/// Finds the list. Fails if there is none, if there are two, or if it is not an object.
pub(super) fn find(root: &Node) -> Result<ServerList<'_>, ServersFileError> {
    let root = members(root, &FieldPath::Root("the file"))?;
    // Other hosts keep unrelated settings under this name.
    let settings = match unique_member(&root, "mcp", &MCP)? {
        Some(settings @ Node::Object(_)) => members(settings, &MCP)?,
        _ => Members::new(),
    };
    let lists = [
        (CLAUDE, unique_member(&root, "mcpServers", &CLAUDE)?, &root, false),
        (VS_CODE, unique_member(&root, "servers", &VS_CODE)?, &root, true),
        (SETTINGS, unique_member(&settings, "servers", &SETTINGS)?, &settings, true),
    ];
    let mut lists =
        lists.into_iter().filter_map(|(field, list, beside, vs_code)| Some((field, list?, beside, vs_code)));
    let Some((field, list, beside, vs_code)) = lists.next() else { return Err(ServersFileError::no_list()) };
    if let Some((other, ..)) = lists.next() {
        return Err(ServersFileError::multiple_lists(&field, &other));
    }
    let inputs = beside.get("inputs").copied().flatten();
    // VS Code's "MCP configuration reference": Streamable HTTP first, then HTTP+SSE.
    Ok(ServerList { field, entries: members(list, &field)?, inputs, sse_fallback: vs_code })
}

/// The members of an object by name; `None` as the value if the name occurs more than once.
pub(super) type Members<'a> = IndexMap<&'a str, Option<&'a Node>>;

pub(super) fn members<'a>(node: &'a Node, field: &FieldPath<'_>) -> Result<Members<'a>, ServerEntryError> {
    let Node::Object(object) = node else {
        return Err(ServerEntryError::new(field, EntryFieldError::wrong_type("an object", node)));
    };
    let mut members = Members::with_capacity(object.len());
    for (name, node) in object {
        members.entry(name).and_modify(|twice| *twice = None).or_insert(Some(node));
    }
    Ok(members)
}

fn unique_member<'a>(
    members: &Members<'a>,
    name: &str,
    field: &FieldPath<'_>,
) -> Result<Option<&'a Node>, ServerEntryError> {
    match members.get(name) {
        Some(None) => Err(ServerEntryError::new(field, EntryFieldError::Duplicate)),
        Some(node) => Ok(*node),
        None => Ok(None),
    }
}

const CLAUDE: FieldPath<'static> = FieldPath::Root("mcpServers");
const VS_CODE: FieldPath<'static> = FieldPath::Root("servers");
const MCP: FieldPath<'static> = FieldPath::Root("mcp");
const SETTINGS: FieldPath<'static> = FieldPath::Member(&MCP, "servers");
