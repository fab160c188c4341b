//! `#[handlers]`.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::Deserialize;
use serde_json::json;
use tsugite::prelude::*;

use crate::{assert_twins, call};

#[derive(Default)]
struct Calculator {
    memory: AtomicI64,
}

#[handlers]
impl Calculator {
    /// Not a handler.
    const START: i64 = 1;

    /// Add to what is remembered.
    #[tool(idempotent = false)]
    async fn add(
        &self,
        /// How much.
        #[arg(default = Self::START)]
        n: i64,
    ) -> i64 {
        self.plus(n)
    }

    #[tool]
    fn twice(&self, cx: Context) -> Result<i64, HandlerError> {
        let _ = cx;
        Ok(self.memory.load(Ordering::Relaxed) * 2)
    }

    #[tool(name = "nothing")]
    pub(crate) async fn without_receiver() -> &'static str {
        "nothing"
    }

    #[cfg(any())]
    #[tool]
    async fn never(&self) -> Missing {}

    /// What is remembered.
    #[resource("memory://{slot}")]
    async fn remembered(&self, #[arg(complete = ["a"])] slot: String) -> Option<String> {
        (slot == "a").then(|| self.memory.load(Ordering::Relaxed).to_string())
    }

    #[tsugite::prompt]
    async fn explain(&self, #[arg(complete = Self::topics)] topic: String) -> String {
        format!("Explain {topic}.")
    }

    async fn topics(_: tsugite::server::CompletionRequest) -> Vec<String> {
        vec!["sums".to_owned()]
    }

    fn plus(&self, n: i64) -> i64 {
        self.memory.fetch_add(n, Ordering::Relaxed) + n
    }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// How much.
    #[serde(default = "one")]
    n: i64,
}

fn one() -> i64 {
    Calculator::START
}

#[derive(Deserialize, JsonSchema)]
struct Remembered {
    slot: String,
}

#[derive(Deserialize, JsonSchema)]
struct Explain {
    topic: String,
}

fn by_hand() -> Server {
    let this = Arc::new(Calculator::default());
    let (adding, doubling, remembering) = (this.clone(), this.clone(), this);
    Server::new("test", "1")
        .tool(Tool::new("add").description("Add to what is remembered.").idempotent(false).handler(
            move |Args(Add { n }): Args<Add>| {
                let this = adding.clone();
                async move { this.add(n).await }
            },
        ))
        .tool(Tool::new("twice").blocking_handler(move |cx: Context| doubling.twice(cx)))
        .tool(Tool::new("nothing").handler(Calculator::without_receiver))
        .resource(
            Resource::template("memory://{slot}")
                .name("remembered")
                .description("What is remembered.")
                .complete("slot", ["a"])
                .handler(move |Args(Remembered { slot }): Args<Remembered>| {
                    let this = remembering.clone();
                    async move { this.remembered(slot).await }
                }),
        )
        .prompt(
            Prompt::new("explain")
                .handler(|Args(Explain { topic }): Args<Explain>| async move { format!("Explain {topic}.") })
                .complete("topic", Calculator::topics),
        )
}

#[tokio::test]
async fn methods_share_one_value() {
    let reference = json!({"type": "ref/prompt", "name": "explain"});
    // The value lives as long as the server, so each revision goes on where the one before stopped.
    assert_twins(
        Server::new("test", "1").handlers(Calculator::default()),
        by_hand(),
        [
            call("add", json!({"n": 2})),
            call("add", json!({})),
            call("twice", json!({})),
            call("nothing", json!({})),
            ("resources/read", json!({"uri": "memory://a"})),
            ("prompts/get", json!({"name": "explain", "arguments": {"topic": "sums"}})),
            ("completion/complete", json!({"ref": reference, "argument": {"name": "topic", "value": ""}})),
        ],
    )
    .await;
    assert_eq!(Calculator::default().add(3).await, 3);
}

struct Shown<T>(T);

#[handlers]
impl<T> Shown<T>
where
    T: Display + Send + Sync + 'static,
{
    #[tool]
    async fn show(&self) -> String {
        self.0.to_string()
    }
}

#[tokio::test]
async fn handler_block_may_be_generic() {
    let show = Tool::new("show").handler(|| async { "7".to_owned() });
    let made = Server::new("test", "1").handlers(Shown(7));
    assert_twins(made, Server::new("test", "1").tool(show), [call("show", json!({}))]).await;
}
