//! The messages that replicas of a server send to each other.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// A message to one replica or to all. A replica ignores messages of a kind that it does not know, so that replicas of two
/// versions can work side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplicaMessage {
    /// Lists have changed.
    ListsChanged { tools: bool, prompts: bool, resources: bool },
    /// A resource has changed.
    ResourceUpdated { uri: String },
    /// A session has ended.
    SessionEnded { session: String },
    /// The client of a session has sent a response to a request of the recipient.
    ClientResponse { session: String, response: String },
    /// The client of a session has cancelled a request that the recipient runs. `request` is its id as JSON.
    RequestCancelled { session: String, request: String, reason: Option<String> },
    /// Events were appended to a stream that the recipient sends to the client.
    EventsAppended { session: String, stream: String },
    /// A replica sends a stream to the client from now on. The replica that writes the stream tells it of new events; a
    /// replica that sent the stream before no longer does.
    StreamFollowed { session: String, stream: String, replica: String },
    /// Another replica has the stream for messages that belong to no request from now on.
    PushStreamTaken { session: String, replica: String },
    /// The session has subscribed to a resource, or no longer does.
    SubscriptionChanged { session: String, uri: String, subscribed: bool },
    /// The client has sent a message to an HTTP+SSE session of the recipient.
    HttpSseMessage {
        session: String,
        message: String,
        /// The scopes of the caller's token.
        #[serde(default)]
        scopes: Vec<String>,
        /// When that token expires.
        #[serde(default)]
        expires_at: Option<SystemTime>,
    },
    /// The state of a task has changed. `task` is the digest of its id.
    TaskChanged { task: String },
    /// A replica has stopped in good order; nothing that it ran continues.
    ReplicaStopped { replica: String },
}

/// A message with its sender, as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct Envelope {
    pub(super) from: String,
    /// Tells this message from all others of its sender. Messages of earlier versions have none.
    #[serde(default)]
    pub(super) number: Option<u64>,
    pub(super) message: ReplicaMessage,
}
