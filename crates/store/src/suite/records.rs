//! Checks of records and rate limits.

use std::time::Duration;

use bytes::Bytes;

use super::{Failure, SHORT, Subject, TTL, bytes, eventually, expect, expect_eq};
use crate::{MAX_KEY_BYTES, MAX_VALUE_BYTES, Precondition, Recipient, SpendLimit, Write};

fn set<'a>(key: &'a str, field: &'a str, value: &str, precondition: Precondition) -> Write<'a> {
    Write::Set { key, field, value: bytes(value), precondition, ttl: TTL }
}

impl Subject {
    /// The value of one field.
    async fn value(&self, key: &str, field: &str) -> Result<Option<String>, Failure> {
        let fields = self.store.read(key, &[field]).await?;
        let field = fields.and_then(|fields| fields.into_iter().next().flatten());
        Ok(field.map(|field| String::from_utf8_lossy(&field.value).into_owned()))
    }
}

pub(super) async fn fields_are_read_in_one_trip(s: Subject) -> Result<(), Failure> {
    let key = s.key("k");
    expect("no record before the first write", s.store.read(&key, &["a"]).await?.is_none())?;
    s.commit(&[set(&key, "a", "1", Precondition::None), set(&key, "b", "2", Precondition::None)]).await?;
    let read = s.store.read(&key, &["b", "missing", "a"]).await?.unwrap_or_default();
    let values: Vec<_> = read.iter().map(|field| field.as_ref().map(|field| field.value.clone())).collect();
    expect_eq("fields in the order of the names", &values, &vec![Some(bytes("2")), None, Some(bytes("1"))])?;
    expect_eq("no names, but a record", &s.store.read(&key, &[]).await?.map(|read| read.len()), &Some(0))?;
    s.commit(&[Write::Remove { key: &key, field: "a", precondition: Precondition::None }]).await?;
    expect_eq("a removed field", &s.value(&key, "a").await?, &None)?;
    s.commit(&[Write::Remove { key: &key, field: "b", precondition: Precondition::None }]).await?;
    expect("a record without fields does not exist", s.store.read(&key, &["b"]).await?.is_none())?;
    s.commit(&[set(&key, "a", "1", Precondition::None)]).await?;
    s.commit(&[Write::Delete { key: &key }]).await?;
    expect("a deleted record does not exist", s.store.read(&key, &["a"]).await?.is_none())
}

pub(super) async fn preconditions_hold(s: Subject) -> Result<(), Failure> {
    let key = s.key("k");
    s.conflict(&[set(&key, "a", "0", Precondition::RecordExists)]).await?;
    s.conflict(&[set(&key, "a", "0", Precondition::FieldAbsentInRecord)]).await?;
    s.conflict(&[set(&key, "a", "0", Precondition::FieldVersion(1))]).await?;
    expect("a conflict writes nothing", s.store.read(&key, &["a"]).await?.is_none())?;
    let first = s.commit(&[set(&key, "a", "1", Precondition::FieldAbsent)]).await?.version;
    let conflict = s.conflict(&[set(&key, "a", "2", Precondition::FieldAbsent)]).await?;
    let current = conflict.current.map(|field| (field.value, field.version));
    expect_eq("the conflict tells the value", &current, &Some((bytes("1"), first)))?;
    s.conflict(&[set(&key, "a", "2", Precondition::FieldAbsentInRecord)]).await?;
    s.commit(&[set(&key, "b", "2", Precondition::FieldAbsentInRecord)]).await?;
    s.commit(&[set(&key, "b", "3", Precondition::RecordExists)]).await?;
    let second = s.commit(&[set(&key, "a", "4", Precondition::FieldVersion(first))]).await?.version;
    s.conflict(&[set(&key, "a", "5", Precondition::FieldVersion(first))]).await?;
    let stale = Write::Remove { key: &key, field: "a", precondition: Precondition::FieldVersion(first) };
    s.conflict(&[stale]).await?;
    expect_eq("the value", &s.value(&key, "a").await?, &Some("4".to_owned()))?;
    let current = Write::Remove { key: &key, field: "a", precondition: Precondition::FieldVersion(second) };
    s.commit(&[current]).await?;
    expect_eq("the removed value", &s.value(&key, "a").await?, &None)
}

