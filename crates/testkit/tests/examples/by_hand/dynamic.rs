//! `dynamic`, by hand.

use serde::Deserialize;
use serde_json::json;
use tsugite::prelude::*;
use tsugite::protocol::Schema;
use tsugite::server::ListKind;

#[derive(Deserialize, JsonSchema)]
struct Learn {
    /// The name of the new tool.
    language: String,
    /// The greeting that it returns.
    greeting: String,
}

#[derive(Deserialize, JsonSchema)]
struct Forget {
    language: String,
}

#[derive(Deserialize)]
struct Greet {
    name: String,
}

async fn learn(Args(Learn { language, greeting }): Args<Learn>, cx: Context) -> Result<String, HandlerError> {
    let schema = Schema::from(json!({
        "type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"],
    }));
    let tool = Tool::new(&language)
        .description(format!("Greets a person in {language}."))
        .input_schema(schema)
        .raw_handler(move |arguments, _| {
            let greeting = greeting.clone();
            async move {
                let Greet { name } = arguments.read()?;
                Ok::<_, HandlerError>(format!("{greeting}, {name}!"))
            }
        });
    cx.server().add(tool).map_err(|error| HandlerError::new(error.to_string()))?;
    Ok(format!("learnt {language}"))
}

pub fn server() -> Server {
    let learn =
        Tool::new("learn").description("Teaches the server to greet in another language.").handler(learn);
    let forget = Tool::new("forget").description("Forgets a language.").destructive(true).handler(
        |Args(Forget { language }): Args<Forget>, cx: Context| async move {
            cx.server().remove(ListKind::Tool, &language)
        },
    );
    Server::new("dynamic", "1.0.0").tool(learn).tool(forget)
}
