//! What a server asks while it works: answered by options, on the terminal, or not at all.

mod field;
mod form;
mod person;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use tsugite::client::{FormResponse, ClientBuilder, UrlResponse};
use tsugite::core::protocol::Role;
use tsugite::core::protocol::content::SamplingBlock;
use tsugite::core::protocol::elicitation::{FormParams, UrlParams};
use tsugite::core::protocol::logging::LogParams;
use tsugite::core::protocol::roots::Root;
use tsugite::core::protocol::sampling::{CreateMessageParams, CreateMessageResult};
use tsugite::core::revision::RpcError;

use crate::fail::{Failure, Result};
use crate::near::did_you_mean;
use crate::options::pair;
use crate::screen::Screen;
pub(crate) use field::flag;
pub(crate) use person::{AtTerminal, Person};

/// Answers that are given beforehand.
#[derive(Debug, Default, Args)]
pub(crate) struct Replies {
    /// Answer a question of the server; what is not answered is asked on the terminal, or declined where there is none
    #[arg(long = "answer", value_name = "k=v", value_parser = pair)]
    answers: Vec<(String, String)>,
    /// What the model says, if the server asks one
    #[arg(long, value_name = "TEXT")]
    sample: Option<String>,
    /// A folder the server may work in, if it asks
    #[arg(long = "root", value_name = "FOLDER")]
    roots: Vec<PathBuf>,
}

/// Answers what is asked.
pub(crate) struct Interview {
    replies: Replies,
    screen: Arc<Screen>,
    person: Arc<dyn Person>,
    state: Mutex<State>,
    /// One question at a time.
    turn: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Answers to what the next task asks, beside those that hold for all.
    answers: Vec<(String, String)>,
    /// Names of fields that were asked for.
    asked: Vec<String>,
    /// Those of them that were asked for before this task.
    asked_before: usize,
    mistake: Option<Failure>,
}

impl Interview {
    pub(crate) fn new(replies: Replies, screen: Arc<Screen>, person: Arc<dyn Person>) -> Self {
        Self { replies, screen, person, state: Mutex::default(), turn: Mutex::default() }
    }

    /// Sits down with a client that is about to connect.
    pub(crate) fn attend(self: &Arc<Self>, connecting: ClientBuilder) -> Result<ClientBuilder> {
        let (forms, pages, model, logs) =
            (Arc::clone(self), Arc::clone(self), Arc::clone(self), Arc::clone(&self.screen));
        let mut connecting = connecting.on_log(move |log| logs.note(&in_words(&log))).on_elicit_form(move |form| {
            let asked = Arc::clone(&forms);
            apart(move || asked.form(&form), FormResponse::Cancel)
        });
        if self.screen.can_ask() {
            connecting = connecting.on_elicit_url(move |page| {
                let asked = Arc::clone(&pages);
                apart(move || asked.page(&page), UrlResponse::Cancel)
            });
        }
        if self.screen.can_ask() || self.replies.sample.is_some() {
            connecting = connecting.on_sample(move |request| {
                let asked = Arc::clone(&model);
                apart(move || asked.sample(&request), Err(RpcError::UserRejected))
            });
        }
        if !self.replies.roots.is_empty() {
            let roots: Result<Vec<Root>> = self.replies.roots.iter().map(|path| root(path)).collect();
            connecting = connecting.roots(roots?);
        }
        Ok(connecting)
    }

    /// Something is about to be done, and these are answers for it alone.
    pub(crate) fn begin(&self, answers: Vec<(String, String)>) {
        let mut state = self.state();
        state.asked_before = state.asked.len();
        (state.answers, state.mistake) = (answers, None);
    }

    /// It is done: says what was answered for it and not asked. Fails if an answer did not fit its question.
    pub(crate) fn end(&self) -> Result<()> {
        let state = self.state();
        let asked = state.asked.get(state.asked_before..).unwrap_or_default();
        self.unasked(&state.answers, asked);
        state.mistake.clone().map_or(Ok(()), Err)
    }

    /// All is done: says what was answered and not asked. Fails if an answer did not fit its question.
    pub(crate) fn done(&self) -> Result<()> {
        let state = self.state();
        self.unasked(&self.replies.answers, &state.asked);
        state.mistake.clone().map_or(Ok(()), Err)
    }

