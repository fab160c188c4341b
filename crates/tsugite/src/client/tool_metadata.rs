//! Metadata of a server's tools: the arguments that headers repeat, whether a call is idempotent, whether it can have a key,
//! and output schemas.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tsugite_core::protocol::tools::{TaskSupport, Tool};
use tsugite_core::protocol::{Idempotency, Schema};
use tsugite_core::session::header::{self, HeaderParams};

use crate::lock::lock;
use crate::shared::log;

/// The metadata of listed tools.
#[derive(Default)]
pub(super) struct ToolMetadataCache {
    tools: Mutex<HashMap<String, ToolMetadata>>,
    /// Whether the list was read to its end, and has not changed since. Set while `tools` is locked.
    is_complete: AtomicBool,
    /// Counts the changes of the list. Increased while `tools` is locked.
    changes: AtomicU64,
}

struct ToolMetadata {
    header_params: HeaderParams,
    idempotent: bool,
    /// Set if calls can have a key.
    idempotency: Option<Idempotency>,
    output_schema: Option<Schema>,
    /// Whether the tool can run as a task.
    task_support: TaskSupport,
    /// Whether the list has changed since it named the tool.
    has_changed: bool,
}

impl ToolMetadataCache {
    /// Records the tools of a list. With `remove_invalid`, a tool whose `x-mcp-header` marks are invalid is removed
    /// from the list, with a warning.
    pub(super) fn update(&self, tools: &mut Vec<Tool>, remove_invalid: bool) {
        let mut known = lock(&self.tools);
        tools.retain(|tool| {
            let header_params = match HeaderParams::from_schema(&tool.input_schema) {
                Ok(header_params) => header_params,
                Err(mark) if remove_invalid => {
                    log::warn!(tool = tool.name, %mark, "removed a tool with an invalid `x-mcp-header` from the list");
                    known.remove(&tool.name);
                    return false;
                }
                Err(_) => HeaderParams::default(),
            };
            let hints = tool.annotations.as_ref();
            let idempotent = hints.is_some_and(|hints| {
                hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true)
            });
            // The size is limited, whatever the server lists.
            if known.len() < MAX_TOOLS || known.contains_key(&tool.name) {
                let execution = tool.execution.and_then(|execution| execution.task_support);
                let metadata = ToolMetadata {
                    header_params,
                    idempotent,
                    idempotency: tool.meta.as_ref().and_then(|meta| meta.idempotency()),
                    output_schema: tool.output_schema.clone(),
                    task_support: execution.unwrap_or(TaskSupport::Forbidden),
                    has_changed: false,
                };
                known.insert(tool.name.clone(), metadata);
            }
            true
        });
    }

    /// Handles a change of the list.
    pub(super) fn invalidate(&self) {
        // Header marks stay until the next list: the server refuses a wrong header, and then the list is read again. A key
        // does no harm where the server no longer looks at it.
        let mut tools = lock(&self.tools);
        for known in tools.values_mut() {
            known.idempotent = false;
            known.has_changed = true;
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.is_complete.store(false, Ordering::Release);
    }

    /// The number of changes of the list, for [`mark_complete`](Self::mark_complete).
    pub(super) fn change_count(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Records that the list was read to its end. `changes` is the number of its changes before it was read: a list that has
    /// changed meanwhile is not complete.
    pub(super) fn mark_complete(&self, changes: u64) {
        let _tools = lock(&self.tools);
        if self.change_count() == changes {
            self.is_complete.store(true, Ordering::Release);
        }
    }

    /// Whether the list was read to its end, and has not changed since.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Whether the tool can run as a task; `None` if the list must be read to know it. A tool that is not listed cannot.
    pub(super) fn task_support(&self, name: &str) -> Option<TaskSupport> {
        let tools = lock(&self.tools);
        match tools.get(name).filter(|known| !known.has_changed) {
            Some(known) => Some(known.task_support),
            None => self.is_complete().then_some(TaskSupport::Forbidden),
        }
    }

    /// Whether the tool could run as a task when the list was last read. A tool that was not listed could not.
    pub(super) fn last_task_support(&self, name: &str) -> TaskSupport {
        lock(&self.tools).get(name).map_or(TaskSupport::Forbidden, |known| known.task_support)
    }

    /// Whether this tool was listed, and the list has not changed since.
    pub(super) fn is_current(&self, name: &str) -> bool {
        lock(&self.tools).get(name).is_some_and(|known| !known.has_changed)
    }

    /// Whether the server says that calling this tool twice is safe.
    pub(super) fn is_idempotent(&self, name: &str) -> bool {
        lock(&self.tools).get(name).is_some_and(|known| known.idempotent)
    }

    /// How long the server remembers calls of this tool by their key, if it did when the list was last read.
    pub(super) fn idempotency(&self, name: &str) -> Option<Idempotency> {
        lock(&self.tools).get(name)?.idempotency
    }

    /// For how long a call of this tool is safe to repeat with its key; `None` if the list must be read to know it.
    pub(super) fn key_retention(&self, name: &str) -> Option<Duration> {
        let tools = lock(&self.tools);
        match tools.get(name).filter(|known| !known.has_changed) {
            Some(known) => {
                let durable = known.idempotency.filter(|idempotency| idempotency.durable);
                Some(durable.map_or(Duration::ZERO, |durable| Duration::from_millis(durable.retention_ms)))
            }
            None => self.is_complete().then_some(Duration::ZERO),
        }
    }

    /// The output schema of the tool.
    pub(super) fn output_schema(&self, name: &str) -> Option<Schema> {
        lock(&self.tools).get(name)?.output_schema.clone()
    }

    /// The arguments of a tool that headers repeat, if there are any.
    pub(super) fn header_params(&self, name: &str) -> Option<HeaderParams> {
        lock(&self.tools)
            .get(name)
            .filter(|known| !known.header_params.is_empty())
            .map(|known| known.header_params.clone())
    }

    /// The headers that repeat arguments of a call.
    pub(super) fn param_headers(&self, name: &str, arguments: Option<&str>) -> Vec<(String, String)> {
        let known = lock(&self.tools);
        let Some(known) = known.get(name).filter(|known| !known.header_params.is_empty()) else {
            return Vec::new();
        };
        let arguments: Value = arguments.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let mirrored = known.header_params.iter().filter_map(|param| {
            let value = param.value(&arguments)?;
            Some((format!("mcp-param-{}", param.name), header::encode(&value).into_owned()))
        });
        mirrored.collect()
    }
}

/// Tools whose metadata is kept.
const MAX_TOOLS: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_list_keeps_keys_and_leaves_repeats_open() {
        let tool = r#"{"name": "t", "inputSchema": {"type": "object"},
            "_meta": {"dev.tsugite/idempotency": {"retentionMs": 60000, "durable": true}}}"#;
        let tools = ToolMetadataCache::default();
        tools.update(&mut vec![serde_json::from_str(tool).unwrap()], false);
        assert_eq!(tools.idempotency("t"), Some(Idempotency::new(60_000, true)));
        assert_eq!(tools.key_retention("t"), Some(Duration::from_secs(60)));
        tools.invalidate();
        assert!(tools.idempotency("t").is_some() && tools.idempotency("other").is_none());
        assert_eq!((tools.key_retention("t"), tools.is_current("t")), (None, false));
        tools.mark_complete(tools.change_count());
        assert_eq!(tools.key_retention("t"), Some(Duration::ZERO));
    }

    #[test]
    fn list_that_changes_while_it_is_read_forbids_no_task() {
        let tool =
            r#"{"name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}"#;
        let tools = ToolMetadataCache::default();
        let changes = tools.change_count();
        tools.update(&mut vec![serde_json::from_str(tool).unwrap()], false);
        assert_eq!(tools.task_support("t"), Some(TaskSupport::Required));
        tools.invalidate();
        tools.mark_complete(changes);
        assert_eq!((tools.task_support("t"), tools.task_support("other")), (None, None));
        assert_eq!(tools.last_task_support("t"), TaskSupport::Required);
        tools.mark_complete(tools.change_count());
        assert_eq!(tools.task_support("t"), Some(TaskSupport::Forbidden));
    }
}
