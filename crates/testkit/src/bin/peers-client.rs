//! The driver of `cargo xtask peers servers`: our client against a server of another project, feature by feature.
//!
//! One line of JSON for each feature goes to standard output; `xtask/src/peers/servers.rs` lists them. Only the public
//! API is used. One connection serves all features of a run, as it would in an application.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tsugite::client::{Change, ChangeFilter, Client, ClientBuilder, FormResponse};
use tsugite::jsonrpc::RawJson;
use tsugite::prelude::*;
use tsugite::protocol::Reference;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::pagination::PaginatedParams;
use tsugite::protocol::roots::Root;
use tsugite::protocol::sampling::CreateMessageResult;
use tsugite::protocol::{Role, resources};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type FeatureResult = Result<(), BoxError>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let run = match RunOptions::parse(std::env::args().skip(1)) {
        Ok(run) => run,
        Err(wrong) => {
            eprintln!("peers-client: {wrong}");
            return ExitCode::from(2);
        }
    };
    let visit = match tokio::time::timeout(FEATURE_TIMEOUT, run.connect()).await {
        Ok(Ok(visit)) => visit,
        Ok(Err(error)) => return run.report_all_failed(&error.to_string()),
        Err(_) => return run.report_all_failed("no connection in time"),
    };
    for feature in &run.features {
        let said = match tokio::time::timeout(FEATURE_TIMEOUT, visit.run_feature(feature)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("not done within {} s", FEATURE_TIMEOUT.as_secs())),
        };
        run.report(feature, said);
    }
    visit.client.close().await;
    ExitCode::SUCCESS
}

/// The command line.
struct RunOptions {
    peer: String,
    revision: Revision,
    transport: String,
    features: Vec<String>,
    /// A URL, or a command and its arguments.
    target: Vec<String>,
}

