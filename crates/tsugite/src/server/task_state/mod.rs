//! Tasks as they are stored and as this process knows them: records, the table of running tasks, and who waits for
//! changes.
//!
//! `task_run` runs the handler of a task, and `tasks` answers the requests about tasks. Neither is used here.

mod record;
mod running_task;
mod settings;
mod task_hub;
mod task_store;
mod task_table;
mod task_watch;
pub(crate) mod timestamp;

pub(crate) use record::{
    OnceStep, StoredCaller, StoredTask, TaskCall, TaskOutcome, TaskQuestion, TaskState, VisibleState,
};
pub(crate) use running_task::{OnceStart, RunningTask, TaskLost};
pub(crate) use settings::TaskSettings;
pub(crate) use task_hub::CreateError;
pub(crate) use task_store::{ChangeError, IndexEntry, is_unreadable};
pub(crate) use task_table::TaskTable;
pub(crate) use task_watch::TaskWatch;
pub(crate) use timestamp::now_millis;
