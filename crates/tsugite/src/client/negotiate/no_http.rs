//! Stands in for the negotiation over HTTP without the cargo feature `http`: connecting to a URL is an error.

use std::sync::Arc;

use tsugite_core::session::probe::ProbeRecord;

use crate::client::client_error::{ClientError, Result};
use crate::client::client_state::ClientState;
use crate::client::connection::ClientConnection;
use crate::client::http::HttpConfig;

pub(super) async fn open(
    _: &Arc<ClientState>,
    _: &HttpConfig,
    _: Option<ProbeRecord>,
) -> Result<(Arc<ClientConnection>, Option<ProbeRecord>)> {
    let text = "HTTP needs the cargo feature `http` of tsugite, which is not enabled in this build";
    Err(ClientError::config(text))
}
