//! Reads and writes the records of tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{StoredCaller, StoredTask, TaskCall, TaskState};
use super::timestamp::now_millis;
use crate::error::Chain;
use crate::replica::{RecordError, Replica, ReplicaMessage, digest, read_record};
use crate::shared::log;
use crate::shared::principal::CallerIdentity;
use crate::store::{Field, MAX_VALUE_BYTES, Precondition, Recipient, Store, StoreError, Write};

/// The tasks in the store of a server.
pub(crate) struct TaskStore {
    store: Arc<dyn Store>,
    /// This process among others; `None` if the store ends with the process.
    pub(crate) replica: Option<Arc<Replica>>,
    /// How long an index is kept: longer than any task in it.
    index_ttl: Duration,
    /// The number of tasks that were added to lists.
    listed: AtomicUsize,
}

/// An entry of an index.
pub(crate) struct IndexEntry {
    pub(crate) position: String,
    /// The id of the task; `None` if it was sealed with a key that is unknown here.
    pub(crate) id: Option<String>,
}

impl IndexEntry {
    /// Whether the position in the list of a caller says that the task has expired.
    pub(crate) fn has_expired(&self) -> bool {
        let expires = self.position.splitn(3, '-').nth(2);
        let expires = expires.and_then(|millis| u64::from_str_radix(millis, 16).ok());
        expires.is_some_and(|expires| expires <= now_millis())
    }
}

/// Why a state was not changed.
#[derive(Debug)]
pub(crate) enum ChangeError<E> {
    /// The writer does not want to change the state that it found.
    Refused(E),
    /// The task has expired.
    Gone,
    /// The state has this many bytes, more than a store takes.
    TooLarge(usize),
    /// The store failed. The change may have happened.
    Store(StoreError),
}

/// Changes a state, and says whether there is something to write. It may run more than once.
pub(crate) type ChangeFn<'a, E> = &'a mut (dyn FnMut(&mut TaskState) -> Result<bool, E> + Send);

impl TaskStore {
    pub(super) fn new(store: Arc<dyn Store>, replica: Option<Arc<Replica>>, max_ttl: Duration) -> Self {
        let index_ttl = max_ttl.saturating_add(INDEX_RESERVE);
        Self { store, replica, index_ttl, listed: AtomicUsize::new(0) }
    }

    /// The name of this process in the records.
    pub(crate) fn runner(&self) -> &str {
        self.replica.as_ref().map_or("", |replica| replica.name())
    }

    /// Stores a new task. `listed_for` is the caller whose list it is added to.
    pub(crate) async fn create(
        &self,
        call: TaskCall,
        state: TaskState,
        listed_for: Option<&StoredCaller>,
    ) -> Result<StoredTask, StoreError> {
        let (key, name) = (task_key(&call.id), digest(call.id.as_bytes()));
        let ttl = call.remaining_ttl().ok_or("the time to live of a task is over")?;
        let list = listed_for.map(|caller| (caller_key(caller), list_field(&call, &name)));
        let runner_key = runner_key(&state.runner);
        let mut writes = vec![
            set(&key, CALL, self.seal(&key, CALL, &call)?, Precondition::FieldAbsent, ttl),
            set(&key, STATE, self.seal(&key, STATE, &state)?, Precondition::FieldAbsent, ttl),
        ];
        if let Some((key, field)) = &list {
            let id = self.seal(key, field, &call.id)?;
            writes.push(set(key, field, id, Precondition::None, self.index_ttl));
        }
        if self.replica.is_some() {
            let id = self.seal(&runner_key, &name, &call.id)?;
            writes.push(set(&runner_key, &name, id, Precondition::None, self.index_ttl));
            writes.push(set(RUNNERS, &state.runner, Bytes::new(), Precondition::None, self.index_ttl));
        }
        let Ok(committed) = self.store.commit(&writes).await? else {
            return Err("a task with this id exists".into());
        };
        if let Some((key, _)) = &list
            && self.listed.fetch_add(1, Ordering::Relaxed) % PRUNE_EVERY == PRUNE_EVERY - 1
            && let Err(error) = self.prune(key).await
        {
            log::warn!(error = %Chain(&*error), "expired tasks stay in the list of their caller");
        }
        Ok(StoredTask { call: Arc::new(call), state, version: committed.version })
    }

