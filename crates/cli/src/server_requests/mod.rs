//! Answers the requests that a server sends: elicitation, sampling and roots.
//!
//! Answers come from options or from the user at the terminal. Without either the request is declined, or left open where the
//! server keeps it.

mod field;
mod form;
mod open_questions;
mod page;
mod prompter;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use tsugite::client::{ClientBuilder, FormResponse, UrlResponse};
use tsugite::file_uri;
use tsugite::protocol::Role;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::elicitation::{FormParams, UrlParams};
use tsugite::protocol::logging::LogParams;
use tsugite::protocol::roots::Root;
use tsugite::protocol::sampling::{CreateMessageParams, CreateMessageResult};
use tsugite::revision::RpcError;

use crate::console::Console;
use crate::error::{CliError, Result};
use crate::followed_task::pasted_word;
use crate::options::parse_pair;
use crate::suggest::did_you_mean;
pub(crate) use field::parse_bool;
pub(crate) use open_questions::OpenQuestion;
use open_questions::OpenQuestions;
pub(crate) use prompter::{Prompter, TerminalPrompter};

/// Answers that are given as options.
#[derive(Debug, Default, Args)]
pub(crate) struct PresetAnswers {
    /// Answer a field of the server's form; without it, prompt on the terminal or decline
    #[arg(long = "answer", value_name = "k=v", value_parser = parse_pair)]
    answers: Vec<(String, String)>,
    /// The model's reply, if the server requests sampling
    #[arg(long, value_name = "TEXT")]
    sample: Option<String>,
    /// A folder that the server may access, if it asks for roots
    #[arg(long = "root", value_name = "FOLDER")]
    roots: Vec<PathBuf>,
}

impl PresetAnswers {
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.sample.is_none() && self.roots.is_empty()
    }
}

/// The handler for the requests of a server.
pub(crate) struct ServerRequestHandler {
    preset: PresetAnswers,
    console: Arc<Console>,
    prompter: Arc<dyn Prompter>,
    state: Mutex<AnswerState>,
    /// Held while the user is prompted: one prompt at a time.
    prompt_lock: Mutex<()>,
    /// Questions that cannot be answered here.
    pub(crate) open_questions: OpenQuestions,
}

#[derive(Default)]
struct AnswerState {
    /// Answers for the current command, in addition to the preset ones.
    answers: Vec<(String, String)>,
    /// Names of the fields that the server asked for.
    asked_fields: Vec<String>,
    /// The number of fields that were asked for before the current command.
    asked_before: usize,
    /// Whether the server asked for roots.
    asked_for_roots: bool,
    answer_error: Option<CliError>,
}

impl ServerRequestHandler {
    pub(crate) fn new(preset: PresetAnswers, console: Arc<Console>, prompter: Arc<dyn Prompter>) -> Self {
        let (state, prompt_lock, open_questions) = Default::default();
        Self { preset, console, prompter, state, prompt_lock, open_questions }
    }

    /// Registers the handlers with a client that is about to connect.
    ///
    /// Every verb declares all of them, whatever can be answered here: some servers offer a tool only to clients that
    /// can answer its requests, and `list` shows what `call` can call.
    pub(crate) fn register(self: &Arc<Self>, builder: ClientBuilder) -> Result<ClientBuilder> {
        let (forms, pages, model, folders, logs) = (
            Arc::clone(self),
            Arc::clone(self),
            Arc::clone(self),
            Arc::clone(self),
            Arc::clone(&self.console),
        );
        let roots: Vec<Root> =
            self.preset.roots.iter().map(|path| root_from_path(path)).collect::<Result<_>>()?;
        let builder = builder
            .on_log(move |log| logs.note(&format_log(&log)))
            .on_elicit_form(move |form| {
                let handler = Arc::clone(&forms);
                ask_blocking(move || handler.answer_form(&form), FormResponse::Cancel)
            })
            .on_elicit_url(move |page| {
                let handler = Arc::clone(&pages);
                ask_blocking(move || handler.answer_url(&page), UrlResponse::Cancel)
            })
            .on_sample(move |request| {
                let handler = Arc::clone(&model);
                ask_blocking(move || handler.answer_sampling(&request), Err(RpcError::UserRejected))
            })
            .on_roots(move || {
                folders.note_missing_roots();
                std::future::ready(roots.clone())
            });
        Ok(builder)
    }

    /// Begins a command of the shell, with answers for this command only.
    pub(crate) fn begin_command(&self, answers: Vec<(String, String)>) {
        let mut state = self.state();
        state.asked_before = state.asked_fields.len();
        (state.answers, state.answer_error) = (answers, None);
    }

    /// Ends a command: warns about its unused answers. Fails if one of the answers was invalid.
    pub(crate) fn end_command(&self) -> Result<()> {
        let state = self.state();
        let asked = state.asked_fields.get(state.asked_before..).unwrap_or_default();
        self.warn_unused_answers(&state.answers, asked);
        state.answer_error.clone().map_or(Ok(()), Err)
    }

    /// Ends the connection: warns about unused preset answers. Fails if one of the answers was invalid.
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

    /// Returns the error of an invalid answer.
    pub(crate) fn answer_error(&self) -> Option<CliError> {
        self.state().answer_error.clone()
    }