impl RunOptions {
    fn parse(args: impl Iterator<Item = String>) -> Result<Self, BoxError> {
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

    async fn connect(&self) -> Result<PeerSession, BoxError> {
        let heard = Arc::<ServerEvents>::default();
        let connecting = match (self.transport.as_str(), self.target.as_slice()) {
            ("stdio", command @ [_, ..]) => Client::spawn(command),
            ("http", [url]) => Client::connect(url),
            ("sse", [url]) => Client::connect(url).http_sse(),
            _ => return Err("there is no such target".into()),
        };
        // The revision is detected wherever that can lead to the wanted one.
        let connecting = match self.revision.is_stateless() {
            true => connecting,
            false => connecting.revision(self.revision),
        };
        let client = register_handlers(connecting, &heard).await?;
        if client.revision() != self.revision {
            return Err(format!("negotiated {}", client.revision()).into());
        }
        Ok(PeerSession { client, events: heard, is_everything: self.peer.ends_with("server-everything") })
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

    fn report_all_failed(&self, why: &str) -> ExitCode {
        for feature in &self.features {
            self.report(feature, Err(why.to_owned()));
        }
        ExitCode::SUCCESS
    }
}

/// Notifications and requests of the server.
#[derive(Default)]
struct ServerEvents {
    changes: Mutex<Vec<Change>>,
    logs: Mutex<Vec<Value>>,
    changed: Notify,
}

impl ServerEvents {
    /// Waits until `found` returns true.
    async fn wait_until(&self, found: impl Fn(&Self) -> bool) {
        loop {
            let news = self.changed.notified();
            if found(self) {
                return;
            }
            news.await;
        }
    }
}

fn register_handlers(connecting: ClientBuilder, heard: &Arc<ServerEvents>) -> ClientBuilder {
    let (changed, logged) = (Arc::clone(heard), Arc::clone(heard));
    connecting
        .on_elicit_form(async |form| {
            let named = form.requested_schema.properties.get("name").is_some();
            let content = if named { json!({"name": "Ada"}) } else { json!({}) };
            FormResponse::accept(content)
        })
        .on_sample(async |_| {
            Ok(CreateMessageResult::new(Role::Assistant, SamplingBlock::text("four"), "a model"))
        })
        .roots([Root::new("file:///srv/one"), Root::new("file:///srv/two")])
        .on_change(move |change| {
            if let Ok(mut changes) = changed.changes.lock() {
                changes.push(change);
            }
            changed.changed.notify_waiters();
        })
        .log_level(Level::Info)
        .on_log(move |log| {
            if let (Ok(mut logs), Ok(data)) = (logged.logs.lock(), log.data.read()) {
                logs.push(data);
            }
            logged.changed.notify_waiters();
        })
}

struct PeerSession {
    client: Client,
    events: Arc<ServerEvents>,
    /// It is `server-everything`, which has an inventory of its own.
    is_everything: bool,
}

impl PeerSession {
    async fn run_feature(&self, feature: &str) -> FeatureResult {
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
            other => Err(format!("unknown feature {other}").into()),
        }
    }

    async fn list(&self) -> FeatureResult {
        let tools = self.client.list_tools().await?;
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        if self.is_everything {
            return expect_eq(&names.contains(&"echo"), &true);
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
        expect_eq(&names, &all.to_vec())
    }

    async fn call(&self) -> FeatureResult {
        if self.is_everything {
            expect_eq(
                &self.call_text("get-sum", json!({"a": 40, "b": 2})).await?.as_str(),
                &"The sum of 40 and 2 is 42.",
            )?;
            let shown =
                self.client.call_raw("get-structured-content", json!({"location": "Chicago"})).await?;
            return expect_eq(&shown.structured_content.is_some(), &true);
        }
        let calls = [1, 2, 3].map(|b| self.call_text("add", json!({"a": 40, "b": b})));
        let [first, second, third] = calls;
        let (first, second, third) = tokio::try_join!(first, second, third)?;
        expect_eq(&[first.as_str(), &second, &third], &["41", "42", "43"])?;
        let sum: Value = self.client.call("add", json!({"a": 40, "b": 2})).await?;
        expect_eq(&sum, &json!({"sum": 42}))?;
        let failed = self.client.call_raw("fail", json!({})).await?;
        expect_eq(&failed.is_error, &Some(true))
    }

    async fn progress(&self) -> FeatureResult {
        let steps = match self.is_everything {
            true => ("trigger-long-running-operation", json!({"duration": 0.3, "steps": 3})),
            false => ("steps", json!({"n": 3})),
        };
        let seen = ProgressLog::default();
        let call = self.client.call_raw(steps.0, steps.1).on_progress(seen.listener());
        call.await?;
        expect_eq(&seen.values(), &vec![1.0, 2.0, 3.0])
    }

    async fn elicitation(&self) -> FeatureResult {
        match self.is_everything {
            true => {
                let result = self.client.call_raw("trigger-elicitation-request", json!({})).await?;
                expect_eq(&(result.is_error, result.content.is_empty()), &(None, false))
                    .map_err(|_| result_text(&result).into())
            }
            false => expect_eq(&self.call_text("ask", json!({})).await?.as_str(), &"hello Ada"),
        }
    }

    async fn sampling(&self) -> FeatureResult {
        let said = match self.is_everything {
            true => {
                self.call_text("trigger-sampling-request", json!({"prompt": "2 + 2?", "maxTokens": 10}))
                    .await?
            }
            false => self.call_text("sample", json!({})).await?,
        };
        expect_eq(&said.contains("four"), &true).map_err(|_| said.into())
    }

    async fn roots(&self) -> FeatureResult {
        match self.is_everything {
            true => {
                let said = self.call_text("get-roots-list", json!({})).await?;
                expect_eq(&said.contains("file:///srv/one"), &true).map_err(|_| said.into())
            }
            false => {
                let said = self.call_text("roots", json!({})).await?;
                expect_eq(&said.as_str(), &"file:///srv/one file:///srv/two")
            }
        }
    }

    async fn cancellation(&self) -> FeatureResult {
        let begun = Arc::new(Notify::new());
        let told = Arc::clone(&begun);
        let slow = self.client.call_raw("slow", json!({})).on_progress(move |_| told.notify_one());
        // Dropping the call is what cancels it.
        tokio::select! {
            ended = slow => return Err(format!("the call ended by itself: {ended:?}").into()),
            () = begun.notified() => {}
        }
        expect_eq(&self.call_text("was_cancelled", json!({})).await?.as_str(), &"true")
    }

    async fn resumption(&self) -> FeatureResult {
        let seen = ProgressLog::default();
        let result = self.client.call_raw("drop", json!({})).on_progress(seen.listener()).await?;
        expect_eq(&result_text(&result).as_str(), &"resumed")?;
        expect_eq(&seen.values(), &vec![1.0, 2.0, 3.0])
    }

    async fn changes(&self) -> FeatureResult {
        let wanted = if self.is_everything { Change::Resources } else { Change::Tools };
        let heard = self
            .events
            .wait_until(|heard| heard.changes.lock().is_ok_and(|changes| changes.contains(&wanted)));
        match self.is_everything {
            true => self.call_until("gzip-file-as-resource", GZIP, heard).await,
            false => {
                self.client.call_raw("grow", json!({})).await?;
                heard.await;
                let tools = self.client.list_tools().await?;
                expect_eq(&tools.iter().any(|tool| tool.name == "grown"), &true)
            }
        }
    }

    async fn logging(&self) -> FeatureResult {
        if self.is_everything {
            let heard = self.events.wait_until(|heard| heard.logs.lock().is_ok_and(|logs| !logs.is_empty()));
            self.client.subscribe("demo://resource/dynamic/text/1").await?;
            heard.await;
            return Ok(());
        }
        self.client.call_raw("log", json!({"level": "warning"})).await?;
        self.events
            .wait_until(|heard| heard.logs.lock().is_ok_and(|logs| logs.contains(&json!("this is warning"))))
            .await;
        Ok(())
    }

    async fn resources(&self) -> FeatureResult {
        if self.is_everything {
            let templates = self.client.list_resource_templates().await?;
            expect_eq(&templates.is_empty(), &false)?;
            let read = self.client.read_resource("demo://resource/dynamic/text/1").await?;
            return expect_eq(&read.contents.len(), &1);
        }
        let uris: Vec<_> = self.client.list_resources().await?.into_iter().map(|one| one.uri).collect();
        expect_eq(
            &uris.iter().map(String::as_str).collect::<Vec<_>>(),
            &vec!["memo://one", "memo://two", "memo://bytes"],
        )?;
        let templates = self.client.list_resource_templates().await?;
        let templates: Vec<_> = templates.iter().map(|one| one.uri_template.as_str()).collect();
        expect_eq(&templates, &vec!["memo://{id}"])?;
        for (uri, expected) in
            [("memo://one", json!("the first memo")), ("memo://seven", json!("memo seven"))]
        {
            let read = self.client.read_resource(uri).await?;
            let read: Value = RawJson::from_value(&read)?.read()?;
            expect_eq(read.pointer("/contents/0/text").unwrap_or(&Value::Null), &expected)?;
        }
        let read: Value = RawJson::from_value(&self.client.read_resource("memo://bytes").await?)?.read()?;
        expect_eq(read.pointer("/contents/0/blob").unwrap_or(&Value::Null), &json!("AAH+/w=="))?;
        match self.client.read_resource("nothing://here").await {
            Err(error) if error.as_rpc_error().is_some() => Ok(()),
            other => Err(format!("an unknown resource: {other:?}").into()),
        }
    }

    async fn subscription(&self) -> FeatureResult {
        let uri = if self.is_everything { "demo://resource/dynamic/text/1" } else { "memo://one" };
        let mut changes = self.client.listen(ChangeFilter::new().resource(uri)).await?;
        let heard = async {
            loop {
                match changes.next().await {
                    Some(Ok(Change::Resource { .. })) => return Ok(()),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(BoxError::from(error)),
                    None => return Err("the subscription has ended".into()),
                }
            }
        };
        let trigger = if self.is_everything { "toggle-subscriber-updates" } else { "touch" };
        let arguments = if self.is_everything { json!({}) } else { json!({"uri": uri}) };
        self.client.call_raw(trigger, arguments).await?;
        heard.await
    }

    async fn prompts(&self) -> FeatureResult {
        let prompts = self.client.list_prompts().await?;
        if self.is_everything {
            expect_eq(&prompts.is_empty(), &false)?;
            let prompt = self.client.get_prompt("args-prompt", json!({"city": "Kyoto"})).await?;
            return expect_eq(&prompt.messages.is_empty(), &false);
        }
        expect_eq(&prompts.iter().map(|prompt| prompt.name.as_str()).collect::<Vec<_>>(), &vec!["greet"])?;
        let prompt: Value =
            RawJson::from_value(&self.client.get_prompt("greet", json!({"who": "Kiku"})).await?)?.read()?;
        expect_eq(prompt.pointer("/messages/0/content/text").unwrap_or(&Value::Null), &json!("Greet Kiku."))?;
        let completed = self.client.complete(Reference::prompt("greet"), "who", "A").await?;
        expect_eq(&completed.completion.values, &vec!["Ada".to_owned(), "Alan".to_owned()])
    }

    async fn pages(&self) -> FeatureResult {
        let first = self.client.request::<resources::List>(PaginatedParams::new()).await?;
        expect_eq(&(first.resources.len(), first.next_cursor.as_deref()), &(2, Some("2")))?;
        expect_eq(&self.client.list_resources().await?.len(), &3)
    }

    /// Repeats a call until a notification arrives: some servers send it before the client listens.
    async fn call_until(
        &self,
        name: &str,
        arguments: &str,
        heard: impl Future<Output = ()>,
    ) -> FeatureResult {
        let arguments: Value = serde_json::from_str(arguments)?;
        let mut heard = std::pin::pin!(heard);
        loop {
            self.client.call_raw(name, &arguments).await?;
            if tokio::time::timeout(RETRY_INTERVAL, &mut heard).await.is_ok() {
                return Ok(());
            }
        }
    }

    async fn call_text(&self, name: &str, arguments: Value) -> Result<String, BoxError> {
        Ok(result_text(&self.client.call_raw(name, arguments).await?))
    }
}

/// The received progress.
#[derive(Clone, Default)]
struct ProgressLog(Arc<Mutex<Vec<f64>>>);

impl ProgressLog {
    fn listener(&self) -> impl Fn(tsugite::protocol::progress::ProgressParams) + Send + Sync + 'static {
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

fn result_text(result: &CallResult) -> String {
    result.text()
}

fn expect_eq<T: PartialEq + std::fmt::Debug>(seen: &T, expected: &T) -> FeatureResult {
    match seen == expected {
        true => Ok(()),
        false => Err(format!("expected {expected:?}, got {seen:?}").into()),
    }
}

const GZIP: &str = r#"{"name": "hello.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"}"#;

/// The time limit of each feature.
const FEATURE_TIMEOUT: Duration = Duration::from_secs(20);

/// The pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
