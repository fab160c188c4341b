//! Logging: what the server tells about its work.

use super::Meta;
use super::result::EmptyResult;
use super::wire::{has_meta, method, notification, string_enum, wire};
use crate::jsonrpc::RawJson;

method! {
    /// From which level on to send logs (up to 2025-11-25; then `_meta` says it with each request).
    SetLevel = "logging/setLevel", SetLevelParams => EmptyResult
}

notification! {
    /// One log message.
    Log = "notifications/message", LogParams
}

string_enum! {
    /// The levels of syslog, rising.
    pub enum Level {
        /// Detail for developers.
        Debug = "debug",
        /// What is going on.
        Info = "info",
        /// Normal but notable.
        Notice = "notice",
        /// Something is not right.
        Warning = "warning",
        /// Something failed.
        Error = "error",
        /// A part of the system failed.
        Critical = "critical",
        /// Someone must act now.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

wire! {
    /// From which level on.
    pub struct SetLevelParams {
        /// The level.
        level: Level,
    }
    optional {
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// One log message.
    pub struct LogParams {
        /// How serious.
        level: Level,
        /// What: any JSON value.
        data: RawJson,
    }
    optional {
        /// Which part of the server.
        logger: String,
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

has_meta!(SetLevelParams, LogParams);
