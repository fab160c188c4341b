//! What a server asks while it works: answered by options, on the terminal, or not at all.

mod field;
mod form;
mod prompter;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use tsugite::client::{ClientBuilder, FormResponse, UrlResponse};
use tsugite::protocol::Role;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::elicitation::{FormParams, UrlParams};
use tsugite::protocol::logging::LogParams;
use tsugite::protocol::roots::Root;
use tsugite::protocol::sampling::{CreateMessageParams, CreateMessageResult};
use tsugite::revision::RpcError;

use crate::console::Console;
use crate::error::{CliError, Result};
use crate::options::parse_pair;
use crate::suggest::did_you_mean;
pub(crate) use field::parse_bool;
pub(crate) use prompter::{Prompter, TerminalPrompter};

/// Answers that are given beforehand.
#[derive(Debug, Default, Args)]
pub(crate) struct PresetAnswers {
    /// Answer a question of the server; what is not answered is asked on the terminal, or declined where there is none
    #[arg(long = "answer", value_name = "k=v", value_parser = parse_pair)]
    answers: Vec<(String, String)>,
    /// What the model says, if the server asks one
    #[arg(long, value_name = "TEXT")]
    sample: Option<String>,
    /// A folder the server may work in, if it asks
    #[arg(long = "root", value_name = "FOLDER")]
    roots: Vec<PathBuf>,
}

/// Answers what is asked.
pub(crate) struct ServerRequestHandler {
    preset: PresetAnswers,
    console: Arc<Console>,
    prompter: Arc<dyn Prompter>,
    state: Mutex<AnswerState>,
    /// One question at a time.
    prompt_lock: Mutex<()>,
}

#[derive(Default)]
struct AnswerState {
    /// Answers to what the next task asks, beside those that hold for all.
    answers: Vec<(String, String)>,
    /// Names of fields that were asked for.
    asked_fields: Vec<String>,
    /// Those of them that were asked for before this task.
    asked_before: usize,
    answer_error: Option<CliError>,
}

impl ServerRequestHandler {
    pub(crate) fn new(preset: PresetAnswers, console: Arc<Console>, prompter: Arc<dyn Prompter>) -> Self {
        Self { preset, console, prompter, state: Mutex::default(), prompt_lock: Mutex::default() }
    }

    /// Sits down with a client that is about to connect.
    pub(crate) fn register(self: &Arc<Self>, connecting: ClientBuilder) -> Result<ClientBuilder> {
        let (forms, pages, model, logs) =
            (Arc::clone(self), Arc::clone(self), Arc::clone(self), Arc::clone(&self.console));
        let mut connecting =
            connecting.on_log(move |log| logs.note(&format_log(&log))).on_elicit_form(move |form| {
                let asked = Arc::clone(&forms);
                ask_blocking(move || asked.answer_form(&form), FormResponse::Cancel)
            });
        if self.console.is_interactive() {
            connecting = connecting.on_elicit_url(move |page| {
                let asked = Arc::clone(&pages);
                ask_blocking(move || asked.answer_url(&page), UrlResponse::Cancel)
            });
        }
        if self.console.is_interactive() || self.preset.sample.is_some() {
            connecting = connecting.on_sample(move |request| {
                let asked = Arc::clone(&model);
                ask_blocking(move || asked.answer_sampling(&request), Err(RpcError::UserRejected))
            });
        }
        if !self.preset.roots.is_empty() {
            let roots: Result<Vec<Root>> =
                self.preset.roots.iter().map(|path| root_from_path(path)).collect();
            connecting = connecting.roots(roots?);
        }
        Ok(connecting)
    }

    /// Something is about to be done, and these are answers for it alone.
    pub(crate) fn begin_command(&self, answers: Vec<(String, String)>) {
        let mut state = self.state();
        state.asked_before = state.asked_fields.len();
        (state.answers, state.answer_error) = (answers, None);
    }

    /// It is done: says what was answered for it and not asked. Fails if an answer did not fit its question.
    pub(crate) fn end_command(&self) -> Result<()> {
        let state = self.state();
        let asked = state.asked_fields.get(state.asked_before..).unwrap_or_default();
        self.warn_unused_answers(&state.answers, asked);
        state.answer_error.clone().map_or(Ok(()), Err)
    }

    /// All is done: says what was answered and not asked. Fails if an answer did not fit its question.
    pub(crate) fn finish(&self) -> Result<()> {
        let state = self.state();
        self.warn_unused_answers(&self.preset.answers, &state.asked_fields);
        state.answer_error.clone().map_or(Ok(()), Err)
    }

    fn warn_unused_answers(&self, answers: &[(String, String)], asked: &[String]) {
        for (name, _) in answers {
            if !asked.contains(name) {
                let advice = did_you_mean(name, asked.iter().map(String::as_str));
                let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
                self.console.note(&format!("note: the server did not ask for `{name}`{advice}"));
            }
        }
    }

