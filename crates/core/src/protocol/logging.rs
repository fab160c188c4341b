//! Log notifications of the server.

use super::Meta;
use super::result::EmptyResult;
use super::wire::{has_meta, method, notification, string_enum, wire};
use crate::jsonrpc::RawJson;

method! {
    /// Sets the minimum level of log notifications (up to 2025-11-25; later `_meta` sets it per request).
    SetLevel = "logging/setLevel", SetLevelParams => EmptyResult
}

notification! {
    /// A log notification.
    Log = "notifications/message", LogParams
}

string_enum! {
    /// The syslog levels, in ascending order.
    #[doc(alias("LoggingLevel", "logging"))]
    pub enum Level {
        /// Details for developers.
        Debug = "debug",
        /// Normal operation.
        Info = "info",
        /// Normal but notable.
        Notice = "notice",
        /// A possible problem.
        Warning = "warning",
        /// An operation failed.
        Error = "error",
        /// A component failed.
        Critical = "critical",
        /// Immediate action is needed.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

wire! {
    /// The minimum level.
    pub struct SetLevelParams {
        /// The level.
        level: Level,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// A log notification.
    #[doc(alias("LoggingMessageNotification", "logging", "LoggingMessage"))]
    pub struct LogParams {
        /// The level.
        level: Level,
        /// The data: any JSON value.
        data: RawJson,
    }
    optional {
        /// The component of the server.
        logger: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

has_meta!(SetLevelParams, LogParams);
