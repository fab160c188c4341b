//! The methods of each revision, and which side may send them.

use super::Revision;
use super::Revision::*;
use crate::protocol::{
    Method, NotificationMethod, cancellation, completion, discover, elicitation, lifecycle, logging, ping,
    progress, prompts, resources, roots, sampling, subscriptions, tasks, tools,
};

/// One method: its name, kind and sender, and the revisions that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodInfo {
    /// The name on the wire.
    pub name: &'static str,
    /// Whether it is a request or a notification.
    pub kind: MethodKind,
    /// The side that sends it up to 2025-11-25.
    pub sender: MessageSender,
    /// The first revision that has it.
    pub since: Revision,
    /// The last revision that has it.
    pub until: Revision,
    /// Whether it belongs to the tasks extension on 2026-07-28.
    pub in_tasks_extension: bool,
}

/// The kind of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodKind {
    /// Has a response.
    Request,
    /// Has no response.
    Notification,
}

/// The side that sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageSender {
    /// The client.
    Client,
    /// The server.
    Server,
    /// Either side.
    Both,
}

/// All methods of all revisions, each once.
pub fn methods() -> &'static [MethodInfo] {
    &METHODS
}

/// The entry of `name`, if any revision has it.
pub(super) fn method_info(name: &str) -> Option<&'static MethodInfo> {
    METHODS.iter().find(|row| row.name == name)
}

/// [`method_info`] at compile time.
const fn find_const(name: &str) -> Option<MethodInfo> {
    let mut rows: &[MethodInfo] = &METHODS;
    while let [row, rest @ ..] = rows {
        if bytes_eq(row.name.as_bytes(), name.as_bytes()) {
            return Some(*row);
        }
        rows = rest;
    }
    None
}

const fn bytes_eq(ours: &[u8], theirs: &[u8]) -> bool {
    match (ours, theirs) {
        ([], []) => true,
        ([first, ours @ ..], [other, theirs @ ..]) => *first == *other && bytes_eq(ours, theirs),
        _ => false,
    }
}

impl Revision {
    /// Whether the revision has a message with this name, of this kind and from this side.
    ///
    /// On 2026-07-28 only the client sends requests; the server's requests are part of results.
    pub fn has_method(self, kind: MethodKind, name: &str, sender: MessageSender) -> bool {
        method_info(name).is_some_and(|row| self.supports(row, kind, sender))
    }

    /// Whether the revision has the request, from either side. The entry is looked up at compile time.
    pub(super) fn has_request<M: Method>(self) -> bool {
        const { find_const(M::NAME) }
            .is_some_and(|row| self.supports(&row, MethodKind::Request, MessageSender::Both))
    }

    /// Whether the revision has the notification, from either side.
    pub(super) fn has_notification<N: NotificationMethod>(self) -> bool {
        const { find_const(N::NAME) }
            .is_some_and(|row| self.supports(&row, MethodKind::Notification, MessageSender::Both))
    }

    fn supports(self, row: &MethodInfo, kind: MethodKind, sender: MessageSender) -> bool {
        if row.kind != kind || self < row.since || self > row.until {
            return false;
        }
        let senders = if self.is_stateless() { stateless_sender(row) } else { Some(row.sender) };
        senders.is_some_and(|known| {
            known == sender || known == MessageSender::Both || sender == MessageSender::Both
        })
    }

    /// Whether the request belongs to another revision or to JSON-RPC itself. Any other name may be a server's own
    /// method.
    pub fn is_unavailable_method(self, name: &str) -> bool {
        let known = method_info(name).filter(|row| row.kind == MethodKind::Request);
        name.starts_with("rpc.")
            || known.is_some_and(|row| !self.supports(row, MethodKind::Request, MessageSender::Both))
    }
}

/// The side that sends it on 2026-07-28; `None` if it is not sent as a message.
fn stateless_sender(row: &MethodInfo) -> Option<MessageSender> {
    match (row.kind, row.name) {
        (MethodKind::Request, _) if row.sender == MessageSender::Server => None,
        (MethodKind::Request, _) => Some(MessageSender::Client),
        (MethodKind::Notification, progress::Progress::NAME) => Some(MessageSender::Server),
        (MethodKind::Notification, _) => Some(row.sender),
    }
}

/// A name for `server/discover` that some tutorials use. Under this name a request needs no `_meta`.
pub const BARE_DISCOVER: &str = "mcp/discover";

/// The real name of a method: two wrong names that some tutorials use are mapped to it.
pub fn canonical_method(method: &str) -> &str {
    match method {
        "mcp/initialize" => lifecycle::Initialize::NAME,
        BARE_DISCOVER => discover::Discover::NAME,
        method => method,
    }
}

