//! One entry of the list: from what stands in the file to a way to the server.

use std::path::Path;

use indexmap::IndexMap;

use super::error::{BadEntry, Wrong};
use super::field::Field;
use super::jsonc::Node;
use super::list::{Members, members};
use super::variables::Variables;
use super::{Folders, UrlTransport, Way, env_file, text};

/// What all entries of a file share.
pub(super) struct Place<'a> {
    pub(super) variables: Variables<'a>,
    /// Of the file, if the text is in one.
    pub(super) folders: Option<Folders<'a>>,
    /// Whether `http` means: or else HTTP+SSE.
    pub(super) falls_back: bool,
}

/// Whether the entry is disabled, and the way to the server. No `node` means that there are several.
pub(super) fn read(
    name: &str,
    node: Option<&Node>,
    field: &Field<'_>,
    place: &Place<'_>,
) -> (bool, Result<Way, BadEntry>) {
    let entry = match node {
        None => Err(BadEntry::new(field, Wrong::Twice)),
        Some(_) if name.is_empty() => Err(BadEntry::new(field, Wrong::NoName)),
        Some(node) => members(node, field).map(|members| Entry { members, field, place }),
    };
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => return (false, Err(error)),
    };
    match entry.disabled() {
        Ok(disabled) => (disabled, entry.way()),
        Err(error) => (false, Err(error)),
    }
}

struct Entry<'a> {
    members: Members<'a>,
    field: &'a Field<'a>,
    place: &'a Place<'a>,
}