    /// Removes the oldest tasks from a list if they have expired.
    async fn prune(&self, key: &str) -> Result<(), StoreError> {
        let kept_since =
            now_millis().saturating_sub(u64::try_from(self.index_ttl.as_millis()).unwrap_or(u64::MAX));
        let kept_since = list_start(kept_since);
        let listed = self.store.list(key, "", MAX_LISTED).await?;
        let expired = listed.iter().map(|(field, _)| field).take_while(|field| **field < kept_since);
        let precondition = Precondition::None;
        let removed: Vec<_> = expired.map(|field| Write::Remove { key, field, precondition }).collect();
        if !removed.is_empty() {
            drop(self.store.commit(&removed).await?);
        }
        Ok(())
    }

    /// Reads a task. `None` if there is none with this id. Fails with a [`RecordError`] if other replicas can read it and this
    /// one cannot.
    pub(crate) async fn read(&self, id: &str) -> Result<Option<StoredTask>, StoreError> {
        if id.len() > MAX_ID_BYTES {
            return Ok(None);
        }
        let key = task_key(id);
        let Some(fields) = self.store.read(&key, &[CALL, STATE]).await? else { return Ok(None) };
        let [Some(call), Some(state)] = &fields[..] else { return Ok(None) };
        let opened = self.open(&key, CALL, call);
        match opened.and_then(|call| Ok((call, self.open(&key, STATE, state)?))) {
            Ok((call, opened)) => {
                Ok(Some(StoredTask { call: Arc::new(call), state: opened, version: state.version }))
            }
            // It exists for replicas of that version, or with those keys.
            Err(error @ (RecordError::Newer(_) | RecordError::Sealed)) => Err(error.into()),
            Err(error) => {
                log::error!(%error, "a task cannot be read");
                Ok(None)
            }
        }
    }

    /// Changes the state of a task. If another writer was faster, `change` runs again on the state that it left.
    pub(crate) async fn change<E>(
        &self,
        mut task: StoredTask,
        change: ChangeFn<'_, E>,
    ) -> Result<StoredTask, ChangeError<E>> {
        let key = task_key(&task.call.id);
        loop {
            let before = task.state.clone();
            if !change(&mut task.state).map_err(ChangeError::Refused)? {
                return Ok(task);
            }
            if before.status != task.state.status || before.message != task.state.message {
                task.state.updated_millis = now_millis();
            }
            let ttl = task.call.remaining_ttl().ok_or(ChangeError::Gone)?;
            let value = self.seal(&key, STATE, &task.state).map_err(ChangeError::Store)?;
            if value.len() > MAX_VALUE_BYTES {
                return Err(ChangeError::TooLarge(value.len()));
            }
            let name = digest(task.call.id.as_bytes());
            let (old_runner, new_runner) = (runner_key(&before.runner), runner_key(&task.state.runner));
            let mut writes = vec![set(&key, STATE, value, Precondition::FieldVersion(task.version), ttl)];
            if self.replica.is_some() {
                let moves = before.runner != task.state.runner;
                if moves || task.state.is_final() {
                    let precondition = Precondition::None;
                    writes.push(Write::Remove { key: &old_runner, field: &name, precondition });
                }
                if moves && !task.state.is_final() {
                    let id = self.seal(&new_runner, &name, &task.call.id).map_err(ChangeError::Store)?;
                    writes.push(set(&new_runner, &name, id, Precondition::None, self.index_ttl));
                    let runner = &task.state.runner;
                    writes.push(set(RUNNERS, runner, Bytes::new(), Precondition::None, self.index_ttl));
                }
            }
            let changed = ReplicaMessage::TaskChanged { task: name.clone() };
            let replica = self.replica.as_ref();
            writes.extend(replica.and_then(|replica| replica.send(Recipient::All, &changed)));
            match self.store.commit(&writes).await.map_err(ChangeError::Store)? {
                Ok(committed) => {
                    task.version = committed.version;
                    return Ok(task);
                }
                Err(_) => {
                    let newest = self.read(&task.call.id).await.map_err(ChangeError::Store)?;
                    task = newest.ok_or(ChangeError::Gone)?;
                }
            }
        }
    }

