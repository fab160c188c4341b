//! The application side of a client transcript: it runs the actions of `do:` lines and records their outcomes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tsugite::client::{
    Change, ChangeFilter, Client, ClientBuilder, ClientError, ErrorKind, FormResponse, UrlResponse,
};
use tsugite::jsonrpc::RawJson;
use tsugite::protocol::completion::{self, CompleteParams};
use tsugite::protocol::roots::Root;
use tsugite::protocol::sampling::CreateMessageResult;
use tsugite::protocol::tasks::Task;
use tsugite::revision::{Revision, Revisions, RpcError};

/// The outcome of an action: a value, or the kind of its error.
pub(super) type ActionResult = Result<Value, String>;

/// An application.
pub(super) struct Application {
    client: Arc<Mutex<Option<Client>>>,
    /// The started actions, in order.
    pending: VecDeque<JoinHandle<ActionResult>>,
    listeners: Vec<JoinHandle<()>>,
    event_sender: mpsc::UnboundedSender<String>,
    events: mpsc::UnboundedReceiver<String>,
}

impl Application {
    pub(super) fn new() -> Self {
        let (event_sender, events) = mpsc::unbounded_channel();
        let client = Arc::default();
        Self { client, pending: VecDeque::new(), listeners: Vec::new(), event_sender, events }
    }

    /// Starts to connect with the settings of the `client:` lines.
    pub(super) fn connect(
        &mut self,
        connecting: ClientBuilder,
        revision: Revision,
        settings: &[String],
    ) -> Result<(), String> {
        let tell = self.event_sender.clone();
        let mut connecting =
            connecting.client_info(("transcript", "1")).revision(revision).on_progress(move |progress| {
                let mut text = format!("progress {}", progress.progress);
                if let Some(total) = &progress.total {
                    text.push_str(&format!("/{total}"));
                }
                if let Some(message) = &progress.message {
                    text.push_str(&format!(" {message}"));
                }
                let _ = tell.send(text);
            });
        for setting in settings {
            connecting = self.apply_setting(connecting, setting)?;
        }
        let place = Arc::clone(&self.client);
        self.spawn(async move {
            let client = connecting.await.map_err(|error| describe_error(&error))?;
            let revision = client.revision();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
            Ok(json!(revision.as_str()))
        });
        Ok(())
    }

    fn apply_setting(&self, connecting: ClientBuilder, setting: &str) -> Result<ClientBuilder, String> {
        let (what, how) = split_word(setting);
        let tell = self.event_sender.clone();
        Ok(match what {
            "forms" => {
                let answer = match how {
                    "decline" => FormResponse::Decline,
                    "cancel" => FormResponse::Cancel,
                    content => FormResponse::accept(parse_json(content)?),
                };
                connecting.on_elicit_form(move |form| {
                    let _ = tell.send(format!("form {}", form.message));
                    std::future::ready(answer.clone())
                })
            }
            "pages" => {
                let consent = match how {
                    "open" => UrlResponse::Accept,
                    "decline" => UrlResponse::Decline,
                    _ => UrlResponse::Cancel,
                };
                connecting.on_elicit_url(move |page| {
                    let _ = tell.send(format!("page {}", page.url));
                    std::future::ready(consent)
                })
            }
            "samples" => {
                let said = json!({
                    "role": "assistant", "content": {"type": "text", "text": how}, "model": "a model",
                });
                let said: CreateMessageResult = from_json(said)?;
                let said = if how == "no" { Err(RpcError::UserRejected) } else { Ok(said) };
                connecting.on_sample(move |_| {
                    let _ = tell.send("sample".to_owned());
                    std::future::ready(said.clone())
                })
            }
            "roots" => connecting.roots(how.split_whitespace().map(Root::new)),
            "logs" => connecting.log_level(from_json(json!(how))?).on_log(move |log| {
                let _ =
                    tell.send(format!("log {} {}", json!(log.level), log.data.text()).replacen('"', "", 2));
            }),
            "changes" => connecting.on_change(move |change| {
                let _ = tell.send(describe_change(&change));
            }),
            "speaks" => {
                let spoken: Result<Vec<Revision>, String> = how.split_whitespace().map(parse).collect();
                connecting.revisions(match how {
                    "all" => Revisions::ALL,
                    _ => Revisions::from_iter(spoken?),
                })
            }
            "probe" => connecting.probe_timeout(Duration::from_millis(parse(how)?)),
            "rounds" => connecting.max_rounds(parse(how)?),
            "tasks" => connecting.tasks(),
            _ => return Err(format!("unknown setting {setting:?}")),
        })
    }

