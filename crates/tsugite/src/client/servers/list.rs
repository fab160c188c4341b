//! Which part of a file is the list of servers.

use indexmap::IndexMap;

use super::error::{BadEntry, BadServersFile, Wrong};
use super::field::Field;
use super::jsonc::Node;

/// The list of servers, as it stands in the file.
pub(super) struct List<'a> {
    pub(super) field: Field<'static>,
    pub(super) entries: Members<'a>,
    /// What VS Code would ask for.
    pub(super) inputs: Option<&'a Node>,
    /// Whether `http` means: or else HTTP+SSE.
    pub(super) falls_back: bool,
}

/// Finds the list. Fails if there is none, if there are two, or if it is none after all.
pub(super) fn find(root: &Node) -> Result<List<'_>, BadServersFile> {
    let root = members(root, &Field::Root("the file"))?;
    // Other hosts keep other settings under this name.
    let settings = match one(&root, "mcp", &MCP)? {
        Some(settings @ Node::Object(_)) => members(settings, &MCP)?,
        _ => Members::new(),
    };
    let lists = [
        (CLAUDE, one(&root, "mcpServers", &CLAUDE)?, &root, false),
        (VS_CODE, one(&root, "servers", &VS_CODE)?, &root, true),
        (SETTINGS, one(&settings, "servers", &SETTINGS)?, &settings, true),
    ];
    let mut lists =
        lists.into_iter().filter_map(|(field, list, beside, vs_code)| Some((field, list?, beside, vs_code)));
    let Some((field, list, beside, vs_code)) = lists.next() else { return Err(BadServersFile::no_list()) };
    if let Some((other, ..)) = lists.next() {
        return Err(BadServersFile::two_lists(&field, &other));
    }
    let inputs = beside.get("inputs").copied().flatten();
    // "MCP configuration reference" of VS Code: it tries Streamable HTTP first, and then HTTP+SSE.
    Ok(List { field, entries: members(list, &field)?, inputs, falls_back: vs_code })
}

/// The members of an object by name; without a value where the name is there more than once.
pub(super) type Members<'a> = IndexMap<&'a str, Option<&'a Node>>;

pub(super) fn members<'a>(node: &'a Node, field: &Field<'_>) -> Result<Members<'a>, BadEntry> {
    let Node::Object(object) = node else {
        return Err(BadEntry::new(field, Wrong::kind("an object", node)));
    };
    let mut members = Members::with_capacity(object.len());
    for (name, node) in object {
        members.entry(name).and_modify(|twice| *twice = None).or_insert(Some(node));
    }
    Ok(members)
}

fn one<'a>(members: &Members<'a>, name: &str, field: &Field<'_>) -> Result<Option<&'a Node>, BadEntry> {
    match members.get(name) {
        Some(None) => Err(BadEntry::new(field, Wrong::Twice)),
        Some(node) => Ok(*node),
        None => Ok(None),
    }
}

const CLAUDE: Field<'static> = Field::Root("mcpServers");
const VS_CODE: Field<'static> = Field::Root("servers");
const MCP: Field<'static> = Field::Root("mcp");
const SETTINGS: Field<'static> = Field::Member(&MCP, "servers");
