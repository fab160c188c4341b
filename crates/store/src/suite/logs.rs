//! Checks of event logs.

use bytes::Bytes;

use super::{Failure, SHORT, Subject, TTL, bytes, eventually, expect, expect_eq};
use crate::{Append, LogLimits, LogRead, Precondition, Write};

const LIMITS: LogLimits = LogLimits { max_events: 100, max_bytes: 10_000, ttl: TTL };

fn append<'a>(log: &'a str, owner: &'a str, first: u64, data: &str) -> Append<'a> {
    Append {
        log,
        owner,
        replaces: None,
        first: Some(first),
        count: data.len() as u64,
        data: bytes(data),
        ends: false,
        limits: LIMITS,
    }
}

impl Subject {
    async fn log(&self, log: &str, after: u64) -> Result<LogRead, Failure> {
        self.store.read_log(log, after).await?.ok_or_else(|| Failure(format!("there is no log {log}")))
    }
}

fn data(read: &LogRead) -> Vec<(u64, u64, Bytes)> {
    read.batches.iter().map(|batch| (batch.first, batch.last, batch.data.clone())).collect()
}

pub(super) async fn events_are_read_from_a_number(s: Subject) -> Result<(), Failure> {
    let log = s.key("log");
    expect("no log before the first append", s.store.read_log(&log, 0).await?.is_none())?;
    let first = s.commit(&[Write::Append(append(&log, "me", 1, "abc"))]).await?;
    expect_eq("the number of the last event", &first.last_event, &3)?;
    s.commit(&[Write::Append(append(&log, "me", 4, "d"))]).await?;
    let read = s.log(&log, 0).await?;
    expect_eq("all events", &data(&read), &vec![(1, 3, bytes("abc")), (4, 4, bytes("d"))])?;
    expect_eq(
        "the state",
        &(read.last, read.ended, read.owner.as_str(), read.trimmed),
        &(4, false, "me", false),
    )?;
    expect_eq("events after 2", &data(&s.log(&log, 2).await?).len(), &2)?;
    expect_eq("events after 3", &data(&s.log(&log, 3).await?), &vec![(4, 4, bytes("d"))])?;
    expect_eq("events after 4", &data(&s.log(&log, 4).await?), &Vec::new())?;
    s.commit(&[Write::DeleteLog { log: &log }]).await?;
    expect("a deleted log does not exist", s.store.read_log(&log, 0).await?.is_none())
}

pub(super) async fn a_second_writer_conflicts(s: Subject) -> Result<(), Failure> {
    let (log, key) = (s.key("log"), s.key("record"));
    s.commit(&[Write::Append(append(&log, "first", 1, "a"))]).await?;
    let other =
        Write::Set { key: &key, field: "a", value: bytes("1"), precondition: Precondition::None, ttl: TTL };
    s.conflict(&[other, Write::Append(append(&log, "second", 2, "b"))]).await?;
    expect("a conflict writes nothing", s.store.read(&key, &["a"]).await?.is_none())?;
    let wrong = Append { replaces: Some("third"), ..append(&log, "second", 2, "b") };
    s.conflict(&[Write::Append(wrong)]).await?;
    let takes_over = Append { replaces: Some("first"), ends: true, ..append(&log, "second", 2, "b") };
    s.commit(&[Write::Append(takes_over)]).await?;
    s.conflict(&[Write::Append(append(&log, "first", 2, "c"))]).await?;
    s.conflict(&[Write::Append(append(&log, "first", 3, "c"))]).await?;
    let read = s.log(&log, 0).await?;
    expect_eq("the events", &data(&read), &vec![(1, 1, bytes("a")), (2, 2, bytes("b"))])?;
    expect_eq("the state", &(read.ended, read.owner.as_str()), &(true, "second"))
}

pub(super) async fn an_append_can_be_repeated(s: Subject) -> Result<(), Failure> {
    let log = s.key("log");
    for _ in 0..2 {
        let committed = s.commit(&[Write::Append(append(&log, "me", 1, "ab"))]).await?;
        expect_eq("the number of the last event", &committed.last_event, &2)?;
    }
    expect_eq("the events", &data(&s.log(&log, 0).await?), &vec![(1, 2, bytes("ab"))])?;
    s.conflict(&[Write::Append(append(&log, "me", 4, "x"))]).await?;
    s.conflict(&[Write::Append(append(&log, "me", 1, "x"))]).await?;
    for _ in 0..2 {
        let last = Append { ends: true, ..append(&log, "me", 3, "c") };
        s.commit(&[Write::Append(last)]).await?;
    }
    expect_eq("the events with the last", &s.log(&log, 0).await?.batches.len(), &2)
}