    /// Starts the action of a `do:` line.
    pub(super) async fn run_action(&mut self, action: &str) -> Result<(), String> {
        let client = self.client()?;
        let (what, how) = split_word(action);
        let (name, rest) = split_word(how);
        let (subject, rest) = (name.to_owned(), rest.to_owned());
        match what {
            "list" => self.spawn(async move {
                macro_rules! names {
                    ($list:expr, $name:ident) => {
                        $list.await.map(|all| all.into_iter().map(|item| item.$name).collect::<Vec<_>>())
                    };
                }
                let names = match subject.as_str() {
                    "tools" => names!(client.list_tools(), name),
                    "prompts" => names!(client.list_prompts(), name),
                    "resources" => names!(client.list_resources(), uri),
                    _ => names!(client.list_resource_templates(), uri_template),
                };
                names.map(|names| json!(names)).map_err(|error| describe_error(&error))
            }),
            "call" => {
                let arguments = arguments(&rest)?;
                self.spawn(async move { to_action_result(client.call::<Value>(subject, arguments).await) });
            }
            "task" => {
                let arguments = arguments(&rest)?;
                let call = client.call::<Value>(subject, arguments).as_task();
                let call = call.on_task(report_task(self.event_sender.clone()));
                self.spawn(async move { to_action_result(call.await) });
            }
            "follow" => {
                let task = client.follow_task(subject).on_task(report_task(self.event_sender.clone()));
                self.spawn(async move { to_action_result(task.await.map(|result| json!(result.text()))) });
            }
            "cancel-task" => self.spawn(async move {
                to_action_result(client.cancel_task(subject).await.map(|_| json!("done")))
            }),
            "hurry" => {
                let limit = Duration::from_millis(parse(&subject)?);
                let (name, rest) = split_word(&rest);
                let (name, arguments) = (name.to_owned(), arguments(rest)?);
                self.spawn(async move {
                    to_action_result(client.call::<Value>(name, arguments).timeout(limit).await)
                });
            }
            "check" => {
                let arguments = arguments(&rest)?;
                self.spawn(async move {
                    let called = client.call_checked(subject, arguments).await;
                    to_action_result(called.map(|result| json!(result.structured_content)))
                });
            }
            "read" => self.spawn(async move {
                to_action_result(client.read_resource(subject).await.map(|result| json!(result.contents)))
            }),
            "prompt" => {
                let arguments = arguments(&rest)?;
                self.spawn(async move {
                    let prompt = client.get_prompt(subject, arguments).await;
                    to_action_result(prompt.map(|result| json!(result.messages)))
                });
            }
            "complete" => {
                let params: CompleteParams = from_json(parse_json(how)?)?;
                self.spawn(async move {
                    let complete = client.request::<completion::Complete>(params).await;
                    to_action_result(complete.map(|result| json!(result.completion.values)))
                });
            }
            "level" => {
                let level = from_json(json!(how))?;
                self.spawn(async move {
                    to_action_result(client.set_log_level(level).await.map(|_| json!("done")))
                });
            }
            "ping" => self.spawn(async move { to_action_result(client.ping().await.map(|_| json!("done"))) }),
            "subscribe" => {
                self.spawn(async move {
                    to_action_result(client.subscribe(subject).await.map(|_| json!("done")))
                });
            }
            "unsubscribe" => {
                self.spawn(async move {
                    to_action_result(client.unsubscribe(subject).await.map(|_| json!("done")))
                });
            }
            "tell-roots" => {
                self.spawn(async move {
                    to_action_result(client.notify_roots_changed().await.map(|()| json!("done")))
                });
            }
            "ask" => {
                let params = match rest.is_empty() {
                    true => None,
                    false => Some(RawJson::parse(rest).map_err(|error| error.to_string())?),
                };
                self.spawn(async move {
                    let answer = client.request_raw(&subject, params).await;
                    to_action_result(
                        answer.map(|answer| serde_json::from_str(answer.text()).unwrap_or_default()),
                    )
                });
            }
            "listen" => self.listen(&client, how).await?,
            "unlisten" => {
                let listening = self.listeners.pop().ok_or("no subscription is open")?;
                listening.abort();
                let _ = listening.await;
            }
            "drop" => {
                let last = self.pending.pop_back().ok_or("nothing was begun")?;
                last.abort();
                let _ = last.await;
            }
            "close" => {
                self.spawn(async move {
                    client.close().await;
                    Ok(json!("closed"))
                });
            }
            _ => return Err(format!("unknown action {action:?}")),
        }
        Ok(())
    }

