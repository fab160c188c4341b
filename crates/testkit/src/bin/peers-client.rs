//! What `cargo xtask peers servers` runs: our client against a server of another project, feature by feature.
//!
//! One line of JSON for each feature goes to standard output; `xtask/src/peers/servers.rs` says which. Only the public API
//! is used. One connection serves all features of a run, as it would in an application.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tsugite::client::{FormResponse, Change, Client, ClientBuilder, ChangeFilter};
use tsugite::core::jsonrpc::RawJson;
use tsugite::core::protocol::completion::{Argument, CompleteParams, Reference};
use tsugite::core::protocol::content::SamplingBlock;
use tsugite::core::protocol::pagination::PageParams;
use tsugite::core::protocol::roots::Root;
use tsugite::core::protocol::sampling::CreateMessageResult;
use tsugite::core::protocol::{Role, resources};
use tsugite::prelude::*;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome = Result<(), Failure>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let run = match Run::read(std::env::args().skip(1)) {
        Ok(run) => run,
        Err(wrong) => {
            eprintln!("peers-client: {wrong}");
            return ExitCode::from(2);
        }
    };
    let visit = match tokio::time::timeout(LIMIT, run.visit()).await {
        Ok(Ok(visit)) => visit,
        Ok(Err(error)) => return run.give_up(&error.to_string()),
        Err(_) => return run.give_up("no connection in time"),
    };
    for feature in &run.features {
        let said = match tokio::time::timeout(LIMIT, visit.play(feature)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("not done within {} s", LIMIT.as_secs())),
        };
        run.report(feature, said);
    }
    visit.client.close().await;
    ExitCode::SUCCESS
}

/// What is asked for on the command line.
struct Run {
    peer: String,
    revision: Revision,
    transport: String,
    features: Vec<String>,
    /// A URL, or a command and its arguments.
    target: Vec<String>,
}

impl Run {
    fn read(args: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let (mut peer, mut transport, mut revision, mut features) = (None, None, None, None);
        let mut args = args;
        let mut target = Vec::new();
        while let Some(arg) = args.next() {
            let place = match arg.as_str() {
                "--peer" => &mut peer,
                "--transport" => &mut transport,
                "--rev" => &mut revision,
                "--features" => &mut features,
                "--" => {
                    target.extend(args.by_ref());
                    continue;
                }
                _ => {
                    target.push(arg);
                    continue;
                }
            };
            *place = args.next();
        }
        let features = features.ok_or("--features is missing")?.split(',').map(str::to_owned).collect();
        Ok(Self {
            peer: peer.ok_or("--peer is missing")?,
            revision: revision.ok_or("--rev is missing")?.parse()?,
            transport: transport.ok_or("--transport is missing")?,
            features,
            target,
        })
    }

    async fn visit(&self) -> Result<Visit, Failure> {
        let heard = Arc::<Heard>::default();
        let connecting = match (self.transport.as_str(), self.target.as_slice()) {
            ("stdio", command @ [_, ..]) => Client::spawn(command),
            ("http", [url]) => Client::connect(url),
            ("sse", [url]) => Client::connect(url).http_sse(),
            _ => return Err("there is no such target".into()),
        };
        // What a server speaks is found out wherever that can give the revision that is asked for.
        let connecting = match self.revision.is_stateless() {
            true => connecting,
            false => connecting.revision(self.revision),
        };
        let client = handlers(connecting, &heard).await?;
        if client.revision() != self.revision {
            return Err(format!("{} was agreed on", client.revision()).into());
        }
        Ok(Visit { client, heard, everything: self.peer.ends_with("server-everything") })
    }

    fn report(&self, feature: &str, said: Result<(), String>) {
        let (ok, note) = match said {
            Ok(()) => (true, String::new()),
            Err(note) => (false, note),
        };
        let revision = self.revision.as_str();
        println!(
            "{}",
            json!({"peer": self.peer, "revision": revision, "feature": feature, "ok": ok, "note": note})
        );
    }

    fn give_up(&self, why: &str) -> ExitCode {
        for feature in &self.features {
            self.report(feature, Err(why.to_owned()));
        }
        ExitCode::SUCCESS
    }
}