    /// What was wrong with an answer.
    pub(crate) fn answer_error(&self) -> Option<CliError> {
        self.state().answer_error.clone()
    }

    fn state(&self) -> MutexGuard<'_, AnswerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_form(&self, form: &FormParams) -> FormResponse {
        let _turn = self.prompt_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.console.clear_progress();
        let schema = &form.requested_schema;
        let names: Vec<String> = schema.properties.iter().map(|(name, _)| name.to_owned()).collect();
        let answers = {
            let mut state = self.state();
            state.asked_fields.extend(names.iter().cloned());
            [self.preset.answers.as_slice(), &state.answers].concat()
        };
        let given = match form::prefill(schema, &answers) {
            Ok(given) => given,
            Err(wrong) => {
                self.state().answer_error =
                    Some(CliError::usage(format!("--answer {wrong}")).at_step("answer"));
                return FormResponse::Cancel;
            }
        };
        let enough = schema.check(&schema.with_defaults(given.clone())).is_ok();
        if enough && !given.is_empty() {
            return FormResponse::Accept(given);
        }
        if self.console.is_interactive() {
            return form::fill(form, given, &*self.prompter);
        }
        // Those that must be answered, or else any.
        let needed: Vec<&String> = schema
            .required
            .iter()
            .flatten()
            .filter(|name| {
                schema.properties.get(name).is_some_and(|field| field::default_text(field).is_none())
            })
            .collect();
        let names = if needed.is_empty() { names.iter().collect() } else { needed };
        let names: Vec<String> = names.iter().map(|name| format!("--answer {name}=…")).collect();
        self.console.note(&format!(
            "note: the server asks: {}; declined, as there is no terminal. {}",
            form.message,
            match names.is_empty() {
                true => "Nothing can be filled in.".to_owned(),
                false => format!("{} would answer.", names.join(" ")),
            }
        ));
        FormResponse::Decline
    }

    fn answer_url(&self, page: &UrlParams) -> UrlResponse {
        let _turn = self.prompt_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.console.note(&format!("The server asks you to visit a web page: {}", page.message));
        self.console.note(&format!("  {}", page.url));
        self.console
            .note("Open it yourself if you trust it. Then press Enter; `!` says no, Ctrl-D goes away.");
        match self.prompter.read_line("") {
            None => UrlResponse::Cancel,
            Some(answer) if answer.trim() == "!" => UrlResponse::Decline,
            Some(_) => UrlResponse::Accept,
        }
    }

    fn answer_sampling(&self, request: &CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let said = |text: String| {
            CreateMessageResult::new(Role::Assistant, SamplingBlock::text(text), "a person")
                .stop_reason("endTurn")
        };
        if let Some(text) = &self.preset.sample {
            return Ok(said(text.clone()));
        }
        let _turn = self.prompt_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.console.note("The server asks the model, which is you:");
        if let Some(system) = &request.system_prompt {
            self.console.note(&format!("  system: {system}"));
        }
        for message in &request.messages {
            let role = if matches!(message.role, Role::User) { "user" } else { "assistant" };
            for block in message.content.as_slice() {
                match block {
                    SamplingBlock::Text(text) => self.console.note(&format!("  {role}: {}", text.text)),
                    _ => self.console.note(&format!("  {role}: (something that is not text)")),
                }
            }
        }
        self.console.note("Say it in one line; an empty one says no.");
        match self.prompter.read_line("") {
            Some(answer) if !answer.trim().is_empty() => Ok(said(answer)),
            _ => Err(RpcError::UserRejected),
        }
    }
}

/// Asks in a thread of its own: a person takes their time. `otherwise` is the answer if that breaks.
async fn ask_blocking<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static, otherwise: T) -> T {
    tokio::task::spawn_blocking(ask).await.unwrap_or(otherwise)
}

/// A log message, for a person.
fn format_log(log: &LogParams) -> String {
    let data = log.data.read::<String>().unwrap_or_else(|_| log.data.text().to_owned());
    match &log.logger {
        Some(logger) => format!("[{}] {logger}: {data}", log.level.as_str()),
        None => format!("[{}] {data}", log.level.as_str()),
    }
}

fn root_from_path(path: &Path) -> Result<Root> {
    let wrong = |error: io::Error| CliError::usage(format!("--root {}: {error}", path.display()));
    let whole = path.canonicalize().map_err(wrong)?;
    let mut uri = String::from("file://");
    for byte in whole.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    let root = Root::new(uri);
    Ok(match whole.file_name() {
        Some(name) => root.name(name.to_string_lossy()),
        None => root,
    })
}
