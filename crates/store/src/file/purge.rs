//! Removal of expired entries, a part at a time.
//!
//! The writer does one step in each of its transactions, together with the writes that wait, so that a purge of many entries
//! delays none of them for long.

use std::ops::Bound;

use redb::{ReadableTable, Table};

use super::tables::{Tables, decode};
use super::{logs, queues, records};
use crate::StoreError;

/// A purge that has begun.
#[derive(Default)]
pub(super) struct Purge {
    part: Part,
    /// The last name that was examined.
    after: Option<String>,
}

#[derive(Default, Clone, Copy)]
enum Part {
    #[default]
    Records,
    Logs,
    Queues,
}

impl Purge {
    /// Examines some entries and removes those that have expired. Returns whether all were examined.
    pub(super) fn step(&mut self, tables: &mut Tables<'_>) -> Result<bool, StoreError> {
        let heads = match self.part {
            Part::Records => &tables.records,
            Part::Logs => &tables.logs,
            Part::Queues => &tables.queues,
        };
        let (expired, examined) = expired(heads, self.after.as_deref(), tables.now)?;
        for name in &expired {
            match self.part {
                Part::Records => records::delete(tables, name)?,
                Part::Logs => logs::delete(tables, name)?,
                Part::Queues => queues::delete(tables, name)?,
            }
            tables.changed = true;
        }
        self.after = examined;
        if self.after.is_some() {
            return Ok(false);
        }
        self.part = match self.part {
            Part::Records => Part::Logs,
            Part::Logs => Part::Queues,
            Part::Queues => return Ok(true),
        };
        Ok(false)
    }
}

/// The names that have expired among the next ones, and the last name that was examined if there are more.
fn expired(
    heads: &Table<'_, &'static str, &'static [u8]>,
    after: Option<&str>,
    now: u64,
) -> Result<(Vec<String>, Option<String>), StoreError> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut expired = Vec::new();
    for (examined, row) in heads.range::<&str>((start, Bound::Unbounded))?.enumerate() {
        let (name, row) = row?;
        let ([expires_at], _) = decode(row.value())?;
        if expires_at <= now {
            expired.push(name.value().to_owned());
        }
        if examined + 1 >= EXAMINED_PER_STEP || expired.len() >= REMOVED_PER_STEP {
            return Ok((expired, Some(name.value().to_owned())));
        }
    }
    Ok((expired, None))
}

const EXAMINED_PER_STEP: usize = 5_000;
const REMOVED_PER_STEP: usize = 500;
