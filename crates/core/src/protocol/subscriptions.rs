//! Subscriptions: one long request on which changes are told (2026-07-28).

use super::Meta;
use super::result::complete;
use super::wire::{has_meta, method, notification, wire};

method! {
    /// Tells of changes until it is ended. Its result comes only with a graceful end.
    Listen = "subscriptions/listen", ListenParams => ListenResult
}

notification! {
    /// The first message on a subscription: what of the wish is granted.
    Acknowledged = "notifications/subscriptions/acknowledged", AcknowledgedParams
}

wire! {
    /// What to tell of.
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
    /// What to tell of.
    pub struct ListenParams {
        /// The wish.
        notifications: SubscriptionFilter,
    }
    optional {
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// What of the wish is granted.
    pub struct AcknowledgedParams {
        /// The part of the wish that is granted.
        notifications: SubscriptionFilter,
    }
    optional {
        /// Names the subscription.
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
        /// Names the subscription.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

complete!(ListenResult);
has_meta!(ListenParams, AcknowledgedParams, ListenResult);
