//! Ping: checks that the peer responds (up to 2025-11-25).

use super::NoParams;
use super::result::Empty;
use super::wire::method;

method! {
    /// Checks that the peer responds.
    Ping = "ping", NoParams => Empty
}
