//! Ping: checks that the peer responds (up to 2025-11-25).

use super::EmptyParams;
use super::result::EmptyResult;
use super::wire::method;

method! {
    /// Checks that the peer responds.
    Ping = "ping", EmptyParams => EmptyResult
}
