//! Which methods exist in which revision, and who may send them.

use super::Revision;
use super::Revision::*;
use crate::protocol::{
    Method, Notice, cancellation, completion, discover, elicitation, lifecycle, logging, ping, progress,
    prompts, resources, roots, sampling, subscriptions, tasks, tools,
};

/// One method: its name, what it is, who sends it and from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its name on the wire.
    pub name: &'static str,
    /// Whether it wants an answer.
    pub kind: Kind,
    /// Who sends it up to 2025-11-25.
    pub sender: Sender,
    /// The first revision that has it.
    pub first: Revision,
    /// The last revision that has it.
    pub last: Revision,
    /// Whether on 2026-07-28 it belongs to the tasks extension.
    pub extension: bool,
}

/// What a method is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Wants an answer.
    Request,
    /// Wants none.
    Notification,
}

/// Who sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
    /// Either.
    Both,
}

/// Every method of every revision, once.
pub fn methods() -> &'static [Row] {
    &ROWS
}

/// The row of `name`, if any revision has it.
pub(super) fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// [`row`] at build time.
const fn find(name: &str) -> Option<Row> {
    let mut rows: &[Row] = &ROWS;
    while let [row, rest @ ..] = rows {
        if same(row.name.as_bytes(), name.as_bytes()) {
            return Some(*row);
        }
        rows = rest;
    }
    None
}

const fn same(ours: &[u8], theirs: &[u8]) -> bool {
    match (ours, theirs) {
        ([], []) => true,
        ([first, ours @ ..], [other, theirs @ ..]) => *first == *other && same(ours, theirs),
        _ => false,
    }
}

impl Revision {
    /// Whether a message with this name, of this kind and from this side exists in the revision.
    ///
    /// On 2026-07-28 only the client sends requests; what a server asks travels inside results.
    pub fn has(self, kind: Kind, name: &str, sender: Sender) -> bool {
        row(name).is_some_and(|row| self.has_row(row, kind, sender))
    }

    /// Whether the request exists, whoever sends it. Its row is looked up when the program is built.
    pub(super) fn has_request<M: Method>(self) -> bool {
        const { find(M::NAME) }.is_some_and(|row| self.has_row(&row, Kind::Request, Sender::Both))
    }

    /// The same for a notification.
    pub(super) fn has_notice<N: Notice>(self) -> bool {
        const { find(N::NAME) }.is_some_and(|row| self.has_row(&row, Kind::Notification, Sender::Both))
    }

    fn has_row(self, row: &Row, kind: Kind, sender: Sender) -> bool {
        if row.kind != kind || self < row.first || self > row.last {
            return false;
        }
        let senders = if self.is_stateless() { stateless_senders(row) } else { Some(row.sender) };
        senders.is_some_and(|known| known == sender || known == Sender::Both || sender == Sender::Both)
    }

    /// Whether the request is none of this revision's but one of another's, or JSON-RPC's own. What is neither may be a
    /// server's own method.
    pub fn is_foreign(self, name: &str) -> bool {
        let known = row(name).filter(|row| row.kind == Kind::Request);
        name.starts_with("rpc.") || known.is_some_and(|row| !self.has_row(row, Kind::Request, Sender::Both))
    }

    /// Whether the method belongs to an extension there, and to which.
    pub fn extension_of(self, name: &str) -> Option<&'static str> {
        (self.is_stateless() && row(name)?.extension).then_some(tasks::EXTENSION)
    }
}

/// Who sends it on 2026-07-28; `None` if nobody sends it as a message.
fn stateless_senders(row: &Row) -> Option<Sender> {
    match (row.kind, row.name) {
        (Kind::Request, _) if row.sender == Sender::Server => None,
        (Kind::Request, _) => Some(Sender::Client),
        (Kind::Notification, progress::Progress::NAME) => Some(Sender::Server),
        (Kind::Notification, _) => Some(row.sender),
    }
}

/// The name a method really has: two names that no revision has, but some tutorials, are taken for what they mean.
pub fn canonical(method: &str) -> &str {
    match method {
        "mcp/initialize" => lifecycle::Initialize::NAME,
        "mcp/discover" => discover::Discover::NAME,
        method => method,
    }
}

