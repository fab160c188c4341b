//! Web pages that a refused call requires, up to 2025-11-25.

use std::time::Duration;

use tsugite_core::revision::RpcError;

use super::client_error::{ClientError, Result};
use super::client_handler::UrlResponse;
use super::{Client, server_requests};

impl Client {
    /// Asks the user to open the web pages that a refused call requires. Returns true if all were opened and the call may
    /// be sent again.
    pub(super) async fn elicit_required_urls(&self, error: &ClientError, limit: Duration) -> Result<bool> {
        let Some(RpcError::UrlElicitationRequired { elicitations }) = error.as_rpc_error() else {
            return Ok(false);
        };
        if self.handlers().url.is_none() {
            return Ok(false);
        }
        let mut ids = Vec::new();
        for page in elicitations {
            ids.extend(page.elicitation_id.clone());
            match server_requests::elicit_url(self.handlers(), page.clone()).await {
                Ok(UrlResponse::Accept) => {}
                _ => return Ok(false),
            }
        }
        let connection = self.connection().await?;
        // The server need not report completion. After the timeout the call is simply tried again.
        let _ = tokio::time::timeout(limit, connection.wait_for_elicitations(&ids)).await;
        Ok(true)
    }
}