pub(super) async fn the_store_numbers_events(s: Subject) -> Result<(), Failure> {
    let log = s.key("log");
    let mut writers = Vec::new();
    for owner in ["a", "b", "c", "d"] {
        let (store, log) = (s.store.clone(), log.clone());
        writers.push(tokio::spawn(async move {
            let append = Append { first: None, ..append(&log, owner, 0, "xy") };
            let committed =
                store.commit(&[Write::Append(append)]).await.map_err(|error| error.to_string())?;
            committed.map(|committed| committed.last_event).map_err(|conflict| format!("{conflict:?}"))
        }));
    }
    let mut lasts = Vec::new();
    for writer in writers {
        lasts.push(writer.await.map_err(|error| Failure(error.to_string()))?.map_err(Failure)?);
    }
    lasts.sort_unstable();
    expect_eq("the numbers", &lasts, &vec![2, 4, 6, 8])?;
    let read = s.log(&log, 0).await?;
    let numbers: Vec<_> = read.batches.iter().map(|batch| (batch.first, batch.last)).collect();
    expect_eq("the batches", &numbers, &vec![(1, 2), (3, 4), (5, 6), (7, 8)])
}

pub(super) async fn logs_are_trimmed_and_expire(s: Subject) -> Result<(), Failure> {
    let log = s.key("log");
    let limits = LogLimits { max_events: 4, max_bytes: 10, ttl: TTL };
    let limited = |first: u64, text: &str| {
        Write::Append(Append {
            limits,
            data: bytes(text),
            count: text.len() as u64,
            ..append(&log, "me", first, "")
        })
    };
    s.commit(&[limited(1, "ab")]).await?;
    s.commit(&[limited(3, "cd")]).await?;
    expect("nothing is trimmed within the limits", !s.log(&log, 0).await?.trimmed)?;
    s.commit(&[limited(5, "e")]).await?;
    let read = s.log(&log, 0).await?;
    expect_eq("the oldest append is trimmed", &(read.trimmed, data(&read).len()), &(true, 2))?;
    expect("a reader that has it misses nothing", !s.log(&log, 2).await?.trimmed)?;
    expect("a reader in the middle of it misses some", s.log(&log, 1).await?.trimmed)?;
    let large = Append { limits, data: bytes("0123456789x"), count: 1, ..append(&log, "me", 6, "") };
    s.commit(&[Write::Append(large)]).await?;
    let read = s.log(&log, 5).await?;
    expect_eq(
        "an append beyond the limit in bytes",
        &(read.trimmed, read.last, read.batches.len()),
        &(true, 6, 0),
    )?;
    expect("a reader that has all misses nothing", !s.log(&log, 6).await?.trimmed)?;
    let short = LogLimits { ttl: SHORT, ..limits };
    s.commit(&[Write::Append(Append { limits: short, ..append(&log, "me", 7, "g") })]).await?;
    eventually("the log has expired", || async { Ok(s.store.read_log(&log, 0).await?.is_none()) }).await?;
    s.commit(&[Write::Append(append(&log, "me", 8, "h"))]).await?;
    let read = s.log(&log, 0).await?;
    expect_eq("a log that begins again", &(read.trimmed, data(&read)), &(true, vec![(8, 8, bytes("h"))]))?;
    expect("a reader that has the earlier events misses nothing", !s.log(&log, 7).await?.trimmed)
}

pub(super) async fn an_ended_log_takes_no_events(s: Subject) -> Result<(), Failure> {
    let log = s.key("log");
    s.commit(&[Write::Append(append(&log, "me", 1, "a"))]).await?;
    for _ in 0..2 {
        let end = Append { ends: true, ..append(&log, "me", 2, "") };
        s.commit(&[Write::Append(end)]).await?;
    }
    let read = s.log(&log, 0).await?;
    expect_eq("a log that ended without another event", &(read.ended, read.last), &(true, 1))?;
    s.conflict(&[Write::Append(append(&log, "me", 2, "b"))]).await?;
    s.conflict(&[Write::Append(Append { first: None, ..append(&log, "me", 0, "b") })]).await?;
    let takes_over = Append { replaces: Some("me"), ..append(&log, "other", 2, "b") };
    s.conflict(&[Write::Append(takes_over)]).await?;
    Ok(())
}
