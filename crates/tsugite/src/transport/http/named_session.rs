//! The session that a request names: the id in its header, and the session that was found.

use http::HeaderValue;
use tsugite_core::revision::Revision;
use tsugite_core::session::http::SessionHeader;

use super::sessions::{SessionGuard, SessionId};

/// The header `Mcp-Session-Id`.
#[derive(Clone, Copy, Default)]
pub(super) enum SessionIdHeader {
    #[default]
    Absent,
    Id(SessionId),
    /// It is repeated or no id of this server.
    Invalid,
}

impl SessionIdHeader {
    /// Takes one value of the header.
    pub(super) fn add(&mut self, value: &HeaderValue) {
        *self = match self {
            SessionIdHeader::Absent => SessionId::parse(value.as_bytes().trim_ascii())
                .map_or(SessionIdHeader::Invalid, SessionIdHeader::Id),
            SessionIdHeader::Id(_) | SessionIdHeader::Invalid => SessionIdHeader::Invalid,
        };
    }
}

/// The session that a request names.
pub(super) enum NamedSession {
    /// It names none.
    Absent,
    /// The session has expired, belongs to another caller or never existed.
    Unknown,
    /// The store cannot tell now, or this replica has as many sessions as it takes.
    Unavailable,
    Found(SessionGuard, Revision),
}

impl NamedSession {
    /// The session as decisions see it.
    pub(super) fn header(&self) -> SessionHeader {
        match self {
            NamedSession::Absent => SessionHeader::Absent,
            NamedSession::Unknown | NamedSession::Unavailable => SessionHeader::Unknown,
            NamedSession::Found(_, revision) => SessionHeader::Known(*revision),
        }
    }

    pub(super) fn revision(&self) -> Option<Revision> {
        match self {
            NamedSession::Absent | NamedSession::Unknown | NamedSession::Unavailable => None,
            NamedSession::Found(_, revision) => Some(*revision),
        }
    }

    pub(super) fn into_guard(self) -> Option<SessionGuard> {
        match self {
            NamedSession::Absent | NamedSession::Unknown | NamedSession::Unavailable => None,
            NamedSession::Found(session, _) => Some(session),
        }
    }
}