pub(super) async fn versions_differ(s: Subject) -> Result<(), Failure> {
    let key = s.key("k");
    let mut versions = Vec::new();
    for _ in 0..3 {
        versions.push(s.commit(&[set(&key, "a", "same", Precondition::None)]).await?.version);
        s.commit(&[Write::Delete { key: &key }]).await?;
    }
    versions.sort_unstable();
    versions.dedup();
    expect_eq("versions of three equal values", &versions.len(), &3)?;
    let version = s.commit(&[set(&key, "a", "v", Precondition::None)]).await?.version;
    let read = s.store.read(&key, &["a"]).await?.unwrap_or_default();
    let found = read.into_iter().next().flatten().map(|field| field.version);
    expect_eq("the version that was returned", &found, &Some(version))
}

pub(super) async fn a_commit_is_atomic(s: Subject) -> Result<(), Failure> {
    let (key, other, replica) = (s.key("k"), s.key("other"), s.key("replica"));
    s.commit(&[set(&key, "a", "1", Precondition::None)]).await?;
    let conflict = s
        .conflict(&[
            set(&other, "x", "1", Precondition::None),
            Write::Delete { key: &key },
            Write::Send { to: Recipient::Replica(&replica), message: bytes("m"), ttl: TTL },
            set(&key, "a", "2", Precondition::FieldAbsent),
        ])
        .await?;
    expect_eq("the write that conflicts", &conflict.write, &3)?;
    expect("nothing else was written", s.store.read(&other, &["x"]).await?.is_none())?;
    expect_eq("nothing was deleted", &s.value(&key, "a").await?, &Some("1".to_owned()))?;
    expect("nothing was sent", s.store.inbox(&replica).await?.is_empty())
}

pub(super) async fn fields_are_listed_in_order(s: Subject) -> Result<(), Failure> {
    let key = s.key("k");
    expect("no record, no fields", s.store.list(&key, "", 10).await?.is_empty())?;
    for field in ["b", "a/2", "a/10", "c", "é"] {
        s.commit(&[set(&key, field, field, Precondition::None)]).await?;
    }
    let names = |fields: Vec<(String, crate::Field)>| -> Vec<String> {
        fields.into_iter().map(|(name, _)| name).collect()
    };
    let all = names(s.store.list(&key, "", 10).await?);
    expect_eq("all fields", &all, &["a/10", "a/2", "b", "c", "é"].map(str::to_owned).to_vec())?;
    let page = names(s.store.list(&key, "a/2", 2).await?);
    expect_eq("a page", &page, &["b", "c"].map(str::to_owned).to_vec())?;
    expect("nothing after the last", s.store.list(&key, "é", 10).await?.is_empty())
}

pub(super) async fn records_expire_as_a_whole(s: Subject) -> Result<(), Failure> {
    let key = s.key("k");
    s.commit(&[set(&key, "a", "1", Precondition::None)]).await?;
    let short =
        Write::Set { key: &key, field: "b", value: bytes("2"), precondition: Precondition::None, ttl: SHORT };
    s.commit(&[short]).await?;
    expect_eq("before the end", &s.value(&key, "a").await?, &Some("1".to_owned()))?;
    eventually("the record has expired", || async { Ok(s.store.read(&key, &["a"]).await?.is_none()) })
        .await?;
    s.commit(&[set(&key, "a", "3", Precondition::FieldAbsent)]).await?;
    expect_eq("the old field is gone", &s.value(&key, "b").await?, &None)?;
    s.commit(&[Write::Touch { key: &key, ttl: SHORT }]).await?;
    eventually("the touched record has expired", || async {
        Ok(s.store.read(&key, &["a"]).await?.is_none())
    })
    .await?;
    s.commit(&[Write::Touch { key: &key, ttl: TTL }]).await?;
    expect("a touch creates nothing", s.store.read(&key, &["a"]).await?.is_none())
}

pub(super) async fn a_record_is_taken_once(s: Subject) -> Result<(), Failure> {
    let key = s.key("k");
    s.commit(&[set(&key, "a", "1", Precondition::None), set(&key, "b", "2", Precondition::None)]).await?;
    let mut takers = Vec::new();
    for _ in 0..8 {
        let (store, key) = (s.store.clone(), key.clone());
        takers.push(tokio::spawn(async move { store.take(&key).await.map_err(|error| error.to_string()) }));
    }
    let mut taken = Vec::new();
    for taker in takers {
        let result = taker.await.map_err(|error| Failure(error.to_string()))?;
        taken.extend(result.map_err(Failure)?);
    }
    let mut expected = vec![("a".to_owned(), bytes("1")), ("b".to_owned(), bytes("2"))];
    taken.iter_mut().for_each(|fields| fields.sort());
    expected.sort();
    expect_eq("the takers that got the record", &taken, &vec![expected])
}

