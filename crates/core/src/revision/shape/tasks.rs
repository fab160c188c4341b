//! Tasks: 2025-11-25 spells them its own way and shows less; the extension has no list and a bare acknowledgement.

use serde::Deserialize;

use super::super::{Revision, Translate, Unsayable};
use super::same_everywhere;
use crate::jsonrpc::RawJson;
use crate::protocol::tasks::{
    CancelResult, GetResult, ListResult, PayloadResult, Spelling, StatusParams, Task, TaskCreated,
    TaskParams, TaskStatus, UpdateParams,
};

impl Translate for Task {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        self.spelling = match to {
            _ if to.is_stateless() => Spelling::Extension,
            _ if to.has_core_tasks() => Spelling::Core,
            _ => return Err(Unsayable::Tasks),
        };
        Ok(())
    }

    fn inward(&mut self, _from: Revision) {
        self.spelling = Spelling::Extension;
    }
}

impl Translate for GetResult {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        if to.has_core_tasks() {
            // There a tool that failed has a failed task; the extension completes it and lets the result tell.
            if self.task.status == TaskStatus::Completed && self.result.as_ref().is_some_and(is_tool_error) {
                self.task.status = TaskStatus::Failed;
            }
            // `tasks/result` fetches the answer there, and questions are asked as requests.
            self.result = None;
            self.error = None;
            self.input_requests = None;
        }
        if to.is_stateless() {
            match self.task.status {
                TaskStatus::Completed if self.result.is_none() => return Err(Unsayable::Missing("result")),
                TaskStatus::Failed if self.error.is_none() => return Err(Unsayable::Missing("error")),
                TaskStatus::InputRequired if self.input_requests.is_none() => {
                    return Err(Unsayable::Missing("inputRequests"));
                }
                _ => {}
            }
        }
        for request in self.input_requests.iter_mut().flat_map(|requests| requests.values_mut()) {
            request.outward(to)?;
        }
        self.task.outward(to)
    }

    fn inward(&mut self, from: Revision) {
        self.task.inward(from);
    }
}

fn is_tool_error(result: &RawJson) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Peek {
        #[serde(default)]
        is_error: bool,
    }
    result.read::<Peek>().is_ok_and(|peek| peek.is_error)
}

impl Translate for TaskCreated {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        self.task.outward(to)
    }

    fn inward(&mut self, from: Revision) {
        self.task.inward(from);
    }
}

impl Translate for CancelResult {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        if to.is_stateless() {
            self.task = None;
            return Ok(());
        }
        self.task.as_mut().ok_or(Unsayable::Missing("task"))?.outward(to)
    }

    fn inward(&mut self, from: Revision) {
        self.task.iter_mut().for_each(|task| task.inward(from));
    }
}

impl Translate for StatusParams {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        self.task.outward(to)
    }

    fn inward(&mut self, from: Revision) {
        self.task.inward(from);
    }
}

impl Translate for ListResult {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        self.tasks.iter_mut().try_for_each(|task| task.outward(to))
    }

    fn inward(&mut self, from: Revision) {
        self.tasks.iter_mut().for_each(|task| task.inward(from));
    }
}

same_everywhere!(PayloadResult, TaskParams, TaskStatus, UpdateParams);
