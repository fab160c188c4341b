//! The client that the official conformance suite talks to: `conformance-client URL`, with the scenario in
//! `MCP_CONFORMANCE_SCENARIO`. It uses only the public API.

mod login;

use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tsugite::client::{Client, ClientBuilder, FormResponse};
use tsugite::prelude::*;
use tsugite::protocol::roots::Root;
use tsugite::revision::RpcError;

type ScenarioResult = Result<(), Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().nth(1) else {
        eprintln!("usage: conformance-client URL");
        return ExitCode::from(2);
    };
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    match tokio::time::timeout(SCENARIO_TIMEOUT, run_scenario(&scenario, url)).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("{scenario}: not done within {} s", SCENARIO_TIMEOUT.as_secs());
            ExitCode::FAILURE
        }
    }
}

async fn run_scenario(scenario: &str, url: String) -> ScenarioResult {
    let mut builder = client_builder(url)?;
    if scenario.starts_with("auth/") {
        builder = builder.login(login::login(scenario)?);
    }
    let client = builder.await?;
    let done = match scenario {
        "initialize" => list_tools(&client).await,
        "tools_call" => add_numbers(&client).await,
        "elicitation-sep1034-client-defaults" => call_one(&client, "test_client_elicitation_defaults").await,
        "sse-retry" => call_one(&client, "test_reconnection").await,
        "request-metadata" => list_tools(&client).await,
        "sep-2322-client-request-state" => input_required_rounds(&client).await,
        "http-standard-headers" => everything_once(&client).await,
        "http-custom-headers" => calls_from_context(&client).await,
        "http-invalid-tool-headers" => call_listed(&client).await,
        "json-schema-ref-no-deref" => list_tools(&client).await,
        "json-schema-2020-12-preservation" => echo_schema(&client).await,
        login if login.starts_with("auth/") => use_twice(&client).await,
        // Skills, an unsupported extension: no request is sent, and the suite decides nothing.
        skills if skills.starts_with("sep-2640-client-") => Ok(()),
        other => Err(format!("unknown scenario {other:?}").into()),
    };
    client.close().await;
    done
}

/// Connects with the settings of the suite.
fn client_builder(url: String) -> Result<ClientBuilder, Box<dyn std::error::Error>> {
    let connecting = Client::connect(url)
        .client_info(("conformance-client", env!("CARGO_PKG_VERSION")))
        .on_elicit_form(async |form| match form.requested_schema.properties.get("confirmed") {
            Some(_) => FormResponse::accept(json!({"confirmed": true})),
            None => FormResponse::accept_defaults(),
        })
        .on_sample(async |_| Err(RpcError::UserRejected))
        .roots([Root::new("file:///srv")]);
    Ok(match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        Ok(version) => {
            let revision: Revision = version.parse()?;
            match revision.is_stateless() {
                true => connecting.stateless_only(),
                false => connecting.revision(revision),
            }
        }
        Err(_) => connecting,
    })
}

async fn list_tools(client: &Client) -> ScenarioResult {
    client.list_tools().await?;
    Ok(())
}

/// Sends two requests, of which the second may need other credentials.
async fn use_twice(client: &Client) -> ScenarioResult {
    for tool in client.list_tools().await? {
        client.call_raw(tool.name, json!({})).await?;
    }
    client.list_tools().caching(tsugite::client::Caching::Refresh).await?;
    Ok(())
}

async fn add_numbers(client: &Client) -> ScenarioResult {
    client.list_tools().await?;
    client.call_raw("add_numbers", json!({"a": 5, "b": 3})).await?;
    Ok(())
}

async fn call_one(client: &Client, name: &str) -> ScenarioResult {
    client.list_tools().await?;
    client.call_raw(name, json!({})).await?;
    Ok(())
}

async fn input_required_rounds(client: &Client) -> ScenarioResult {
    client.list_tools().await?;
    for name in
        ["test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"]
    {
        client.call_raw(name, json!({})).await?;
    }
    Ok(())
}

async fn everything_once(client: &Client) -> ScenarioResult {
    for tool in client.list_tools().await? {
        client.call_raw(tool.name, json!({})).await?;
    }
    for resource in client.list_resources().await? {
        client.read_resource(resource.uri).await?;
    }
    for prompt in client.list_prompts().await? {
        client.get_prompt(prompt.name, ()).await?;
    }
    Ok(())
}

async fn calls_from_context(client: &Client) -> ScenarioResult {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Context {
        tool_calls: Vec<ToolCall>,
    }

    #[derive(Deserialize)]
    struct ToolCall {
        name: String,
        #[serde(default)]
        arguments: Value,
    }

    client.list_tools().await?;
    let context: Context = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    for call in context.tool_calls {
        client.call_raw(call.name, call.arguments).await?;
    }
    Ok(())
}

/// Calls every listed tool: a tool that must not be used is not listed.
async fn call_listed(client: &Client) -> ScenarioResult {
    for tool in client.list_tools().await? {
        client.call_raw(tool.name, json!({"region": "eu", "value": "x"})).await?;
    }
    Ok(())
}

async fn echo_schema(client: &Client) -> ScenarioResult {
    let tools = client.list_tools().await?;
    let shown = tools.into_iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let shown = shown.ok_or("there is no json_schema_2020_12_tool")?;
    client.call_raw("json_schema_echo", json!({"schema": shown.input_schema})).await?;
    Ok(())
}

/// The suite does not end a client that hangs. Its own timeout in `xtask/src/conformance/client.rs` is shorter.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(25);
