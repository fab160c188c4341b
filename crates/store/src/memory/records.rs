//! Records and rate limits in memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::Duration;

use tokio::time::Instant;

use super::{expiry, is_expired};
use crate::{Field, Precondition, SpendLimit};

/// A record: fields in the order of their names.
pub(super) struct Record {
    pub(super) fields: BTreeMap<String, Field>,
    pub(super) expires_at: Option<Instant>,
}

impl Record {
    pub(super) fn fields_after(&self, after: &str, max: usize) -> Vec<(String, Field)> {
        let later = self.fields.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        later.take(max).map(|(name, field)| (name.clone(), field.clone())).collect()
    }
}

/// Finds a record. One that has expired is removed.
pub(super) fn find<'a>(records: &'a mut HashMap<String, Record>, key: &str) -> Option<&'a mut Record> {
    if records.get(key).is_some_and(|record| is_expired(record.expires_at)) {
        records.remove(key);
    }
    records.get_mut(key)
}

/// Checks a precondition. Fails with the current value of the field.
pub(super) fn check(
    records: &mut HashMap<String, Record>,
    key: &str,
    field: &str,
    precondition: Precondition,
) -> Result<(), Option<Field>> {
    let record = find(records, key);
    let exists = record.is_some();
    let current = record.and_then(|record| record.fields.get(field).cloned());
    let holds = match precondition {
        Precondition::None => true,
        Precondition::RecordExists => exists,
        Precondition::FieldAbsent => current.is_none(),
        Precondition::FieldAbsentInRecord => exists && current.is_none(),
        Precondition::FieldVersion(version) => {
            current.as_ref().is_some_and(|current| current.version == version)
        }
    };
    if holds { Ok(()) } else { Err(current) }
}

pub(super) fn set(
    records: &mut HashMap<String, Record>,
    key: &str,
    (name, field): (&str, Field),
    ttl: Duration,
) {
    let new = || Record { fields: BTreeMap::new(), expires_at: None };
    let record = records.entry(key.to_owned()).or_insert_with(new);
    record.fields.insert(name.to_owned(), field);
    record.expires_at = expiry(ttl);
}

/// Removes a field, and the record if it was the last one.
pub(super) fn remove_field(records: &mut HashMap<String, Record>, key: &str, field: &str) {
    if let Some(record) = find(records, key) {
        record.fields.remove(field);
        if record.fields.is_empty() {
            records.remove(key);
        }
    }
}

/// A rate limit: the instant at which its bucket is full again.
pub(super) struct Bucket {
    full_at: Instant,
}

impl Bucket {
    pub(super) fn is_full(&self) -> bool {
        self.full_at <= Instant::now()
    }
}

/// Takes `cost` from a bucket, or returns the time until that much is there.
pub(super) fn spend(
    buckets: &mut HashMap<String, Bucket>,
    key: &str,
    cost: u32,
    limit: SpendLimit,
) -> Result<(), Duration> {
    let now = Instant::now();
    let seconds = |amount: u32| {
        // A limit that never fills counts as one that fills in ten years.
        let seconds = f64::from(amount) / limit.per_second;
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
    };
    let bucket = buckets.entry(key.to_owned()).or_insert(Bucket { full_at: now });
    let full_at = bucket.full_at.max(now) + seconds(cost);
    let wait = full_at.saturating_duration_since(now).saturating_sub(seconds(limit.burst));
    if !wait.is_zero() {
        return Err(wait);
    }
    bucket.full_at = full_at;
    Ok(())
}

const LONGEST: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