pub(super) async fn one_of_many_writers_wins(s: Subject) -> Result<(), Failure> {
    let key = s.key("k");
    let mut writers = Vec::new();
    for number in 0..8 {
        let (store, key) = (s.store.clone(), key.clone());
        writers.push(tokio::spawn(async move {
            let write = set(&key, "a", &number.to_string(), Precondition::FieldAbsent);
            let committed = store.commit(&[write]).await.map_err(|error| error.to_string())?;
            Ok::<_, String>(committed.is_ok())
        }));
    }
    let mut winners = 0;
    for writer in writers {
        let won = writer.await.map_err(|error| Failure(error.to_string()))?;
        winners += usize::from(won.map_err(Failure)?);
    }
    expect_eq("winners", &winners, &1)
}

pub(super) async fn rate_limits_are_spent(s: Subject) -> Result<(), Failure> {
    let key = s.key("k");
    let limit = SpendLimit { burst: 3, per_second: 10.0 };
    expect_eq("the burst", &s.store.spend(&key, 2, limit).await?, &Ok(()))?;
    expect_eq("the rest of the burst", &s.store.spend(&key, 1, limit).await?, &Ok(()))?;
    let wait = s.store.spend(&key, 1, limit).await?;
    let wait = wait.err().ok_or_else(|| Failure("more than the burst was spent".to_owned()))?;
    expect(
        "the time to wait is positive and below 0.2 s",
        !wait.is_zero() && wait <= Duration::from_millis(200),
    )?;
    expect("another key has its own limit", s.store.spend(&s.key("other"), 3, limit).await?.is_ok())?;
    eventually("the limit fills again", || async { Ok(s.store.spend(&key, 1, limit).await?.is_ok()) })
        .await?;
    expect("more than the burst is never available", s.store.spend(&key, 4, limit).await?.is_err())
}

pub(super) async fn slow_rate_limits_are_kept(s: Subject) -> Result<(), Failure> {
    let (key, days) = (s.key("k"), 24.0 * 60.0 * 60.0);
    let limit = SpendLimit { burst: 2, per_second: 2.0 / (30.0 * days) };
    for spent in ["the first of two in 30 days", "the second of two in 30 days"] {
        expect_eq(spent, &s.store.spend(&key, 1, limit).await?, &Ok(()))?;
    }
    let wait = s.store.spend(&key, 1, limit).await?;
    let wait = wait.err().ok_or_else(|| Failure("more than two were spent in 30 days".to_owned()))?;
    expect("the time to wait is 15 days", (14.9..=15.0).contains(&(wait.as_secs_f64() / days)))
}

pub(super) async fn sizes_are_limited(s: Subject) -> Result<(), Failure> {
    let long = "k".repeat(MAX_KEY_BYTES + 1);
    let refused = |writes: Vec<Write<'_>>| {
        let commit = s.store.commit(&writes);
        async move { commit.await.is_err() }
    };
    expect("a long key is an error", refused(vec![set(&long, "a", "", Precondition::None)]).await)?;
    let key = s.key("k");
    expect("a long field is an error", refused(vec![set(&key, &long, "", Precondition::None)]).await)?;
    let large = Bytes::from(vec![b'x'; MAX_VALUE_BYTES + 1]);
    let write =
        Write::Set { key: &key, field: "a", value: large, precondition: Precondition::None, ttl: TTL };
    expect("a large value is an error", refused(vec![write]).await)?;
    expect("nothing was written", s.store.read(&key, &["a"]).await?.is_none())
}

pub(super) async fn any_bytes_are_kept(s: Subject) -> Result<(), Failure> {
    let key = s.key("k \"\\\r\n\0{é}*");
    let value = Bytes::from((0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    for value in [value, Bytes::new()] {
        let write = Write::Set {
            key: &key,
            field: "f \r\n\0é",
            value: value.clone(),
            precondition: Precondition::None,
            ttl: TTL,
        };
        s.commit(&[write]).await?;
        let read = s.store.read(&key, &["f \r\n\0é"]).await?.unwrap_or_default();
        let found = read.into_iter().next().flatten().map(|field| field.value);
        expect("the same bytes", found == Some(value))?;
    }
    Ok(())
}