/// What the server has said unasked.
#[derive(Default)]
struct Heard {
    changes: Mutex<Vec<Change>>,
    logs: Mutex<Vec<Value>>,
    news: Notify,
}

impl Heard {
    /// Waits until `found` finds something; whatever has to be done meanwhile is done again and again.
    async fn until(&self, found: impl Fn(&Self) -> bool) {
        loop {
            let news = self.news.notified();
            if found(self) {
                return;
            }
            news.await;
        }
    }
}

fn handlers(connecting: ClientBuilder, heard: &Arc<Heard>) -> ClientBuilder {
    let (changed, logged) = (Arc::clone(heard), Arc::clone(heard));
    connecting
        .on_elicit_form(async |form| {
            let named = form.requested_schema.properties.get("name").is_some();
            let content = if named { json!({"name": "Ada"}) } else { json!({}) };
            FormResponse::accept(&content).unwrap_or(FormResponse::Cancel)
        })
        .on_sample(async |_| {
            Ok(CreateMessageResult::new(Role::Assistant, SamplingBlock::text("four"), "a model"))
        })
        .roots([Root::new("file:///srv/one"), Root::new("file:///srv/two")])
        .on_change(move |change| {
            if let Ok(mut changes) = changed.changes.lock() {
                changes.push(change);
            }
            changed.news.notify_waiters();
        })
        .log_level(Level::Info)
        .on_log(move |log| {
            if let (Ok(mut logs), Ok(data)) = (logged.logs.lock(), log.data.read()) {
                logs.push(data);
            }
            logged.news.notify_waiters();
        })
}

struct Visit {
    client: Client,
    heard: Arc<Heard>,
    /// It is `server-everything`, which has an inventory of its own.
    everything: bool,
}

impl Visit {
    async fn play(&self, feature: &str) -> Outcome {
        match feature {
            "list" => self.list().await,
            "call" => self.call().await,
            "progress" => self.progress().await,
            "elicitation" => self.elicitation().await,
            "sampling" => self.sampling().await,
            "roots" => self.roots().await,
            "cancellation" => self.cancellation().await,
            "resumption" => self.resumption().await,
            "changes" => self.changes().await,
            "logging" => self.logging().await,
            "resources" => self.resources().await,
            "subscription" => self.subscription().await,
            "prompts" => self.prompts().await,
            "pages" => self.pages().await,
            other => Err(format!("nobody knows how to try {other}").into()),
        }
    }

    async fn list(&self) -> Outcome {
        let tools = self.client.list_tools().await?;
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        if self.everything {
            return same(&names.contains(&"echo"), &true);
        }
        let names: Vec<_> = names.into_iter().filter(|name| *name != "grown").collect();
        let all = [
            "add",
            "steps",
            "ask",
            "sample",
            "roots",
            "fail",
            "slow",
            "was_cancelled",
            "drop",
            "grow",
            "log",
            "touch",
        ];
        same(&names, &all.to_vec())
    }

    async fn call(&self) -> Outcome {
        if self.everything {
            same(
                &self.text("get-sum", json!({"a": 40, "b": 2})).await?.as_str(),
                &"The sum of 40 and 2 is 42.",
            )?;
            let shown =
                self.client.call_raw("get-structured-content", json!({"location": "Chicago"})).await?;
            return same(&shown.structured_content.is_some(), &true);
        }
        let calls = [1, 2, 3].map(|b| self.text("add", json!({"a": 40, "b": b})));
        let [first, second, third] = calls;
        let (first, second, third) = tokio::try_join!(first, second, third)?;
        same(&[first.as_str(), &second, &third], &["41", "42", "43"])?;
        let sum: Value = self.client.call("add", json!({"a": 40, "b": 2})).await?;
        same(&sum, &json!({"sum": 42}))?;
        let failed = self.client.call_raw("fail", json!({})).await?;
        same(&failed.is_error, &Some(true))
    }

    async fn progress(&self) -> Outcome {
        let steps = match self.everything {
            true => ("trigger-long-running-operation", json!({"duration": 0.3, "steps": 3})),
            false => ("steps", json!({"n": 3})),
        };
        let seen = Seen::default();
        let call = self.client.call_raw(steps.0, steps.1).on_progress(seen.listener());
        call.await?;
        same(&seen.values(), &vec![1.0, 2.0, 3.0])
    }

