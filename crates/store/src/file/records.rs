//! Records in the file: one row for the expiry of a record, and one for each field.

use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use redb::ReadableTable;

use super::clock::expiry;
use super::tables::{FORMAT, Snapshot, Tables, decode, encode};
use crate::{Field, Precondition, StoreError};

pub(super) fn read(
    snapshot: &Snapshot,
    key: &str,
    names: &[&str],
    now: u64,
) -> Result<Option<Vec<Option<Field>>>, StoreError> {
    if !is_live(&snapshot.records, key, now)? {
        return Ok(None);
    }
    names.iter().map(|name| field(&snapshot.fields, key, name)).collect::<Result<_, _>>().map(Some)
}

pub(super) fn list(
    snapshot: &Snapshot,
    key: &str,
    after: &str,
    max: usize,
    now: u64,
) -> Result<Vec<(String, Field)>, StoreError> {
    if !is_live(&snapshot.records, key, now)? {
        return Ok(Vec::new());
    }
    fields(&snapshot.fields, key, Bound::Excluded(after), max)
}

/// Checks a precondition. Fails with the current value of the field.
pub(super) fn check(
    tables: &Tables<'_>,
    key: &str,
    name: &str,
    precondition: Precondition,
) -> Result<Result<(), Option<Field>>, StoreError> {
    if precondition == Precondition::None {
        return Ok(Ok(()));
    }
    let exists = is_live(&tables.records, key, tables.now)?;
    let current = if exists { field(&tables.fields, key, name)? } else { None };
    let holds = match precondition {
        Precondition::None => true,
        Precondition::RecordExists => exists,
        Precondition::FieldAbsent => current.is_none(),
        Precondition::FieldAbsentInRecord => exists && current.is_none(),
        Precondition::FieldVersion(version) => current.as_ref().is_some_and(|field| field.version == version),
    };
    Ok(if holds { Ok(()) } else { Err(current) })
}

pub(super) fn set(
    tables: &mut Tables<'_>,
    key: &str,
    (name, value): (&str, &[u8]),
    ttl: Duration,
) -> Result<(), StoreError> {
    if !is_live(&tables.records, key, tables.now)? {
        // The fields of an expired record must not come back with the new one.
        delete(tables, key)?;
    }
    tables.records.insert(key, encode(&[expiry(tables.now, ttl)], &[]).as_slice())?;
    // Written in place: a value may have 16 MiB.
    let mut row = tables.fields.insert_reserve((key, name), 1 + 8 + value.len())?;
    if let Some((format, rest)) = row.as_mut().split_first_mut()
        && let Some((version, rest)) = rest.split_first_chunk_mut()
    {
        *format = FORMAT;
        *version = tables.counters.version.to_le_bytes();
        rest.copy_from_slice(value);
    }
    Ok(())
}

/// Removes a field, and the record if it was the last one.
pub(super) fn remove_field(tables: &mut Tables<'_>, key: &str, name: &str) -> Result<(), StoreError> {
    if !is_live(&tables.records, key, tables.now)? {
        return Ok(());
    }
    tables.fields.remove((key, name))?;
    if fields(&tables.fields, key, Bound::Included(""), 1)?.is_empty() {
        tables.records.remove(key)?;
    }
    Ok(())
}

pub(super) fn touch(tables: &mut Tables<'_>, key: &str, ttl: Duration) -> Result<(), StoreError> {
    if is_live(&tables.records, key, tables.now)? {
        tables.records.insert(key, encode(&[expiry(tables.now, ttl)], &[]).as_slice())?;
    }
    Ok(())
}

pub(super) fn delete(tables: &mut Tables<'_>, key: &str) -> Result<(), StoreError> {
    if tables.records.remove(key)?.is_some() {
        tables.fields.retain_in((key, "")..(successor(key).as_str(), ""), |_, _| false)?;
    }
    Ok(())
}

pub(super) fn take(tables: &mut Tables<'_>, key: &str) -> Result<Option<Vec<(String, Bytes)>>, StoreError> {
    if !is_live(&tables.records, key, tables.now)? {
        return Ok(None);
    }
    let fields = fields(&tables.fields, key, Bound::Included(""), usize::MAX)?;
    delete(tables, key)?;
    tables.changed = true;
    Ok(Some(fields.into_iter().map(|(name, field)| (name, field.value)).collect()))
}

fn is_live(
    records: &impl ReadableTable<&'static str, &'static [u8]>,
    key: &str,
    now: u64,
) -> Result<bool, StoreError> {
    let Some(row) = records.get(key)? else { return Ok(false) };
    let ([expires_at], _) = decode(row.value())?;
    Ok(expires_at > now)
}

fn field(
    fields: &impl ReadableTable<(&'static str, &'static str), &'static [u8]>,
    key: &str,
    name: &str,
) -> Result<Option<Field>, StoreError> {
    fields.get((key, name))?.map(|row| decode_field(row.value())).transpose()
}

fn fields(
    fields: &impl ReadableTable<(&'static str, &'static str), &'static [u8]>,
    key: &str,
    after: Bound<&str>,
    max: usize,
) -> Result<Vec<(String, Field)>, StoreError> {
    let end = successor(key);
    let range = (after.map(|after| (key, after)), Bound::Excluded((end.as_str(), "")));
    let mut found = Vec::new();
    for row in fields.range::<(&str, &str)>(range)?.take(max) {
        let (name, row) = row?;
        found.push((name.value().1.to_owned(), decode_field(row.value())?));
    }
    Ok(found)
}

fn decode_field(row: &[u8]) -> Result<Field, StoreError> {
    let ([version], value) = decode(row)?;
    Ok(Field { value: Bytes::copy_from_slice(value), version })
}

/// The first key after `key` in the order of bytes.
fn successor(key: &str) -> String {
    format!("{key}\0")
}