    /// The tasks of a caller after a position, oldest first.
    pub(crate) async fn list(
        &self,
        caller: &StoredCaller,
        after: &str,
        max: usize,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        self.list_index(&caller_key(caller), after, max).await
    }

    /// Removes expired tasks from the list of their caller.
    pub(crate) async fn unlist(&self, caller: &StoredCaller, positions: &[String]) -> Result<(), StoreError> {
        let (key, precondition) = (caller_key(caller), Precondition::None);
        let remove = |field| Write::Remove { key: &key, field, precondition };
        let removed: Vec<_> = positions.iter().map(|position| remove(position)).collect();
        if !removed.is_empty() {
            drop(self.store.commit(&removed).await?);
        }
        Ok(())
    }

    /// The processes that have run tasks.
    pub(crate) async fn runners(&self) -> Result<Vec<String>, StoreError> {
        let mut names: Vec<String> = Vec::new();
        loop {
            let after = names.last().map_or("", String::as_str);
            let listed = self.store.list(RUNNERS, after, MAX_LISTED).await?;
            let is_last = listed.len() < MAX_LISTED;
            names.extend(listed.into_iter().map(|(name, _)| name));
            if is_last {
                return Ok(names);
            }
        }
    }

    /// The tasks that a process ran when it was last heard of, after a position, which is the digest of an id.
    pub(crate) async fn tasks_of_runner(
        &self,
        runner: &str,
        after: &str,
    ) -> Result<Vec<IndexEntry>, StoreError> {
        self.list_index(&runner_key(runner), after, MAX_LISTED).await
    }

    async fn list_index(&self, key: &str, after: &str, max: usize) -> Result<Vec<IndexEntry>, StoreError> {
        let listed = self.store.list(key, after, max).await?;
        let opened = listed.into_iter().map(|(field, value)| {
            let id = self.open_id(key, &field, &value);
            IndexEntry { position: field, id }
        });
        Ok(opened.collect())
    }

    /// Removes a task from the index of a process, or the process itself if `position` is `None`.
    pub(crate) async fn forget(&self, runner: &str, position: Option<&str>) -> Result<(), StoreError> {
        let (key, precondition) = (runner_key(runner), Precondition::None);
        let write = match position {
            Some(field) => Write::Remove { key: &key, field, precondition },
            None => Write::Remove { key: RUNNERS, field: runner, precondition },
        };
        drop(self.store.commit(&[write]).await?);
        Ok(())
    }

    /// Values of a store that ends with the process are not sealed.
    fn seal<T: Serialize>(&self, key: &str, field: &str, value: &T) -> Result<Bytes, StoreError> {
        let plain = serde_json::to_vec(value)?;
        match &self.replica {
            Some(replica) => replica.seal(key, field, &plain),
            None => Ok(Bytes::from(plain)),
        }
    }

    /// Opens an entry of an index.
    fn open_id(&self, key: &str, field: &str, value: &Field) -> Option<String> {
        match &self.replica {
            Some(replica) => serde_json::from_slice(&replica.open(key, field, &value.value)?).ok(),
            None => serde_json::from_slice(&value.value).ok(),
        }
    }

    fn open<T: DeserializeOwned>(&self, key: &str, field: &str, value: &Field) -> Result<T, RecordError> {
        match &self.replica {
            Some(replica) => replica.open_record(key, field, &value.value),
            None => read_record(&value.value),
        }
    }
}

fn set<'a>(
    key: &'a str,
    field: &'a str,
    value: Bytes,
    precondition: Precondition,
    ttl: Duration,
) -> Write<'a> {
    Write::Set { key, field, value, precondition, ttl }
}

/// The key of a task. The store does not show its id, which gives access to it.
fn task_key(id: &str) -> String {
    format!("task/{}", digest(id.as_bytes()))
}

