//! Tasks: 2025-11-25 names members differently and has fewer; the extension has no list and an empty acknowledgement.

use serde::Deserialize;

use super::super::{Revision, Translate, UnsupportedByRevisionError};
use super::same_everywhere;
use crate::jsonrpc::RawJson;
use crate::protocol::tasks::{
    CancelResult, CreateTaskResult, GetResult, ListResult, PayloadResult, StatusParams, Task, TaskFormat,
    TaskParams, TaskStatus, UpdateParams,
};

impl Translate for Task {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        self.format = match to {
            _ if to.is_stateless() => TaskFormat::Extension,
            _ if to.has_core_tasks() => TaskFormat::Core,
            _ => return Err(UnsupportedByRevisionError::Tasks),
        };
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {
        self.format = TaskFormat::Extension;
    }
}

impl Translate for GetResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if to.has_core_tasks() {
            // There the task of a failed tool is `failed`; the extension completes it, and the result has `isError`.
            if self.task.status == TaskStatus::Completed && self.result.as_ref().is_some_and(is_tool_error) {
                self.task.status = TaskStatus::Failed;
            }
            // There `tasks/result` returns the result, and input is requested with requests.
            self.result = None;
            self.error = None;
            self.input_requests = None;
        }
        if to.is_stateless() {
            match self.task.status {
                TaskStatus::Completed if self.result.is_none() => {
                    return Err(UnsupportedByRevisionError::MissingMember("result"));
                }
                TaskStatus::Failed if self.error.is_none() => {
                    return Err(UnsupportedByRevisionError::MissingMember("error"));
                }
                TaskStatus::InputRequired if self.input_requests.is_none() => {
                    return Err(UnsupportedByRevisionError::MissingMember("inputRequests"));
                }
                _ => {}
            }
        }
        for request in self.input_requests.iter_mut().flat_map(|requests| requests.values_mut()) {
            request.downgrade(to)?;
        }
        self.task.downgrade(to)
    }

    fn upgrade(&mut self, from: Revision) {
        self.task.upgrade(from);
    }
}

fn is_tool_error(result: &RawJson) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ErrorFlag {
        #[serde(default)]
        is_error: bool,
    }
    result.read::<ErrorFlag>().is_ok_and(|peek| peek.is_error)
}

impl Translate for CreateTaskResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        self.task.downgrade(to)
    }

    fn upgrade(&mut self, from: Revision) {
        self.task.upgrade(from);
    }
}

impl Translate for CancelResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if to.is_stateless() {
            self.task = None;
            return Ok(());
        }
        self.task.as_mut().ok_or(UnsupportedByRevisionError::MissingMember("task"))?.downgrade(to)
    }

    fn upgrade(&mut self, from: Revision) {
        self.task.iter_mut().for_each(|task| task.upgrade(from));
    }
}

impl Translate for StatusParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        self.task.downgrade(to)
    }

    fn upgrade(&mut self, from: Revision) {
        self.task.upgrade(from);
    }
}

impl Translate for ListResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        self.tasks.iter_mut().try_for_each(|task| task.downgrade(to))
    }

    fn upgrade(&mut self, from: Revision) {
        self.tasks.iter_mut().for_each(|task| task.upgrade(from));
    }
}

same_everywhere!(PayloadResult, TaskParams, TaskStatus, UpdateParams);