const fn request<M: Method>(sender: Sender, first: Revision, last: Revision) -> Row {
    Row { name: M::NAME, kind: Kind::Request, sender, first, last, extension: false }
}

const fn notice<N: Notice>(sender: Sender, first: Revision, last: Revision) -> Row {
    Row { name: N::NAME, kind: Kind::Notification, sender, first, last, extension: false }
}

const fn extension(mut row: Row) -> Row {
    row.extension = true;
    row
}

/// The one that is asked for most is found first.
const ROWS: [Row; 36] = [
    request::<tools::Call>(Sender::Client, V2024_11_05, V2026_07_28),
    request::<lifecycle::Initialize>(Sender::Client, V2024_11_05, V2025_11_25),
    request::<ping::Ping>(Sender::Both, V2024_11_05, V2025_11_25),
    request::<discover::Discover>(Sender::Client, V2026_07_28, V2026_07_28),
    request::<tools::List>(Sender::Client, V2024_11_05, V2026_07_28),
    request::<resources::List>(Sender::Client, V2024_11_05, V2026_07_28),
    request::<resources::ListTemplates>(Sender::Client, V2024_11_05, V2026_07_28),
    request::<resources::Read>(Sender::Client, V2024_11_05, V2026_07_28),
    request::<resources::Subscribe>(Sender::Client, V2024_11_05, V2025_11_25),
    request::<resources::Unsubscribe>(Sender::Client, V2024_11_05, V2025_11_25),
    request::<prompts::List>(Sender::Client, V2024_11_05, V2026_07_28),
    request::<prompts::Get>(Sender::Client, V2024_11_05, V2026_07_28),
    request::<completion::Complete>(Sender::Client, V2024_11_05, V2026_07_28),
    request::<logging::SetLevel>(Sender::Client, V2024_11_05, V2025_11_25),
    request::<subscriptions::Listen>(Sender::Client, V2026_07_28, V2026_07_28),
    request::<sampling::CreateMessage>(Sender::Server, V2024_11_05, V2026_07_28),
    request::<roots::List>(Sender::Server, V2024_11_05, V2026_07_28),
    request::<elicitation::Create>(Sender::Server, V2025_06_18, V2026_07_28),
    extension(request::<tasks::Get>(Sender::Both, V2025_11_25, V2026_07_28)),
    extension(request::<tasks::Cancel>(Sender::Both, V2025_11_25, V2026_07_28)),
    request::<tasks::Payload>(Sender::Both, V2025_11_25, V2025_11_25),
    request::<tasks::List>(Sender::Both, V2025_11_25, V2025_11_25),
    extension(request::<tasks::Update>(Sender::Client, V2026_07_28, V2026_07_28)),
    notice::<lifecycle::Initialized>(Sender::Client, V2024_11_05, V2025_11_25),
    notice::<cancellation::Cancelled>(Sender::Both, V2024_11_05, V2026_07_28),
    notice::<progress::Progress>(Sender::Both, V2024_11_05, V2026_07_28),
    notice::<logging::Log>(Sender::Server, V2024_11_05, V2026_07_28),
    notice::<tools::ListChanged>(Sender::Server, V2024_11_05, V2026_07_28),
    notice::<prompts::ListChanged>(Sender::Server, V2024_11_05, V2026_07_28),
    notice::<resources::ListChanged>(Sender::Server, V2024_11_05, V2026_07_28),
    notice::<resources::Updated>(Sender::Server, V2024_11_05, V2026_07_28),
    notice::<roots::ListChanged>(Sender::Client, V2024_11_05, V2025_11_25),
    notice::<elicitation::Complete>(Sender::Server, V2025_11_25, V2025_11_25),
    notice::<tasks::StatusChanged>(Sender::Both, V2025_11_25, V2025_11_25),
    notice::<subscriptions::Acknowledged>(Sender::Server, V2026_07_28, V2026_07_28),
    extension(notice::<tasks::Changed>(Sender::Server, V2026_07_28, V2026_07_28)),
];
