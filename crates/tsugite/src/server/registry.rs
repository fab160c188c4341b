//! What is offered, in the order it was registered, and the lists that were already written.

use std::sync::{Arc, OnceLock};

use indexmap::IndexMap;
use tsugite_core::jsonrpc::{Id, Incoming, Limits, Message, RawJson, Response, parse};
use tsugite_core::protocol::tools::{self, List, ListResult};
use tsugite_core::revision::{Revision, ServerStamp, write_result};
use tsugite_core::session::header::HeaderParams;

use super::tool_fn::{Handler, Tool};

/// What is offered.
#[derive(Default)]
pub(crate) struct Registry {
    tools: IndexMap<String, Entry>,
    mistakes: Vec<String>,
    /// The list of tools as each revision reads it; written once until something changes.
    tool_lists: [OnceLock<Arc<RawJson>>; 5],
}

pub(crate) struct Entry {
    definition: tools::Tool,
    pub(crate) handler: Arc<dyn Handler>,
}

impl Registry {
    pub(crate) fn add_tool(&mut self, tool: Tool) {
        let name = tool.definition.name.clone();
        let Some(handler) = tool.handler else {
            return self.mistakes.push(format!("the tool {name:?} has no handler"));
        };
        if name.is_empty() {
            return self.mistakes.push("a tool has no name".to_owned());
        }
        if self.tools.contains_key(&name) {
            return self.mistakes.push(format!("the tool {name:?} was registered twice"));
        }
        if !tool.definition.input_schema.is_object_rooted() {
            return self.mistakes.push(format!("the arguments of the tool {name:?} are not an object"));
        }
        if let Err(mark) = HeaderParams::of(&tool.definition.input_schema) {
            return self.mistakes.push(format!("the tool {name:?}: {mark}"));
        }
        self.tools.insert(name, Entry { definition: tool.definition, handler });
        self.tool_lists = Default::default();
    }

    pub(crate) fn mistakes(&self) -> &[String] {
        &self.mistakes
    }

    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Entry> {
        self.tools.get(name)
    }

    /// The list of tools as JSON, the way `revision` writes it.
    pub(crate) fn tool_list(&self, revision: Revision, stamp: &ServerStamp) -> Arc<RawJson> {
        let write = || {
            let list = ListResult::new(
                self.tools.values().map(|entry| entry.definition.clone()).collect::<Vec<_>>(),
            );
            Arc::new(written(list, revision, stamp))
        };
        match self.tool_lists.get(revision as usize) {
            Some(cell) => cell.get_or_init(write).clone(),
            None => write(),
        }
    }
}

/// The list as the result of a message, without the message around it.
fn written(list: ListResult, revision: Revision, stamp: &ServerStamp) -> RawJson {
    let mut out = Vec::new();
    // Tools can be said in every revision, so this cannot fail.
    if let Err(error) = write_result::<List>(&mut out, &Id::from(0), list, revision, Some(stamp)) {
        tracing::error!(%error, "the list of tools could not be written");
    }
    match parse(&out, &Limits::default().message_bytes(usize::MAX)) {
        Ok(Incoming::Single(Message::Response(Response { outcome: Ok(result), .. }))) => result.to_owned(),
        _ => RawJson::empty_object(),
    }
}
