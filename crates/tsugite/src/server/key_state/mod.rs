//! Idempotency keys as they are stored and as this process knows them: records, their store, and the calls that are handled
//! now.
//!
//! `idempotency` handles the calls, and is not used here.

mod detached_runs;
mod key_record;
mod key_store;
mod key_table;
mod keyed_run;
mod settings;

pub(crate) use detached_runs::DetachedRun;
pub(crate) use key_record::{KeyRecord, KeyState};
pub(crate) use key_store::{KeyConflict, KeyWrite, OutcomeChange, StoredKey};
pub(crate) use key_table::{KeyGuard, KeyTable};
pub(crate) use keyed_run::{BeginTask, KeyedRun};
pub(crate) use settings::{OnceSettings, REFRESH_INTERVAL};
