//! Checks of messages and leases.

use std::time::Duration;

use bytes::Bytes;

use super::{Failure, SHORT, Subject, TTL, bytes, eventually, expect, expect_eq};
use crate::{Position, Recipient, Write};

impl Subject {
    async fn send(&self, to: Recipient<'_>, message: &str) -> Result<(), Failure> {
        self.commit(&[Write::Send { to, message: bytes(message), ttl: TTL }]).await.map(drop)
    }

    /// Receives until there are `count` messages. Messages of other users of the engine are left out: ours begin with the
    /// name of the check.
    async fn receive(&self, replica: &str, from: &mut Position, count: usize) -> Result<Vec<Bytes>, Failure> {
        let mut messages = Vec::new();
        for _ in 0..1_000 {
            if messages.len() >= count {
                return Ok(messages);
            }
            let received = self.store.receive(replica, from).await?;
            let ours = |message: &Bytes| message.starts_with(self.name.as_bytes());
            messages.extend(received.messages.into_iter().filter(ours));
            *from = received.position;
        }
        Err(Failure(format!("only {messages:?} arrived")))
    }
}

pub(super) async fn messages_arrive_in_order(s: Subject) -> Result<(), Failure> {
    let replica = s.key("replica");
    let messages: Vec<_> = (0..20).map(|number| s.key(&number.to_string())).collect();
    for message in &messages {
        s.send(Recipient::Replica(&replica), message).await?;
    }
    let received = s.receive(&replica, &mut Position::default(), 20).await?;
    expect_eq("the messages", &received, &messages.iter().map(|message| bytes(message)).collect())?;
    let kept = s.store.inbox(&replica).await?;
    expect_eq("the messages that are kept until they are handled", &kept.len(), &20)?;
    expect("another replica gets none", s.store.inbox(&s.key("other")).await?.is_empty())
}

pub(super) async fn a_receiver_waits(s: Subject) -> Result<(), Failure> {
    let replica = s.key("replica");
    let mut position = Position::default();
    position = s.store.receive(&replica, &position).await?.position;
    let (store, name, message) = (s.store.clone(), replica.clone(), s.key("m"));
    let waiting = tokio::spawn(async move {
        let subject = Subject { store, name: message };
        subject.receive(&name, &mut position, 1).await.map_err(|Failure(reason)| reason)
    });
    // The receiver is waiting by now, or will find the message.
    tokio::task::yield_now().await;
    s.send(Recipient::Replica(&replica), &s.key("m")).await?;
    let received = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    let received = received.map_err(|_| Failure("the receiver still waits after 20 s".to_owned()))?;
    let received = received.map_err(|error| Failure(error.to_string()))?.map_err(Failure)?;
    expect_eq("the message", &received, &vec![bytes(&s.key("m"))])
}

pub(super) async fn messages_are_read_from_a_position(s: Subject) -> Result<(), Failure> {
    let replica = s.key("replica");
    let mut position = Position::default();
    s.send(Recipient::Replica(&replica), &s.key("1")).await?;
    s.receive(&replica, &mut position, 1).await?;
    let first = position.clone();
    s.send(Recipient::Replica(&replica), &s.key("2")).await?;
    s.receive(&replica, &mut position, 1).await?;
    let again = s.receive(&replica, &mut first.clone(), 1).await?;
    expect_eq("a position can be read again", &again, &vec![bytes(&s.key("2"))])?;
    s.store.renew_lease(&replica, TTL, &first).await?;
    let kept = s.store.inbox(&replica).await?;
    expect_eq("handled messages are dropped", &kept, &vec![bytes(&s.key("2"))])?;
    s.store.renew_lease(&replica, TTL, &position).await?;
    expect("all messages are handled", s.store.inbox(&replica).await?.is_empty())?;
    s.send(Recipient::Replica(&replica), &s.key("3")).await?;
    let later = s.receive(&replica, &mut position, 1).await?;
    expect_eq("a later message", &later, &vec![bytes(&s.key("3"))])
}

pub(super) async fn messages_go_to_all(s: Subject) -> Result<(), Failure> {
    let replicas = [s.key("a"), s.key("b")];
    let mut positions = Vec::new();
    s.send(Recipient::All, &s.key("before")).await?;
    for replica in &replicas {
        positions.push(s.store.receive(replica, &Position::default()).await?.position);
    }
    s.send(Recipient::All, &s.key("news")).await?;
    for (replica, mut position) in replicas.iter().zip(positions) {
        let received = s.receive(replica, &mut position, 1).await?;
        expect_eq("the message to all", &received, &vec![bytes(&s.key("news"))])?;
    }
    Ok(())
}

pub(super) async fn leases_end(s: Subject) -> Result<(), Failure> {
    let replica = s.key("replica");
    expect("no lease before the first", !s.store.has_lease(&replica).await?)?;
    s.store.renew_lease(&replica, TTL, &Position::default()).await?;
    expect("a lease", s.store.has_lease(&replica).await?)?;
    s.store.renew_lease(&replica, SHORT, &Position::default()).await?;
    eventually("the lease has ended", || async { Ok(!s.store.has_lease(&replica).await?) }).await?;
    s.store.renew_lease(&replica, TTL, &Position::default()).await?;
    s.send(Recipient::Replica(&replica), &s.key("m")).await?;
    s.store.end_lease(&replica).await?;
    expect("a lease that was ended", !s.store.has_lease(&replica).await?)?;
    expect("its inbox is dropped", s.store.inbox(&replica).await?.is_empty())
}