    fn state(&self) -> MutexGuard<'_, AnswerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a form; `None` if it stays open.
    fn answer_form(&self, form: &FormParams) -> Option<FormResponse> {
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
                let is_left = self.open_questions.leave(|| OpenQuestion::new(&form.message, None));
                return (!is_left).then_some(FormResponse::Cancel);
            }
        };
        let is_complete = schema.check(&schema.with_defaults(given.clone())).is_ok();
        if is_complete && !given.is_empty() {
            return Some(FormResponse::Accept(given));
        }
        if self.console.is_interactive() {
            return Some(form::fill(form, given, &*self.prompter));
        }
        // Suggest the required fields without a default, or all fields if there are none.
        let needed: Vec<&String> = schema
            .required
            .iter()
            .flatten()
            .filter(|name| {
                schema.properties.get(name).is_some_and(|field| field::default_text(field).is_none())
            })
            .collect();
        let names = if needed.is_empty() { names.iter().collect() } else { needed };
        let names: Vec<String> =
            names.iter().map(|name| format!("--answer {}=…", pasted_word(name, "NAME"))).collect();
        let options = (!names.is_empty()).then(|| names.join(" "));
        if self.open_questions.leave(|| OpenQuestion::new(&form.message, options)) {
            return None;
        }
        self.console.note(&format!(
            "note: the server asks: {}; declined because there is no terminal. {}",
            form.message,
            match names.is_empty() {
                true => "The form has no fields.".to_owned(),
                false => format!("Pass {} to answer.", names.join(" ")),
            }
        ));
        Some(FormResponse::Decline)
    }

    /// Says once that the server asked for roots and there are none.
    fn note_missing_roots(&self) {
        let is_first = !std::mem::replace(&mut self.state().asked_for_roots, true);
        if is_first && self.preset.roots.is_empty() {
            self.console
                .note("note: the server asked for roots, and there are none. Pass --root FOLDER to add one.");
        }
    }

    /// Asks the user to visit a web page; `None` if the question stays open.
    fn answer_url(&self, page: &UrlParams) -> Option<UrlResponse> {
        if !self.console.is_interactive() {
            let text = format!("{} ({})", page.message, page.url);
            if self.open_questions.leave(|| OpenQuestion::new(&text, None)) {
                return None;
            }
            self.console.note(&format!(
                "note: the server asks you to visit a web page: {}; declined because there is no terminal. {}",
                page.message, page.url
            ));
            return Some(UrlResponse::Decline);
        }
        let _turn = self.prompt_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.console.note(&format!("The server asks you to visit a web page: {}", page.message));
        self.console.note(&format!("  {}", page.url));
        for line in page::describe_target(page) {
            self.console.note(&format!("  {line}"));
        }
        self.console.note("Open it if you trust it, then press Enter; `!` declines, Ctrl-D cancels.");
        Some(match self.prompter.read_line("") {
            None => UrlResponse::Cancel,
            Some(answer) if answer.trim() == "!" => UrlResponse::Decline,
            Some(_) => UrlResponse::Accept,
        })
    }

    /// Answers for a model; `None` if the request stays open.
    fn answer_sampling(
        &self,
        request: &CreateMessageParams,
    ) -> Option<Result<CreateMessageResult, RpcError>> {
        let reply = |text: String| {
            CreateMessageResult::new(Role::Assistant, SamplingBlock::text(text), "a person")
                .stop_reason("endTurn")
        };
        if let Some(text) = &self.preset.sample {
            return Some(Ok(reply(text.clone())));
        }
        if !self.console.is_interactive() {
            let question = || OpenQuestion::new("it requests sampling", Some("--sample TEXT".to_owned()));
            if self.open_questions.leave(question) {
                return None;
            }
            self.console.note(
                "note: the server requests sampling; declined because there is no terminal. Pass --sample TEXT to answer.",
            );
            return Some(Err(RpcError::UserRejected));
        }
        let _turn = self.prompt_lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.console.note("The server requests sampling; you answer for the model:");
        if let Some(system) = &request.system_prompt {
            self.console.note(&format!("  system: {system}"));
        }
        for message in &request.messages {
            let role = if matches!(message.role, Role::User) { "user" } else { "assistant" };
            for block in message.content.as_slice() {
                match block {
                    SamplingBlock::Text(text) => self.console.note(&format!("  {role}: {}", text.text)),
                    _ => self.console.note(&format!("  {role}: (content that is not text)")),
                }
            }
        }
        self.console.note("Type the reply in one line; an empty line declines.");
        Some(match self.prompter.read_line("") {
            Some(answer) if !answer.trim().is_empty() => Ok(reply(answer)),
            _ => Err(RpcError::UserRejected),
        })
    }
}

/// Prompts in a blocking thread. Returns `otherwise` if that thread fails, and never if the question stays open.
async fn ask_blocking<T: Send + 'static>(
    ask: impl FnOnce() -> Option<T> + Send + 'static,
    otherwise: T,
) -> T {
    match tokio::task::spawn_blocking(ask).await.unwrap_or(Some(otherwise)) {
        Some(answer) => answer,
        None => std::future::pending().await,
    }
}

/// Formats a log message of the server.
fn format_log(log: &LogParams) -> String {
    let data = log.data.read::<String>().unwrap_or_else(|_| log.data.text().to_owned());
    match &log.logger {
        Some(logger) => format!("[{}] {logger}: {data}", log.level.as_str()),
        None => format!("[{}] {data}", log.level.as_str()),
    }
}

fn root_from_path(path: &Path) -> Result<Root> {
    let wrong = |error: &dyn Display| CliError::usage(format!("--root {}: {error}", path.display()));
    let absolute = path.canonicalize().map_err(|error| wrong(&error))?;
    let root = Root::new(file_uri::from_path(&absolute).map_err(|error| wrong(&error))?);
    Ok(match absolute.file_name() {
        Some(name) => root.name(name.to_string_lossy()),
        None => root,
    })
}