    async fn elicitation(&self) -> Outcome {
        match self.everything {
            true => {
                let result = self.client.call_raw("trigger-elicitation-request", json!({})).await?;
                same(&(result.is_error, result.content.is_empty()), &(None, false))
                    .map_err(|_| text_of(&result).into())
            }
            false => same(&self.text("ask", json!({})).await?.as_str(), &"hello Ada"),
        }
    }

    async fn sampling(&self) -> Outcome {
        let said = match self.everything {
            true => {
                self.text("trigger-sampling-request", json!({"prompt": "2 + 2?", "maxTokens": 10})).await?
            }
            false => self.text("sample", json!({})).await?,
        };
        same(&said.contains("four"), &true).map_err(|_| said.into())
    }

    async fn roots(&self) -> Outcome {
        match self.everything {
            true => {
                let said = self.text("get-roots-list", json!({})).await?;
                same(&said.contains("file:///srv/one"), &true).map_err(|_| said.into())
            }
            false => {
                let said = self.text("roots", json!({})).await?;
                same(&said.as_str(), &"file:///srv/one file:///srv/two")
            }
        }
    }

    async fn cancellation(&self) -> Outcome {
        let begun = Arc::new(Notify::new());
        let told = Arc::clone(&begun);
        let slow = self.client.call_raw("slow", json!({})).on_progress(move |_| told.notify_one());
        // Dropping the call is what cancels it.
        tokio::select! {
            ended = slow => return Err(format!("it ended by itself: {ended:?}").into()),
            () = begun.notified() => {}
        }
        same(&self.text("was_cancelled", json!({})).await?.as_str(), &"true")
    }

    async fn resumption(&self) -> Outcome {
        let seen = Seen::default();
        let result = self.client.call_raw("drop", json!({})).on_progress(seen.listener()).await?;
        same(&text_of(&result).as_str(), &"resumed")?;
        same(&seen.values(), &vec![1.0, 2.0, 3.0])
    }

    async fn changes(&self) -> Outcome {
        let wanted = if self.everything { Change::Resources } else { Change::Tools };
        let heard =
            self.heard.until(|heard| heard.changes.lock().is_ok_and(|changes| changes.contains(&wanted)));
        match self.everything {
            true => self.while_calling("gzip-file-as-resource", GZIP, heard).await,
            false => {
                self.client.call_raw("grow", json!({})).await?;
                heard.await;
                let tools = self.client.list_tools().await?;
                same(&tools.iter().any(|tool| tool.name == "grown"), &true)
            }
        }
    }

    async fn logging(&self) -> Outcome {
        if self.everything {
            let heard = self.heard.until(|heard| heard.logs.lock().is_ok_and(|logs| !logs.is_empty()));
            self.client.subscribe("demo://resource/dynamic/text/1").await?;
            heard.await;
            return Ok(());
        }
        self.client.call_raw("log", json!({"level": "warning"})).await?;
        self.heard
            .until(|heard| heard.logs.lock().is_ok_and(|logs| logs.contains(&json!("this is warning"))))
            .await;
        Ok(())
    }

    async fn resources(&self) -> Outcome {
        if self.everything {
            let templates = self.client.list_resource_templates().await?;
            same(&templates.is_empty(), &false)?;
            let read = self.client.read_resource("demo://resource/dynamic/text/1").await?;
            return same(&read.contents.len(), &1);
        }
        let uris: Vec<_> = self.client.list_resources().await?.into_iter().map(|one| one.uri).collect();
        same(
            &uris.iter().map(String::as_str).collect::<Vec<_>>(),
            &vec!["memo://one", "memo://two", "memo://bytes"],
        )?;
        let templates = self.client.list_resource_templates().await?;
        let templates: Vec<_> = templates.iter().map(|one| one.uri_template.as_str()).collect();
        same(&templates, &vec!["memo://{id}"])?;
        for (uri, expected) in
            [("memo://one", json!("the first memo")), ("memo://seven", json!("memo seven"))]
        {
            let read = self.client.read_resource(uri).await?;
            let read: Value = RawJson::from_value(&read)?.read()?;
            same(read.pointer("/contents/0/text").unwrap_or(&Value::Null), &expected)?;
        }
        let read: Value = RawJson::from_value(&self.client.read_resource("memo://bytes").await?)?.read()?;
        same(read.pointer("/contents/0/blob").unwrap_or(&Value::Null), &json!("AAH+/w=="))?;
        match self.client.read_resource("nothing://here").await {
            Err(error) if error.as_rpc_error().is_some() => Ok(()),
            other => Err(format!("a resource that is not there: {other:?}").into()),
        }
    }

