//! States that must not be used twice.

use bytes::Bytes;
use tsugite_core::jsonrpc::{ErrorObject, code};
use tsugite_core::protocol::mrtr::REQUEST_STATE;
use tsugite_core::revision::RpcError;

use crate::error::Chain;
use crate::server::context::Context;
use crate::server::handler_error::HandlerError;
use crate::server::purge;
use crate::shared::log;
use crate::store::{Precondition, Write};

impl Context {
    /// Uses up the state with which the client continues this call (2026-07-28): a second request with the same state
    /// fails here, at every replica that shares the [`Server::store`](crate::Server::store).
    ///
    /// Without it a client can continue a call from the same `requestState` more than once until the state expires. Await it
    /// before the work that must not happen twice. It does nothing in the first round of a call, and up to 2025-11-25,
    /// where the client carries no state. A store that fails makes the request fail, over HTTP with 503.
    ///
    /// ```
    /// use tsugite::prelude::*;
    ///
    /// #[derive(Form)]
    /// struct Confirmation {
    ///     /// Pay now?
    ///     pay: bool,
    /// }
    ///
    /// async fn pay(cx: Context) -> Result<&'static str, HandlerError> {
    ///     let Confirmation { pay } = cx.ask("Pay 10 euros?").await?;
    ///     cx.single_use().await?;
    ///     Ok(if pay { "paid" } else { "not paid" })
    /// }
    /// # let _ = pay;
    /// ```
    pub async fn single_use(&self) -> Result<(), HandlerError> {
        let call = self.call_state();
        let Some(state) = call.current_round().and_then(|round| round.state_digest()) else { return Ok(()) };
        let Some(connection) = call.settings.connection.upgrade() else {
            return Err(unavailable());
        };
        purge::start(&connection.server.shared);
        let (store, ttl) = (&connection.config.store, connection.config.state_ttl);
        let (key, precondition) = (format!("used/{state}"), Precondition::FieldAbsent);
        let write = Write::Set { key: &key, field: "used", value: Bytes::new(), precondition, ttl };
        match store.commit(&[write]).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => {
                let text =
                    format!("Invalid params: `{REQUEST_STATE}` was used before; call again without it");
                let error = RpcError::InvalidParams(text.into()).with("path", REQUEST_STATE);
                Err(HandlerError::from_rpc_error(error))
            }
            Err(error) => {
                log::error!(error = %Chain(&*error), "a state could not be marked as used");
                Err(unavailable())
            }
        }
    }
}

fn unavailable() -> HandlerError {
    let text = "Service unavailable: the state of the call cannot be reached now; try again later";
    HandlerError::from_rpc_error(RpcError::Other(ErrorObject::new(code::UNAVAILABLE, text)))
}
