//! What an application does with its client, as a transcript writes it, and what it hears of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tsugite::client::{FormResponse, Change, Client, ClientBuilder, UrlResponse, ClientError, ErrorKind, ChangeFilter};
use tsugite::core::jsonrpc::RawJson;
use tsugite::core::protocol::Implementation;
use tsugite::core::protocol::completion::CompleteParams;
use tsugite::core::protocol::roots::Root;
use tsugite::core::protocol::sampling::CreateMessageResult;
use tsugite::core::revision::{RpcError, Revision, Revisions};

/// What came of something: a value, or what kind of failure.
pub(super) type Outcome = Result<Value, String>;

/// An application.
pub(super) struct App {
    client: Arc<Mutex<Option<Client>>>,
    /// What was begun, in that order.
    running: VecDeque<JoinHandle<Outcome>>,
    listening: Vec<JoinHandle<()>>,
    tell: mpsc::UnboundedSender<String>,
    told: mpsc::UnboundedReceiver<String>,
}

impl App {
    pub(super) fn new() -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let client = Arc::default();
        Self { client, running: VecDeque::new(), listening: Vec::new(), tell, told }
    }

    /// Begins to connect, with what the `client:` lines say.
    pub(super) fn connect(
        &mut self,
        connecting: ClientBuilder,
        revision: Revision,
        settings: &[String],
    ) -> Result<(), String> {
        let tell = self.tell.clone();
        let mut connecting = connecting
            .client_info(Implementation::new("transcript", "1"))
            .revision(revision)
            .on_progress(move |progress| {
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
            connecting = self.set(connecting, setting)?;
        }
        let place = Arc::clone(&self.client);
        self.begin(async move {
            let client = connecting.await.map_err(|error| in_words(&error))?;
            let revision = client.revision();
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
            Ok(json!(revision.as_str()))
        });
        Ok(())
    }

    fn set(&self, connecting: ClientBuilder, setting: &str) -> Result<ClientBuilder, String> {
        let (what, how) = split(setting);
        let tell = self.tell.clone();
        Ok(match what {
            "forms" => {
                let answer = match how {
                    "decline" => FormResponse::Decline,
                    "cancel" => FormResponse::Cancel,
                    content => FormResponse::accept(&json_of(content)?).map_err(|error| error.to_string())?,
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
                let said: CreateMessageResult = read(said)?;
                let said = if how == "no" { Err(RpcError::UserRejected) } else { Ok(said) };
                connecting.on_sample(move |_| {
                    let _ = tell.send("sample".to_owned());
                    std::future::ready(said.clone())
                })
            }
            "roots" => connecting.roots(how.split_whitespace().map(Root::new)),
            "logs" => connecting.log_level(read(json!(how))?).on_log(move |log| {
                let _ =
                    tell.send(format!("log {} {}", json!(log.level), log.data.text()).replacen('"', "", 2));
            }),
            "changes" => connecting.on_change(move |change| {
                let _ = tell.send(change_in_words(&change));
            }),
            "speaks" => {
                let spoken: Result<Vec<Revision>, String> = how.split_whitespace().map(parsed).collect();
                connecting.revisions(match how {
                    "all" => Revisions::ALL,
                    _ => Revisions::from_iter(spoken?),
                })
            }
            "probe" => connecting.probe_timeout(Duration::from_millis(parsed(how)?)),
            "rounds" => connecting.max_rounds(parsed(how)?),
            _ => return Err(format!("what is the setting {setting:?}")),
        })
    }

    /// Begins what a `do:` line says.
    pub(super) async fn act(&mut self, action: &str) -> Result<(), String> {
        let client = self.client()?;
        let (what, how) = split(action);
        let (name, rest) = split(how);
        let (subject, rest) = (name.to_owned(), rest.to_owned());
        match what {
            "list" => self.begin(async move {
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
                names.map(|names| json!(names)).map_err(|error| in_words(&error))
            }),
            "call" => {
                let arguments = arguments(&rest)?;
                self.begin(async move { outcome(client.call::<Value>(subject, arguments).await) });
            }
            "hurry" => {
                let limit = Duration::from_millis(parsed(&subject)?);
                let (name, rest) = split(&rest);
                let (name, arguments) = (name.to_owned(), arguments(rest)?);
                self.begin(
                    async move { outcome(client.call::<Value>(name, arguments).timeout(limit).await) },
                );
            }
            "check" => {
                let arguments = arguments(&rest)?;
                self.begin(async move {
                    let called = client.call_checked(subject, arguments).await;
                    outcome(called.map(|result| json!(result.structured_content)))
                });
            }
            "read" => self.begin(async move {
                outcome(client.read_resource(subject).await.map(|result| json!(result.contents)))
            }),
            "prompt" => {
                let arguments = arguments(&rest)?;
                self.begin(async move {
                    let prompt = client.get_prompt(subject, arguments).await;
                    outcome(prompt.map(|result| json!(result.messages)))
                });
            }
            "complete" => {
                let params: CompleteParams = read(json_of(how)?)?;
                self.begin(async move {
                    let complete = client.complete(params).await;
                    outcome(complete.map(|result| json!(result.completion.values)))
                });
            }
            "level" => {
                let level = read(json!(how))?;
                self.begin(async move { outcome(client.set_log_level(level).await.map(|_| json!("done"))) });
            }
            "ping" => self.begin(async move { outcome(client.ping().await.map(|_| json!("done"))) }),
            "subscribe" => {
                self.begin(async move { outcome(client.subscribe(subject).await.map(|_| json!("done"))) });
            }
            "unsubscribe" => {
                self.begin(async move { outcome(client.unsubscribe(subject).await.map(|_| json!("done"))) });
            }
            "tell-roots" => {
                self.begin(async move { outcome(client.notify_roots_changed().await.map(|()| json!("done"))) });
            }
            "ask" => {
                let params = match rest.is_empty() {
                    true => None,
                    false => Some(RawJson::parse(rest).map_err(|error| error.to_string())?),
                };
                self.begin(async move {
                    let answer = client.request_raw(&subject, params).await;
                    outcome(answer.map(|answer| serde_json::from_str(answer.text()).unwrap_or_default()))
                });
            }
            "listen" => self.listen(&client, how).await?,
            "unlisten" => {
                let listening = self.listening.pop().ok_or("nobody listens")?;
                listening.abort();
                let _ = listening.await;
            }
            "drop" => {
                let last = self.running.pop_back().ok_or("nothing was begun")?;
                last.abort();
                let _ = last.await;
            }
            "close" => {
                self.begin(async move {
                    client.close().await;
                    Ok(json!("closed"))
                });
            }
            _ => return Err(format!("what is {action:?}")),
        }
        Ok(())
    }

    /// Listens to what words name: `tools`, `prompts`, `resources`, or else a resource.
    async fn listen(&mut self, client: &Client, words: &str) -> Result<(), String> {
        let watch = words.split_whitespace().fold(ChangeFilter::new(), |watch, word| match word {
            "tools" => watch.tools(),
            "prompts" => watch.prompts(),
            "resources" => watch.resources(),
            uri => watch.resource(uri),
        });
        let (client, tell) = (client.clone(), self.tell.clone());
        let (begun, begins) = tokio::sync::oneshot::channel();
        self.listening.push(tokio::spawn(async move {
            let mut changes = match client.listen(watch).await {
                Ok(changes) => {
                    let _ = begun.send(Ok(json!("listening")));
                    changes
                }
                Err(error) => {
                    let _ = begun.send(Err(in_words(&error)));
                    return;
                }
            };
            drop(client);
            while let Some(change) = changes.next().await {
                let _ = tell.send(match change {
                    Ok(change) => change_in_words(&change),
                    Err(error) => format!("no more changes: {}", in_words(&error)),
                });
            }
        }));
        self.begin(async move { begins.await.unwrap_or_else(|_| Err("dropped".to_owned())) });
        Ok(())
    }

    fn begin(&mut self, work: impl Future<Output = Outcome> + Send + 'static) {
        self.running.push_back(tokio::spawn(work));
    }

    /// What came of what was begun first.
    pub(super) async fn outcome(&mut self) -> Result<Outcome, String> {
        let first = self.running.front_mut().ok_or("nothing was begun")?;
        let outcome = first.await.map_err(|error| error.to_string());
        self.running.pop_front();
        outcome
    }

    /// What it is told next.
    pub(super) async fn told(&mut self) -> String {
        self.told.recv().await.unwrap_or_default()
    }

    /// That it was told nothing more, and nothing runs any more.
    pub(super) fn has_ended(&mut self) -> Result<(), String> {
        match (self.told.try_recv(), self.running.len()) {
            (Ok(told), _) => Err(format!("the application was also told {told:?}")),
            (_, 0) => Ok(()),
            (_, left) => Err(format!("{left} of what was begun has no `=` or `!` line")),
        }
    }

    pub(super) fn client(&self) -> Result<Client, String> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        client.clone().ok_or_else(|| "nobody is connected".to_owned())
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
        self.listening.iter().for_each(JoinHandle::abort);
    }
}

fn outcome(result: Result<Value, ClientError>) -> Outcome {
    result.map_err(|error| in_words(&error))
}

fn in_words(error: &ClientError) -> String {
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

fn change_in_words(change: &Change) -> String {
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

fn split(text: &str) -> (&str, &str) {
    let (first, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    (first, rest.trim())
}

fn json_of(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn arguments(text: &str) -> Result<Value, String> {
    if text.is_empty() { Ok(Value::Null) } else { json_of(text) }
}

fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("what is {text:?}"))
}
