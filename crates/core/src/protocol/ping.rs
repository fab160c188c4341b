//! Ping: is anybody there (up to 2025-11-25).

use super::NoParams;
use super::result::Empty;
use super::wire::method;

method! {
    /// Is anybody there.
    Ping = "ping", NoParams => Empty
}
