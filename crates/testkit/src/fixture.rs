//! A server with one tool for each thing a transcript wants to see.

use serde::Deserialize;
use tsugite::prelude::*;
use tsugite::server::ListKind;

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Say {
    text: String,
}

/// The fixture.
pub fn server() -> Server {
    let add = Tool::new("add")
        .description("Add two numbers.")
        .read_only(true)
        .handler(|Args(add): Args<Add>| async move { add.a + add.b });
    let say = Tool::new("say").handler(|Args(say): Args<Say>| async move {
        println!("a stray line on stdout");
        say.text
    });
    let steps = Tool::new("steps").handler(|cx: Context| async move {
        cx.progress(1).total(2).message("half").await;
        // What does not rise is not sent.
        cx.progress(1).total(2).await;
        cx.log(Level::Warning, "careful").await;
        cx.log(Level::Debug, "detail").await;
        cx.progress(2).total(2).await;
        "done"
    });
    let slow =
        Tool::new("slow").handler(|cx: Context, cancelled: tsugite::server::CancellationToken| async move {
            // Whoever asks for it knows from now on that it is under way.
            cx.progress(1).await;
            cancelled.cancelled().await;
            "never said"
        });
    let later = Tool::new("later").handler(|| async {
        tokio::task::yield_now().await;
        "later"
    });
    let fails = Tool::new("fails").handler(|| async { Err::<(), _>(HandlerError::new("no luck")) });
    let breaks = Tool::new("breaks").handler(|| async {
        let secret = std::io::Error::other("the password is swordfish");
        Err::<(), HandlerError>(secret.into())
    });
    #[allow(clippy::panic, reason = "to see what a panicking handler does to its server")]
    let panics = Tool::new("panics").handler(|| async {
        if true {
            panic!("on purpose");
        }
    });
    let hides = Tool::new("hides").handler(|cx: Context| async move {
        cx.server().disable(ListKind::Tool, "hides");
        "hidden"
    });
    [say, steps, slow, later, fails, breaks, panics, hides]
        .into_iter()
        .fold(Server::new("fixture", "1.0.0").instructions("Be kind.").tool(add), Server::tool)
}