    async fn subscription(&self) -> Outcome {
        let uri = if self.everything { "demo://resource/dynamic/text/1" } else { "memo://one" };
        let mut changes = self.client.listen(ChangeFilter::new().resource(uri)).await?;
        let heard = async {
            loop {
                match changes.next().await {
                    Some(Ok(Change::Resource { .. })) => return Ok(()),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(Failure::from(error)),
                    None => return Err("the subscription has ended".into()),
                }
            }
        };
        let trigger = if self.everything { "toggle-subscriber-updates" } else { "touch" };
        let arguments = if self.everything { json!({}) } else { json!({"uri": uri}) };
        self.client.call_raw(trigger, arguments).await?;
        heard.await
    }

    async fn prompts(&self) -> Outcome {
        let prompts = self.client.list_prompts().await?;
        if self.everything {
            same(&prompts.is_empty(), &false)?;
            let prompt = self.client.get_prompt("args-prompt", json!({"city": "Kyoto"})).await?;
            return same(&prompt.messages.is_empty(), &false);
        }
        same(&prompts.iter().map(|prompt| prompt.name.as_str()).collect::<Vec<_>>(), &vec!["greet"])?;
        let prompt: Value =
            RawJson::from_value(&self.client.get_prompt("greet", json!({"who": "Kiku"})).await?)?.read()?;
        same(prompt.pointer("/messages/0/content/text").unwrap_or(&Value::Null), &json!("Greet Kiku."))?;
        let argument = Argument::new("who", "A");
        let completed =
            self.client.complete(CompleteParams::new(Reference::prompt("greet"), argument)).await?;
        same(&completed.completion.values, &vec!["Ada".to_owned(), "Alan".to_owned()])
    }

    async fn pages(&self) -> Outcome {
        let first = self.client.request::<resources::List>(PageParams::new()).await?;
        same(&(first.resources.len(), first.next_cursor.as_deref()), &(2, Some("2")))?;
        same(&self.client.list_resources().await?.len(), &3)
    }

    /// Repeats a call until something was heard: some servers speak before anybody listens.
    async fn while_calling(&self, name: &str, arguments: &str, heard: impl Future<Output = ()>) -> Outcome {
        let arguments: Value = serde_json::from_str(arguments)?;
        let mut heard = std::pin::pin!(heard);
        loop {
            self.client.call_raw(name, &arguments).await?;
            if tokio::time::timeout(AGAIN, &mut heard).await.is_ok() {
                return Ok(());
            }
        }
    }

    async fn text(&self, name: &str, arguments: Value) -> Result<String, Failure> {
        Ok(text_of(&self.client.call_raw(name, arguments).await?))
    }
}

/// Progress that has come.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<f64>>>);

impl Seen {
    fn listener(&self) -> impl Fn(tsugite::core::protocol::progress::ProgressParams) + Send + Sync + 'static {
        let seen = self.clone();
        move |progress| {
            if let Ok(mut values) = seen.0.lock() {
                values.push(progress.progress);
            }
        }
    }

    fn values(&self) -> Vec<f64> {
        self.0.lock().map(|values| values.clone()).unwrap_or_default()
    }
}

fn text_of(result: &CallResult) -> String {
    let texts: Vec<_> = result.content.iter().filter_map(ContentBlock::as_text).collect();
    texts.join("\n")
}

fn same<T: PartialEq + std::fmt::Debug>(seen: &T, expected: &T) -> Outcome {
    match seen == expected {
        true => Ok(()),
        false => Err(format!("expected {expected:?}, got {seen:?}").into()),
    }
}

const GZIP: &str = r#"{"name": "hello.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"}"#;

/// For each feature.
const LIMIT: Duration = Duration::from_secs(20);

/// Between two attempts to be heard.
const AGAIN: Duration = Duration::from_millis(500);