    fn unasked(&self, answers: &[(String, String)], asked: &[String]) {
        for (name, _) in answers {
            if !asked.contains(name) {
                let advice = did_you_mean(name, asked.iter().map(String::as_str));
                let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
                self.screen.note(&format!("note: the server did not ask for `{name}`{advice}"));
            }
        }
    }

    /// What was wrong with an answer.
    pub(crate) fn mistake(&self) -> Option<Failure> {
        self.state().mistake.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn form(&self, form: &FormParams) -> FormResponse {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.screen.hide_bar();
        let schema = &form.requested_schema;
        let names: Vec<String> = schema.properties.iter().map(|(name, _)| name.to_owned()).collect();
        let answers = {
            let mut state = self.state();
            state.asked.extend(names.iter().cloned());
            [self.replies.answers.as_slice(), &state.answers].concat()
        };
        let given = match form::given(schema, &answers) {
            Ok(given) => given,
            Err(wrong) => {
                self.state().mistake = Some(Failure::usage(format!("--answer {wrong}")).at("answer"));
                return FormResponse::Cancel;
            }
        };
        let enough = schema.check(&schema.with_defaults(given.clone())).is_ok();
        if enough && !given.is_empty() {
            return FormResponse::Accept(given);
        }
        if self.screen.can_ask() {
            return form::fill(form, given, &*self.person);
        }
        // Those that must be answered, or else any.
        let needed: Vec<&String> = schema
            .required
            .iter()
            .flatten()
            .filter(|name| schema.properties.get(name).is_some_and(|field| field::preset(field).is_none()))
            .collect();
        let names = if needed.is_empty() { names.iter().collect() } else { needed };
        let names: Vec<String> = names.iter().map(|name| format!("--answer {name}=…")).collect();
        self.screen.note(&format!(
            "note: the server asks: {}; declined, as there is no terminal. {}",
            form.message,
            match names.is_empty() {
                true => "Nothing can be filled in.".to_owned(),
                false => format!("{} would answer.", names.join(" ")),
            }
        ));
        FormResponse::Decline
    }

    fn page(&self, page: &UrlParams) -> UrlResponse {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.screen.note(&format!("The server asks you to visit a web page: {}", page.message));
        self.screen.note(&format!("  {}", page.url));
        self.screen
            .note("Open it yourself if you trust it. Then press Enter; `!` says no, Ctrl-D goes away.");
        match self.person.line("") {
            None => UrlResponse::Cancel,
            Some(answer) if answer.trim() == "!" => UrlResponse::Decline,
            Some(_) => UrlResponse::Accept,
        }
    }

    fn sample(&self, request: &CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        let said = |text: String| {
            CreateMessageResult::new(Role::Assistant, SamplingBlock::text(text), "a person")
                .stop_reason("endTurn")
        };
        if let Some(text) = &self.replies.sample {
            return Ok(said(text.clone()));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.screen.note("The server asks the model, which is you:");
        if let Some(system) = &request.system_prompt {
            self.screen.note(&format!("  system: {system}"));
        }
        for message in &request.messages {
            let role = if matches!(message.role, Role::User) { "user" } else { "assistant" };
            for block in message.content.as_slice() {
                match block {
                    SamplingBlock::Text(text) => self.screen.note(&format!("  {role}: {}", text.text)),
                    _ => self.screen.note(&format!("  {role}: (something that is not text)")),
                }
            }
        }
        self.screen.note("Say it in one line; an empty one says no.");
        match self.person.line("") {
            Some(answer) if !answer.trim().is_empty() => Ok(said(answer)),
            _ => Err(RpcError::UserRejected),
        }
    }
}

/// Asks in a thread of its own: a person takes their time. `otherwise` is the answer if that breaks.
async fn apart<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static, otherwise: T) -> T {
    tokio::task::spawn_blocking(ask).await.unwrap_or(otherwise)
}

/// A log message, for a person.
fn in_words(log: &LogParams) -> String {
    let data = log.data.read::<String>().unwrap_or_else(|_| log.data.text().to_owned());
    match &log.logger {
        Some(logger) => format!("[{}] {logger}: {data}", log.level.as_str()),
        None => format!("[{}] {data}", log.level.as_str()),
    }
}

fn root(path: &Path) -> Result<Root> {
    let wrong = |error: io::Error| Failure::usage(format!("--root {}: {error}", path.display()));
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
