//! `elicitation`, by hand.

use std::io;

use serde::Deserialize;
use tsugite::prelude::*;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::form::{ChoiceOptions, Field, FieldKind, FormSchema, TextFormat, TitledOption};
use tsugite::server::{FieldValue, FormField};

struct Confirm {
    sure: bool,
}

impl Form for Confirm {
    fn schema() -> FormSchema {
        FormSchema::new().required_field("sure", bool::field().description("Delete anyway?"))
    }

    fn read(content: &OrderedMap<FieldValue>) -> Result<Self, String> {
        Ok(Self { sure: bool::read("sure", content.get("sure"))? })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Path {
    path: String,
}

async fn delete(Args(Path { path }): Args<Path>, cx: Context) -> Result<String, HandlerError> {
    let files = cx.once("count", count(&path)).await?;
    if files > 0 && !cx.ask::<Confirm>(format!("{path} holds {files} files.")).await?.sure {
        return Ok("kept".into());
    }
    remove(&path).await?;
    Ok(format!("deleted {path}"))
}

struct Order {
    large: bool,
    count: u32,
    receipt: Option<String>,
}

impl Form for Order {
    fn schema() -> FormSchema {
        let option = |value: &str, title: &str| TitledOption { value: value.into(), title: title.into() };
        let sizes = ChoiceOptions::Titled(vec![option("small", "Small"), option("large", "Quite large")]);
        let count = FieldKind::Number {
            integer: true,
            minimum: Some(1.into()),
            maximum: Some(12.into()),
            default: Some(2.into()),
        };
        let receipt = FieldKind::Text {
            min_length: None,
            max_length: None,
            format: Some(TextFormat::Email),
            default: None,
        };
        FormSchema::new()
            .required_field("size", Field::choice(sizes).description("How should it be cut?"))
            .field("count", Field::from(count).title("How many"))
            .field("receipt", receipt)
    }

    fn read(content: &OrderedMap<FieldValue>) -> Result<Self, String> {
        let large = String::read("size", content.get("size"))? == "large";
        let receipt = Option::read("receipt", content.get("receipt"))?;
        Ok(Self { large, count: u32::read("count", content.get("count"))?, receipt })
    }
}

async fn order(cx: Context) -> Result<String, HandlerError> {
    match cx.ask::<Order>("What shall it be?").await {
        Ok(Order { large, count, receipt }) => {
            let size = if large { "large" } else { "small" };
            let receipt = receipt.map(|to| format!(", receipt to {to}")).unwrap_or_default();
            Ok(format!("{count} {size} planks{receipt}"))
        }
        Err(AskError::Declined) => Ok("no planks then".into()),
        Err(other) => Err(other.into()),
    }
}

async fn count(path: &str) -> io::Result<usize> {
    Ok(path.len() % 4)
}

async fn remove(_path: &str) -> io::Result<()> {
    Ok(())
}

pub fn server() -> Server {
    let delete = Tool::new("delete")
        .description("Deletes a directory, after asking if there is something in it.")
        .destructive(true)
        .handler(delete);
    let order = Tool::new("order").description("Orders planks.").handler(order);
    Server::new("elicitation", "1.0.0").tool(delete).tool(order)
}