const fn request<M: Method>(sender: MessageSender, first: Revision, last: Revision) -> MethodInfo {
    MethodInfo {
        name: M::NAME,
        kind: MethodKind::Request,
        sender,
        since: first,
        until: last,
        in_tasks_extension: false,
    }
}

const fn notification<N: NotificationMethod>(
    sender: MessageSender,
    first: Revision,
    last: Revision,
) -> MethodInfo {
    MethodInfo {
        name: N::NAME,
        kind: MethodKind::Notification,
        sender,
        since: first,
        until: last,
        in_tasks_extension: false,
    }
}

const fn tasks_extension(mut row: MethodInfo) -> MethodInfo {
    row.in_tasks_extension = true;
    row
}

/// Ordered so that the most frequent method is found first.
const METHODS: [MethodInfo; 36] = [
    request::<tools::Call>(MessageSender::Client, V2024_11_05, V2026_07_28),
    request::<lifecycle::Initialize>(MessageSender::Client, V2024_11_05, V2025_11_25),
    request::<ping::Ping>(MessageSender::Both, V2024_11_05, V2025_11_25),
    request::<discover::Discover>(MessageSender::Client, V2026_07_28, V2026_07_28),
    request::<tools::List>(MessageSender::Client, V2024_11_05, V2026_07_28),
    request::<resources::List>(MessageSender::Client, V2024_11_05, V2026_07_28),
    request::<resources::ListTemplates>(MessageSender::Client, V2024_11_05, V2026_07_28),
    request::<resources::Read>(MessageSender::Client, V2024_11_05, V2026_07_28),
    request::<resources::Subscribe>(MessageSender::Client, V2024_11_05, V2025_11_25),
    request::<resources::Unsubscribe>(MessageSender::Client, V2024_11_05, V2025_11_25),
    request::<prompts::List>(MessageSender::Client, V2024_11_05, V2026_07_28),
    request::<prompts::Get>(MessageSender::Client, V2024_11_05, V2026_07_28),
    request::<completion::Complete>(MessageSender::Client, V2024_11_05, V2026_07_28),
    request::<logging::SetLevel>(MessageSender::Client, V2024_11_05, V2025_11_25),
    request::<subscriptions::Listen>(MessageSender::Client, V2026_07_28, V2026_07_28),
    request::<sampling::CreateMessage>(MessageSender::Server, V2024_11_05, V2026_07_28),
    request::<roots::List>(MessageSender::Server, V2024_11_05, V2026_07_28),
    request::<elicitation::Create>(MessageSender::Server, V2025_06_18, V2026_07_28),
    tasks_extension(request::<tasks::Get>(MessageSender::Both, V2025_11_25, V2026_07_28)),
    tasks_extension(request::<tasks::Cancel>(MessageSender::Both, V2025_11_25, V2026_07_28)),
    request::<tasks::Payload>(MessageSender::Both, V2025_11_25, V2025_11_25),
    request::<tasks::List>(MessageSender::Both, V2025_11_25, V2025_11_25),
    tasks_extension(request::<tasks::Update>(MessageSender::Client, V2026_07_28, V2026_07_28)),
    notification::<lifecycle::Initialized>(MessageSender::Client, V2024_11_05, V2025_11_25),
    notification::<cancellation::Cancelled>(MessageSender::Both, V2024_11_05, V2026_07_28),
    notification::<progress::Progress>(MessageSender::Both, V2024_11_05, V2026_07_28),
    notification::<logging::Log>(MessageSender::Server, V2024_11_05, V2026_07_28),
    notification::<tools::ListChanged>(MessageSender::Server, V2024_11_05, V2026_07_28),
    notification::<prompts::ListChanged>(MessageSender::Server, V2024_11_05, V2026_07_28),
    notification::<resources::ListChanged>(MessageSender::Server, V2024_11_05, V2026_07_28),
    notification::<resources::Updated>(MessageSender::Server, V2024_11_05, V2026_07_28),
    notification::<roots::ListChanged>(MessageSender::Client, V2024_11_05, V2025_11_25),
    notification::<elicitation::Complete>(MessageSender::Server, V2025_11_25, V2025_11_25),
    notification::<tasks::StatusChanged>(MessageSender::Both, V2025_11_25, V2025_11_25),
    notification::<subscriptions::Acknowledged>(MessageSender::Server, V2026_07_28, V2026_07_28),
    tasks_extension(notification::<tasks::TaskChanged>(MessageSender::Server, V2026_07_28, V2026_07_28)),
];
