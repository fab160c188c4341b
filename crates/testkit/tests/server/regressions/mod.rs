//! Regressions: each test reproduces a bug where two features meet.

mod composition;
mod elicitation;
mod limits;
mod requests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tsugite::jsonrpc::{MessageLimits, RawJson};
use tsugite::prelude::*;
use tsugite::protocol::caching::CacheScope;
use tsugite::protocol::form::FormSchema;
use tsugite::protocol::{OrderedMap, Schema};
use tsugite::server::layer::{ConcurrencyLimit, RateLimit, Timeout};
use tsugite::server::{CallParts, FieldValue, FormField, FromCall, InvocationError};
use tsugite::transport::memory;
use tsugite_testkit::raw_client::RawClient;

const STATELESS: Revision = Revision::NEWEST;

fn rev(name: &str) -> Revision {
    name.parse().unwrap()
}

struct Name {
    name: String,
}

impl Form for Name {
    fn schema() -> FormSchema {
        FormSchema::new().required_field("name", String::field())
    }
    fn read(content: &OrderedMap<FieldValue>) -> Result<Self, String> {
        Ok(Self { name: String::read("name", content.get("name"))? })
    }
}

fn elicits() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}})
}

fn host(_: &str, _: &Value) -> Value {
    json!({"action": "accept", "content": {"name": "Ada"}})
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

fn tool(name: &str) -> Tool {
    let said = name.to_owned();
    Tool::new(name).handler(move || {
        let said = said.clone();
        async move { said }
    })
}

fn names<'a>(response: &'a Value, list: &str, member: &str) -> Vec<&'a str> {
    response["result"][list]
        .as_array()
        .unwrap_or_else(|| panic!("{response}"))
        .iter()
        .map(|i| i[member].as_str().unwrap())
        .collect()
}

async fn plain(server: &Server, revision: Revision) -> RawClient {
    RawClient::connect(server, revision, json!({})).await
}
