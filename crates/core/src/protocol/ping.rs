//! Ping: is anybody there (up to 2025-11-25).

use super::EmptyParams;
use super::result::EmptyResult;
use super::wire::method;

method! {
    /// Is anybody there.
    Ping = "ping", EmptyParams => EmptyResult
}
