//! [`RequestIdObserver`]: receives the ids of a call's requests.

/// Receives the id of each attempt before it is sent.
pub(crate) trait RequestIdObserver: Send + Sync {
    fn on_request_id(&self, id: i64);

    /// The reason to give the server if the call is cancelled.
    fn cancel_reason(&self) -> Option<String> {
        None
    }
}