    /// Subscribes to `tools`, `prompts`, `resources`, or the resource with this URI.
    async fn listen(&mut self, client: &Client, words: &str) -> Result<(), String> {
        let watch = words.split_whitespace().fold(ChangeFilter::new(), |watch, word| match word {
            "tools" => watch.tools(),
            "prompts" => watch.prompts(),
            "resources" => watch.resources(),
            uri => watch.resource(uri),
        });
        let (client, tell) = (client.clone(), self.event_sender.clone());
        let (begun, begins) = tokio::sync::oneshot::channel();
        self.listeners.push(tokio::spawn(async move {
            let mut changes = match client.listen(watch).await {
                Ok(changes) => {
                    let _ = begun.send(Ok(json!("listening")));
                    changes
                }
                Err(error) => {
                    let _ = begun.send(Err(describe_error(&error)));
                    return;
                }
            };
            drop(client);
            while let Some(change) = changes.next().await {
                let _ = tell.send(match change {
                    Ok(change) => describe_change(&change),
                    Err(error) => format!("no more changes: {}", describe_error(&error)),
                });
            }
        }));
        self.spawn(async move { begins.await.unwrap_or_else(|_| Err("dropped".to_owned())) });
        Ok(())
    }

    fn spawn(&mut self, work: impl Future<Output = ActionResult> + Send + 'static) {
        self.pending.push_back(tokio::spawn(work));
    }

    /// The outcome of the oldest action.
    pub(super) async fn next_outcome(&mut self) -> Result<ActionResult, String> {
        let first = self.pending.front_mut().ok_or("nothing was begun")?;
        let outcome = first.await.map_err(|error| error.to_string());
        self.pending.pop_front();
        outcome
    }

    /// The next event for the application.
    pub(super) async fn next_event(&mut self) -> String {
        self.events.recv().await.unwrap_or_default()
    }

    /// Checks that no events are left and no actions run.
    pub(super) fn ensure_finished(&mut self) -> Result<(), String> {
        match (self.events.try_recv(), self.pending.len()) {
            (Ok(told), _) => Err(format!("the application also got {told:?}")),
            (_, 0) => Ok(()),
            (_, left) => Err(format!("{left} actions have no `=` or `!` line")),
        }
    }

    pub(super) fn client(&self) -> Result<Client, String> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.clone().ok_or_else(|| "no client is connected".to_owned())
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.pending.iter().for_each(JoinHandle::abort);
        self.listeners.iter().for_each(JoinHandle::abort);
    }
}

fn to_action_result(result: Result<Value, ClientError>) -> ActionResult {
    result.map_err(|error| describe_error(&error))
}

/// A callback that tells the status of a task.
fn report_task(tell: mpsc::UnboundedSender<String>) -> impl Fn(Task) + Send + Sync + 'static {
    move |task| {
        let message = task.status_message.map(|message| format!(" {message}")).unwrap_or_default();
        let _ = tell.send(format!("task {} {}{message}", task.task_id, task.status.as_str()));
    }
}

fn describe_error(error: &ClientError) -> String {
    match error.kind() {
        ErrorKind::Config(_) => "setting".to_owned(),
        ErrorKind::Connect { .. } => "connect".to_owned(),
        ErrorKind::Unauthorized(challenge) => format!("unauthorized {}", challenge.status),
        ErrorKind::Status { status, .. } => format!("status {status}"),
        ErrorKind::Protocol(_) => "revision".to_owned(),
        ErrorKind::ErrorResponse { error, .. } => error.code.to_string(),
        ErrorKind::ToolFailed(_) => error.to_string(),
        ErrorKind::MalformedResult { .. } => "shape".to_owned(),
        ErrorKind::UnsupportedByRevision(_) => "unsayable".to_owned(),
        ErrorKind::TimedOut { .. } => "timed out".to_owned(),
        ErrorKind::ConnectionLost { may_have_run, .. } => format!("lost, may have run: {may_have_run}"),
        ErrorKind::InputRequired(_) => "rounds".to_owned(),
        ErrorKind::TooLarge(_) => "too large".to_owned(),
        ErrorKind::Closed => "closed".to_owned(),
        other => format!("{other:?}"),
    }
}

fn describe_change(change: &Change) -> String {
    match change {
        Change::Tools => "change tools".to_owned(),
        Change::Prompts => "change prompts".to_owned(),
        Change::Resources => "change resources".to_owned(),
        Change::Resource { uri } => format!("change {uri}"),
        Change::ElicitationComplete { id } => format!("visited {id}"),
        Change::All => "change everything".to_owned(),
        other => format!("{other:?}"),
    }
}

fn split_word(text: &str) -> (&str, &str) {
    let (first, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    (first, rest.trim())
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))
}

fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn arguments(text: &str) -> Result<Value, String> {
    if text.is_empty() { Ok(Value::Null) } else { parse_json(text) }
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("what is {text:?}"))
}