impl Entry<'_> {
    fn disabled(&self) -> Result<bool, BadEntry> {
        match self.member("disabled")? {
            None => Ok(false),
            Some((Node::Bool(disabled), _)) => Ok(*disabled),
            Some((other, field)) => Err(BadEntry::new(&field, Wrong::kind("a boolean", other))),
        }
    }

    fn way(&self) -> Result<Way, BadEntry> {
        let url = match (self.has("url"), self.has("serverUrl")) {
            (true, true) => return Err(self.wrong(Wrong::Both("url", "serverUrl"))),
            (true, false) => Some("url"),
            (false, true) => Some("serverUrl"),
            (false, false) => None,
        };
        let kind = self.kind()?;
        match (self.has("command"), url, kind) {
            (true, Some(url), _) => Err(self.wrong(Wrong::Both("command", url))),
            (false, None, _) => Err(self.wrong(Wrong::Neither)),
            (true, None, Some(Kind::Url(_))) => Err(self.wrong(Wrong::Needs("url"))),
            (false, Some(_), Some(Kind::Command)) => Err(self.wrong(Wrong::Needs("command"))),
            (true, None, _) => self.command(),
            (false, Some(url), Some(Kind::Url(transport))) => self.url(url, transport),
            (false, Some(url), None) => self.url(url, UrlTransport::Auto),
        }
    }

    fn kind(&self) -> Result<Option<Kind>, BadEntry> {
        let Some((node, field)) = self.member("type")? else { return Ok(None) };
        let Node::String(kind) = node else {
            return Err(BadEntry::new(&field, Wrong::kind("a string", node)));
        };
        Ok(Some(match kind.as_str() {
            // The latter in files of Copilot.
            "stdio" | "local" => Kind::Command,
            "http" if self.place.falls_back => Kind::Url(UrlTransport::Auto),
            "http" | "streamable-http" | "streamableHttp" => Kind::Url(UrlTransport::StreamableHttp),
            "sse" => Kind::Url(UrlTransport::Sse),
            _ => return Err(BadEntry::new(&field, Wrong::UnknownType)),
        }))
    }

    fn command(&self) -> Result<Way, BadEntry> {
        let program = self.string("command")?.unwrap_or_default();
        let args = self.args()?;
        let (mut env, mut unset) = (Vec::new(), Vec::new());
        for (name, value) in self.env()? {
            match value {
                Some(value) => env.push((name, value)),
                None => unset.push(name),
            }
        }
        let cwd = self.string("cwd")?.map(|cwd| match self.place.folders {
            Some(folders) => folders.workspace.join(cwd),
            None => cwd.into(),
        });
        Ok(Way::Command { program, args, env, unset, cwd })
    }

    fn url(&self, member: &'static str, transport: UrlTransport) -> Result<Way, BadEntry> {
        let url = self.string(member)?.unwrap_or_default();
        if url.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(BadEntry::new(&Field::Member(self.field, member), Wrong::Blank));
        }
        Ok(Way::Url { url, headers: self.headers()?, transport })
    }

    fn args(&self) -> Result<Vec<String>, BadEntry> {
        let Some((node, field)) = self.member("args")? else { return Ok(Vec::new()) };
        let Node::Array(items) = node else {
            return Err(BadEntry::new(&field, Wrong::kind("an array", node)));
        };
        let items = items.iter().enumerate();
        items.map(|(index, item)| self.os_string(item, &Field::Item(&field, index))).collect()
    }

    /// What is added to the environment; without a value what is taken from it.
    fn env(&self) -> Result<IndexMap<String, Option<String>>, BadEntry> {
        let mut env = IndexMap::new();
        if let Some(path) = self.string("envFile")? {
            let of_file = self.env_file(Path::new(&path));
            let of_file =
                of_file.map_err(|wrong| BadEntry::new(&Field::Member(self.field, "envFile"), wrong))?;
            env.extend(of_file.into_iter().map(|(name, value)| (name, Some(value))));
        }
        self.each("env", |name, node, field| {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(BadEntry::new(field, Wrong::EnvName));
            }
            let value = match node {
                Node::Null => None,
                Node::Number(number) => Some(number.clone()),
                Node::String(_) => Some(self.os_string(node, field)?),
                other => {
                    return Err(BadEntry::new(field, Wrong::kind("a string, a number or null", other)));
                }
            };
            env.insert(name.to_owned(), value);
            Ok(())
        })?;
        Ok(env)
    }

    fn env_file(&self, path: &Path) -> Result<Vec<(String, String)>, Wrong> {
        let folders = self.place.folders.ok_or(Wrong::NoFolder)?;
        let text = text::read(&folders.file.join(path)).map_err(|error| Wrong::EnvFile(error.to_string()))?;
        env_file::parse(&text).map_err(Wrong::EnvLine)
    }

    fn headers(&self) -> Result<Vec<(String, String)>, BadEntry> {
        let mut headers = Vec::new();
        self.each("headers", |name, node, field| {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(BadEntry::new(field, Wrong::HeaderName));
            }
            let value = self.resolved(node, field)?;
            // One that ends a line would begin another header.
            if value.chars().any(|letter| letter.is_control() && letter != '\t') {
                return Err(BadEntry::new(field, Wrong::HeaderValue));
            }
            headers.push((name.to_owned(), value));
            Ok(())
        })?;
        Ok(headers)
    }

    /// Hands over each member of a member that is an object.
    fn each(
        &self,
        member: &'static str,
        mut take: impl FnMut(&str, &Node, &Field<'_>) -> Result<(), BadEntry>,
    ) -> Result<(), BadEntry> {
        let Some((node, field)) = self.member(member)? else { return Ok(()) };
        for (name, node) in members(node, &field)? {
            let field = Field::Member(&field, name);
            let node = node.ok_or_else(|| BadEntry::new(&field, Wrong::Twice))?;
            take(name, node, &field)?;
        }
        Ok(())
    }

    /// A member that is a string which says something.
    fn string(&self, member: &'static str) -> Result<Option<String>, BadEntry> {
        let Some((node, field)) = self.member(member)? else { return Ok(None) };
        match self.os_string(node, &field)? {
            empty if empty.is_empty() => Err(BadEntry::new(&field, Wrong::Empty)),
            string => Ok(Some(string)),
        }
    }

    /// A string that the system takes.
    fn os_string(&self, node: &Node, field: &Field<'_>) -> Result<String, BadEntry> {
        let string = self.resolved(node, field)?;
        if string.contains('\0') {
            return Err(BadEntry::new(field, Wrong::Nul));
        }
        Ok(string)
    }

    fn resolved(&self, node: &Node, field: &Field<'_>) -> Result<String, BadEntry> {
        let Node::String(string) = node else {
            return Err(BadEntry::new(field, Wrong::kind("a string", node)));
        };
        self.place.variables.resolve(string).map_err(|wrong| BadEntry::new(field, wrong))
    }

    fn has(&self, member: &str) -> bool {
        self.members.contains_key(member)
    }

    fn member(&self, name: &'static str) -> Result<Option<(&Node, Field<'_>)>, BadEntry> {
        let field = Field::Member(self.field, name);
        match self.members.get(name) {
            None => Ok(None),
            Some(None) => Err(BadEntry::new(&field, Wrong::Twice)),
            Some(Some(node)) => Ok(Some((*node, field))),
        }
    }

    fn wrong(&self, wrong: Wrong) -> BadEntry {
        BadEntry::new(self.field, wrong)
    }
}

/// What `type` says.
enum Kind {
    Command,
    Url(UrlTransport),
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
