//! A [`Store`](tsugite_store::Store) in Redis, for several replicas of a server.
//!
//! ```
//! use tsugite_redis::Redis;
//!
//! # fn main() -> Result<(), tsugite_redis::UrlError> {
//! let store = Redis::at("redis://localhost")?.prefix("notes");
//! # Ok(())
//! # }
//! ```
//!
//! It needs one Redis server, 7.0 or newer, or a server that is compatible with it. A node of a Redis Cluster is refused:
//! a commit writes several keys at once, which a cluster keeps on different nodes.
//!
//! # Connections
//!
//! The store connects when it is first used, and again when a connection is lost. It never sends a command twice. One
//! connection serves all operations; a second one waits for messages, so that it holds up nothing else.
//!
//! An operation fails if Redis does not answer each of its commands within [`Redis::timeout`] (2 seconds by default). The
//! connection is closed then. While connecting fails it is tried again every 50 ms to 1 s, and operations fail at once.
//! [`receive`](tsugite_store::Store::receive) returns without messages after 3 seconds, and fails if Redis has not answered
//! after 3 seconds and the timeout.
//!
//! # Keys
//!
//! All keys begin with the [prefix](Redis::prefix) and have a time to live.
//!
//! | key | type | contents |
//! |---|---|---|
//! | `tsugite:record:<key>` | hash | fields: 8 bytes of version, then the value; the field `0xff` marks that the record exists |
//! | `tsugite:limit:<key>` | string | the time at which a rate limit is full again |
//! | `tsugite:log:<log>` | hash | owner, last event, end and size of a log |
//! | `tsugite:events:<log>` | stream | one entry for each append; its id is the number of its last event |
//! | `tsugite:inbox:<replica>` | stream | messages to one replica: at least the last 100,000 |
//! | `tsugite:broadcast` | stream | messages to all replicas: at least the last 10,000, for an hour after the last one and while a replica waits |
//! | `tsugite:lease:<replica>` | string | exists while the replica is alive |
//!
//! # Commands
//!
//! | operation | commands |
//! |---|---|
//! | `read` | 1 `HMGET` |
//! | `commit`, also with a conflict | 1 script |
//! | `list` | 1 script; with more than 100 fields and more than a page, also 1 `HMGET` |
//! | `take`, `spend`, `read_log`, `renew_lease` | 1 script each |
//! | `receive` | 1 `XREAD BLOCK`; on a new connection, after a wait without messages and for a new position also 1 script |
//! | `receive` from the default position | 1 script |
//! | `inbox` | 1 `XRANGE` |
//! | `has_lease` | 1 `EXISTS` |
//! | `end_lease` | 1 `UNLINK` |
//!
//! Each command is one round trip. A script is an `EVALSHA`; after a restart of Redis, the script is loaded again, which is
//! two more. Redis keeps no order of fields: `list` reads a record of up to 100 fields as a whole and a larger one's names,
//! 10,000 names for each page of a record with 10,000 fields.
//!
//! # Settings of Redis
//!
//! - `maxmemory-policy noeviction`, the default: with another policy, Redis removes sessions and events when memory is short.
//!   At `maxmemory`, commits fail and write nothing; deletions and renewals of leases still work.
//! - A restart without persistence loses the contents. The store works again as soon as Redis does, and
//!   [`Received::missed`](tsugite_store::Received::missed) is set. If Redis loses only the last moments, as with
//!   `appendfsync everysec` or a failover to a replica, lost messages go unnoticed if as many new ones are sent before a
//!   receiver has connected again.
//! - A user needs the commands above on keys with the prefix: `~tsugite:* +@read +@write +@connection +@scripting +@stream +time`
//!   suffices. The store checks that when it connects, so that no commit fails half-way.

mod address;
mod client;
mod commit;
mod connection;
mod error;
mod logs;
mod messages;
mod records;
mod reply;
mod script;
mod settings;
mod shared_connection;
mod store;
mod tls;

pub use address::UrlError;
pub use store::Redis;