fn runner_key(runner: &str) -> String {
    format!("tasks/at/{runner}")
}

fn caller_key(caller: &StoredCaller) -> String {
    let CallerIdentity { issuer, subject, client_id } = &caller.identity;
    let name = format!("{}:{issuer}{}:{subject}{client_id}", issuer.len(), subject.len());
    format!("tasks/of/{}", digest(name.as_bytes()))
}

/// Orders the tasks of a caller by the time of their creation, and ends with the time when the task expires.
fn list_field(call: &TaskCall, name: &str) -> String {
    let expires = call.created_millis.saturating_add(call.ttl_millis);
    format!("{}{name}-{expires:x}", list_start(call.created_millis))
}

fn list_start(created_millis: u64) -> String {
    format!("{created_millis:016x}-")
}

/// Whether an error says that other replicas can read a record and this one cannot.
pub(crate) fn is_unreadable(error: &StoreError) -> bool {
    error.is::<RecordError>()
}

const CALL: &str = "call";
const STATE: &str = "state";
/// The record with the processes that have run tasks.
const RUNNERS: &str = "tasks/runners";
const MAX_LISTED: usize = 1_000;
/// Looks for expired tasks in the list of a caller when so many were added to lists.
const PRUNE_EVERY: usize = 100;
/// Ids of this server are shorter.
const MAX_ID_BYTES: usize = 256;
const INDEX_RESERVE: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use tsugite_core::jsonrpc::RawJson;
    use tsugite_core::revision::Revision;

    use super::*;
    use crate::store::MemoryStore;

    /// A store with a task whose state has more members.
    async fn with_members(members: &str) -> (Arc<dyn Store>, TaskStore) {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let tasks = TaskStore::new(store.clone(), None, Duration::from_secs(60));
        let call = TaskCall {
            id: "id".to_owned(),
            tool: "tool".to_owned(),
            scopes: Vec::new(),
            params: RawJson::parse("{}").unwrap(),
            revision: Revision::NEWEST.as_str().to_owned(),
            caller: None,
            handshake: None,
            created_millis: now_millis(),
            ttl_millis: 60_000,
            poll_interval_millis: 1_000,
        };
        let task = tasks.create(call, TaskState::new("", now_millis()), None).await.unwrap();
        let text = serde_json::to_string(&task.state).unwrap().replace("\"version\":1", members);
        let key = task_key("id");
        let state = set(&key, STATE, text.into(), Precondition::None, Duration::from_secs(60));
        assert!(store.commit(&[state]).await.unwrap().is_ok());
        (store, tasks)
    }

    #[tokio::test]
    async fn members_of_a_later_version_survive_a_change() {
        let (store, tasks) = with_members(r#""version":1,"later":{"a":[1]}"#).await;
        let task = tasks.read("id").await.unwrap().unwrap();
        let mut change = |state: &mut TaskState| {
            state.message = Some("half done".to_owned());
            Ok::<_, ()>(true)
        };
        assert!(tasks.change(task, &mut change).await.is_ok());
        let fields = store.read(&task_key("id"), &[STATE]).await.unwrap().unwrap();
        let text = String::from_utf8(fields[0].clone().unwrap().value.to_vec()).unwrap();
        assert!(text.contains("half done") && text.contains(r#""later":{"a":[1]}"#), "{text}");
    }

    #[tokio::test]
    async fn all_runners_are_listed() {
        let (store, tasks) = with_members(r#""version":1"#).await;
        let names: Vec<_> = (0..2 * MAX_LISTED + 1).map(|number| format!("{number:04}")).collect();
        for name in &names {
            let write = set(RUNNERS, name, Bytes::new(), Precondition::None, Duration::from_secs(60));
            assert!(store.commit(&[write]).await.unwrap().is_ok());
        }
        assert_eq!(tasks.runners().await.unwrap(), names);
    }

    #[tokio::test]
    async fn task_of_a_newer_version_is_an_error() {
        let (_, tasks) = with_members(r#""version":2"#).await;
        assert!(tasks.read("id").await.unwrap_err().to_string().contains("version 2"));
    }
}
