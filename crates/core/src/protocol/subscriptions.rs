//! Subscriptions: one long request on which changes are notified (2026-07-28).

use super::Meta;
use super::result::complete;
use super::wire::{has_meta, method, notification, wire};

method! {
    /// Notifies about changes until it is ended. It has a result only after a graceful end.
    Listen = "subscriptions/listen", ListenParams => ListenResult
}

notification! {
    /// The first message on a subscription: the granted part of the filter.
    Acknowledged = "notifications/subscriptions/acknowledged", AcknowledgedParams
}

wire! {
    /// The changes to notify about.
    #[derive(Default, Eq)]
    pub struct SubscriptionFilter {
    }
    optional {
        /// Changes of the list of tools.
        tools_list_changed: bool,
        /// Changes of the list of prompts.
        prompts_list_changed: bool,
        /// Changes of the list of resources.
        resources_list_changed: bool,
        /// Changes of these resources.
        resource_subscriptions: Vec<String>,
        /// Changes of these tasks (extension `io.modelcontextprotocol/tasks`).
        task_ids: Vec<String>,
    }
}

wire! {
    /// The requested filter.
    pub struct ListenParams {
        /// The filter.
        notifications: SubscriptionFilter,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The granted filter.
    pub struct AcknowledgedParams {
        /// The granted part of the filter.
        notifications: SubscriptionFilter,
    }
    optional {
        /// Contains the id of the subscription.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The graceful end of a subscription.
    #[derive(Default)]
    pub struct ListenResult {
    }
    optional {
        /// Contains the id of the subscription.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

complete!(ListenResult);
has_meta!(ListenParams, AcknowledgedParams, ListenResult);
