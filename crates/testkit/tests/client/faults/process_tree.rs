//! Child processes and their descendants: none is left in the process table, however they behave.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tsugite::client::{Client, ClientBuilder};

use super::shell::sh;
use super::{HANDSHAKE, call, until, within};

/// Process trees that resist termination.
const FAMILIES: [(&str, usize); 6] = [
    // One process.
    ("trap '' TERM HUP INT; handshake; read_line; while :; do read -r line; done", 1),
    // With a child and a grandchild.
    ("(trap '' TERM; while :; do sleep 600; done) & handshake; read_line; drain; wait", 3),
    // One whose parent has exited.
    ("(sh -c 'sleep 600 & sleep 600' &); handshake; read_line; drain", 4),
    // In its own session, twice.
    (
        "setsid sh -c 'setsid sleep 600 & trap \"\" TERM HUP; while :; do sleep 600; done' & handshake; read_line; drain",
        4,
    ),
    // One that holds the pipes open.
    ("(trap '' TERM; exec sleep 600) & handshake; read_line; exec sleep 600", 2),
    // Stopped.
    ("sleep 600 & handshake; read_line; kill -STOP $$", 2),
];

#[tokio::test]
async fn close_leaves_no_processes() {
    for (script, size) in FAMILIES {
        let family = Family::new();
        let client = within(family.spawn(script)).await.unwrap();
        let id = client.process_id().unwrap();
        let all = family.all(size).await;
        within(client.close()).await;
        assert!(!is_in_table(id), "the child itself: {script}");
        for id in all {
            // All were killed; processes that are not our children take a moment to die.
            until(|| is_dead(id)).await;
        }
        assert!(call(&client, "t").await.unwrap_err().to_string().contains("closed"));
    }
}

#[tokio::test]
async fn drop_leaves_no_processes() {
    for (script, size) in FAMILIES {
        let family = Family::new();
        let client = within(family.spawn(script)).await.unwrap();
        let clone = client.clone();
        let id = client.process_id().unwrap();
        let all = family.all(size).await;
        drop(client);
        assert!(!is_dead(id), "a clone keeps it alive");
        drop(clone);
        gone(id, &all).await;
    }
}

#[tokio::test]
async fn dropped_handshake_leaves_no_processes() {
    for (script, size) in FAMILIES {
        let family = Family::new();
        // The child never responds, so the handshake never ends.
        let script = script.replace("handshake;", "");
        let connecting = super::Running::new(family.spawn(&script).into_future());
        let all = family.all(size).await;
        drop(connecting);
        for id in all {
            until(|| is_dead(id)).await;
        }
    }
}

#[tokio::test]
async fn failed_handshake_leaves_no_processes() {
    let all = FAMILIES.map(async |(script, size)| {
        let family = Family::new();
        let script = script.replace("handshake;", "");
        let connecting = family.spawn(&script).timeout(Duration::from_secs(1)).into_future();
        let connecting = super::Running::new(connecting);
        let all = family.all(size).await;
        assert!(connecting.end().await.is_err());
        for id in all {
            until(|| is_dead(id)).await;
        }
    });
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn exited_child_leaves_no_processes() {
    let family = Family::new();
    let client = within(family.spawn("sleep 600 & handshake; read_line; exit 3")).await.unwrap();
    let id = client.process_id().unwrap();
    let all = family.all(2).await;
    assert!(call(&client, "t").await.unwrap_err().is_connection_lost());
    // The client was neither closed nor used again.
    gone(id, &all).await;
    drop(client);
}

#[test]
fn runtime_shutdown_leaves_no_processes() {
    let family = Family::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (script, size) = FAMILIES[1];
    let (client, all) = runtime.block_on(async {
        let client = within(family.spawn(script)).await.unwrap();
        let all = family.all(size).await;
        (client, all)
    });
    drop(runtime);
    drop(client);
    let end = std::time::Instant::now() + super::PATIENCE;
    while !all.iter().all(|id| is_dead(*id)) {
        assert!(std::time::Instant::now() < end, "some processes still run");
        std::thread::yield_now();
    }
}

/// A process tree that is recognized by a unique mark.
struct Family(String);

impl Family {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        Self(format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    fn spawn(&self, script: &str) -> ClientBuilder {
        // Long enough for processes that exit by themselves, short for those that do not.
        let command = sh(script).env("FAMILY", &self.0).shutdown_grace(Duration::from_millis(300));
        Client::spawn(command).revision(HANDSHAKE)
    }

    /// Waits until there are `size` processes and returns their ids.
    async fn all(&self, size: usize) -> Vec<u32> {
        let mut all = Vec::new();
        until(|| {
            all = self.now();
            all.len() >= size
        })
        .await;
        all
    }

    fn now(&self) -> Vec<u32> {
        let mark = format!("FAMILY={}\0", self.0);
        let ids =
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let marked = |id: &u32| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.windows(mark.len()).any(|part| part == mark.as_bytes())
        };
        ids.filter(marked).collect()
    }
}

/// Waits until a child is reaped and all of its descendants are dead.
async fn gone(child: u32, all: &[u32]) {
    until(|| !is_in_table(child)).await;
    for id in all {
        until(|| is_dead(*id)).await;
    }
}

pub(crate) fn is_in_table(id: u32) -> bool {
    fs::exists(format!("/proc/{id}")).unwrap()
}

/// Whether a process has exited. A process that is not our child is reaped by its own parent.
fn is_dead(id: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { return true };
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
    matches!(state, Some('Z' | 'X') | None)
}
