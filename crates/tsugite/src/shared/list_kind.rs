//! The kinds of items a server lists, and their names inside and outside a mounted server.

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ListKind {
    /// A tool, identified by its name.
    Tool,
    /// A prompt, identified by its name.
    Prompt,
    /// A resource identified by its URI, or a resource template.
    Resource,
}

impl ListKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 3] = [ListKind::Tool, ListKind::Prompt, ListKind::Resource];
}

/// Returns the name that an item of a mounted server has in the outer server.
pub(crate) fn outer_name(kind: ListKind, prefix: &str, name: &str) -> String {
    match kind {
        ListKind::Resource => match name.split_once("://").map(|parts| (parts, "://")) {
            Some(((scheme, rest), separator)) => format!("{scheme}{separator}{prefix}/{rest}"),
            None => match name.split_once(':') {
                Some((scheme, rest)) => format!("{scheme}:{prefix}/{rest}"),
                None => format!("{prefix}/{name}"),
            },
        },
        _ => format!("{prefix}_{name}"),
    }
}

/// Returns the inner name if `name` belongs to the server mounted under `prefix`.
pub(crate) fn inner_name(kind: ListKind, prefix: &str, name: &str) -> Option<String> {
    match kind {
        ListKind::Resource => {
            let (scheme, separator, rest) = match name.split_once("://") {
                Some((scheme, rest)) => (scheme, "://", rest),
                None => match name.split_once(':') {
                    Some((scheme, rest)) => (scheme, ":", rest),
                    None => ("", "", name),
                },
            };
            Some(format!("{scheme}{separator}{}", rest.strip_prefix(prefix)?.strip_prefix('/')?))
        }
        _ => Some(name.strip_prefix(prefix)?.strip_prefix('_')?.to_owned()),
    }
}
