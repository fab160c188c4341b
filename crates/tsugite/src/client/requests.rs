//! The requests of the specification, one method each.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tsugite_core::jsonrpc::{Id, RawJson, write};
use tsugite_core::protocol::completion::{
    self, CompleteParams, CompleteResult, CompletionArgument, Reference,
};
use tsugite_core::protocol::discover::{Discover, DiscoverResult};
use tsugite_core::protocol::logging::{Level, SetLevel, SetLevelParams};
use tsugite_core::protocol::ping::Ping;
use tsugite_core::protocol::prompts::{self, GetParams, GetResult};
use tsugite_core::protocol::resources::{self, ReadParams, ReadResult, UriParams};
use tsugite_core::protocol::result::EmptyResult;
use tsugite_core::protocol::tasks::{self, TaskParams, UpdateParams};
use tsugite_core::protocol::tools::{self, CallParams, CallResult};
use tsugite_core::protocol::{EmptyParams, Method, OrderedMap};

use super::call::{self, Call, ClientMethod};
use super::client_error::{ClientError, ErrorKind, Result};
use super::connection::{ClientConnection, OutboundRequest};
use super::era::SENDER_KEYS;
use super::options::Options;
use super::paginator::Paginator;
use super::tool_output::read_output;
use super::{Client, follow_task, output_validation};

impl Client {
    /// Lists the tools, all pages of them.
    #[doc(alias("listTools", "tools/list", "list_all_tools"))]
    pub fn list_tools(&self) -> Paginator<tools::List> {
        Paginator::new(self)
    }

    /// Lists the prompts.
    #[doc(alias("listPrompts", "prompts/list"))]
    pub fn list_prompts(&self) -> Paginator<prompts::List> {
        Paginator::new(self)
    }

    /// Lists the resources.
    #[doc(alias("listResources", "resources/list"))]
    pub fn list_resources(&self) -> Paginator<resources::List> {
        Paginator::new(self)
    }

    /// Lists the resource templates.
    #[doc(alias("listResourceTemplates", "resources/templates/list"))]
    pub fn list_resource_templates(&self) -> Paginator<resources::ListTemplates> {
        Paginator::new(self)
    }

    /// Calls a tool and deserializes its output.
    ///
    /// `arguments` must serialize to a JSON object or null. The output is read from the structured content or, if that
    /// does not fit the type, from the text: as JSON, or as a string. So the outcome does not depend on the revision, and
    /// a `String` takes any text. `()` discards the output. The client's handlers answer input requests of the server.
    ///
    /// Fails with [`ErrorKind::OutputMismatch`] if the output does not fit the type, with [`ClientError::as_tool_failure`] if
    /// the tool reports a failure, and with [`ClientError::as_rpc_error`] if the server responds with an error.
    ///
    /// ```
    /// use serde_json::json;
    /// use tsugite::client::Client;
    /// use tsugite::prelude::*;
    ///
    /// /// Add two numbers.
    /// #[tool]
    /// async fn add(a: i64, b: i64) -> i64 {
    ///     a + b
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
    /// let client = Client::in_process(&Server::new("calculator", "1.0.0").tool(add)).await?;
    /// let sum: i64 = client.call("add", json!({"a": 1, "b": 2})).await?;
    /// assert_eq!(sum, 3);
    /// # Ok(()) }
    /// ```
    #[doc(alias("call_tool", "callTool", "tools/call", "structured_output"))]
    pub fn call<T: DeserializeOwned + Send + 'static>(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize,
    ) -> Call<tools::Call, T> {
        Call::new(self, call_params(name.into(), &arguments), |client, params: CallParams, options| {
            Box::pin(async move {
                let (tool, cause) = (params.name.clone(), options.failure_cause.clone());
                let result = call::run_rounds::<tools::Call>(client, params, options).await?;
                if result.is_error == Some(true) {
                    let error = ClientError::from(ErrorKind::ToolFailed(Box::new(result)));
                    return Err(error.with_source(cause.and_then(|cause| cause.take())));
                }
                read_output(tool, &result)
            })
        })
        .request_progress()
    }

    /// Calls a tool and returns its result, even if it reports a failure.
    #[doc(alias("call_tool", "callTool", "tools/call"))]
    pub fn call_raw(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize,
    ) -> Call<tools::Call, CallResult> {
        let params = call_params(name.into(), &arguments);
        Call::new(self, params, call::run_rounds_boxed::<tools::Call>).request_progress()
    }

    /// Calls a tool, and validates its output against the output schema it declares.
    ///
    /// Reads the list of tools first unless it contains this tool already. No external reference of a schema is
    /// fetched. Without the cargo feature `validate` no schema can be checked, and a tool that declares one fails.
    #[doc(alias("structured_output", "validate"))]
    pub fn call_checked(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize,
    ) -> Call<tools::Call, CallResult> {
        let run = |client: Client, params: CallParams, options| -> call::CallFuture<CallResult> {
            Box::pin(async move {
                client.ensure_tool_listed(&params.name).await?;
                let schema = client.inner.shared.tools.output_schema(&params.name);
                let result = call::run_rounds::<tools::Call>(client, params, options).await?;
                if result.is_error != Some(true)
                    && let Some(schema) = schema
                {
                    output_validation::validate_output(&schema, &result)
                        .map_err(|error| ClientError::malformed_result(tools::Call::NAME, error))?;
                }
                Ok(result)
            })
        };
        Call::new(self, call_params(name.into(), &arguments), run).request_progress()
    }

    /// Reads a resource.
    #[doc(alias("readResource", "resources/read"))]
    pub fn read_resource(&self, uri: impl Into<String>) -> Call<resources::Read, ReadResult> {
        Call::new(self, Ok(ReadParams::new(uri)), call::run_rounds_boxed::<resources::Read>)
    }

    /// Gets a prompt. `arguments` must serialize to an object of strings or null.
    #[doc(alias("getPrompt", "prompts/get"))]
    pub fn get_prompt(
        &self,
        name: impl Into<String>,
        arguments: impl Serialize,
    ) -> Call<prompts::Get, GetResult> {
        let params = RawJson::from_value(&arguments)
            .and_then(|arguments| arguments.read::<Option<OrderedMap<String>>>())
            .map(|arguments| {
                let params = GetParams::new(name);
                match arguments {
                    Some(arguments) => params.arguments(arguments),
                    None => params,
                }
            })
            .map_err(|error| {
                ClientError::config(format!(
                    "the arguments of a prompt must be an object of strings: {error}"
                ))
            });
        Call::new(self, params, call::run_rounds_boxed::<prompts::Get>)
    }

    /// Completes the argument `argument` of a prompt or of a resource template, of which `value` is typed so far.
    ///
    /// [`Call::context`] adds the arguments that are filled in already.
    ///
    /// ```
    /// use tsugite::prelude::*;
    /// use tsugite::protocol::Reference;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
    /// # let server = Server::new("s", "1").prompt(
    /// #     Prompt::new("plan").argument(tsugite::protocol::PromptArgument::new("title"))
    /// #         .complete("title", ["new", "next", "old"]).handler(async || "Make a plan."),
    /// # );
    /// let client = Client::in_process(&server).await?;
    /// let result = client.complete(Reference::prompt("plan"), "title", "n").context([("day", "Monday")]).await?;
    /// assert_eq!(result.completion.values, ["new", "next"]);
    /// # Ok(()) }
    /// ```
    #[doc(alias("completion", "completion/complete"))]
    pub fn complete(
        &self,
        reference: Reference,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> Call<completion::Complete, CompleteResult> {
        let argument = CompletionArgument::new(argument, value);
        self.request::<completion::Complete>(CompleteParams::new(reference, argument))
    }

    /// Sets the lowest level of logs that the server sends (up to 2025-11-25; later each request sets it, see
    /// [`ClientBuilder::log_level`](super::ClientBuilder::log_level)).
    #[doc(alias("logging", "setLevel", "logging/setLevel"))]
    pub fn set_log_level(&self, level: Level) -> Call<SetLevel, EmptyResult> {
        self.request::<SetLevel>(SetLevelParams::new(level))
    }

    /// Checks that the server responds (up to 2025-11-25).
    pub fn ping(&self) -> Call<Ping, EmptyResult> {
        self.request::<Ping>(EmptyParams::new())
    }

    /// Requests the server's info and capabilities again (2026-07-28).
    pub fn discover(&self) -> Call<Discover, DiscoverResult> {
        self.request::<Discover>(EmptyParams::new())
    }

    /// Subscribes to changes of a resource (up to 2025-11-25). [`Client::listen`] works on every revision.
    #[doc(alias("subscribeResource", "resources/subscribe"))]
    pub fn subscribe(&self, uri: impl Into<String>) -> Call<resources::Subscribe, EmptyResult> {
        self.request::<resources::Subscribe>(UriParams::new(uri))
    }

    /// Ends the subscription to a resource (up to 2025-11-25).
    #[doc(alias("unsubscribeResource", "resources/unsubscribe"))]
    pub fn unsubscribe(&self, uri: impl Into<String>) -> Call<resources::Unsubscribe, EmptyResult> {
        self.request::<resources::Unsubscribe>(UriParams::new(uri))
    }

    /// Gets the status of a task.
    #[doc(alias("get_task", "tasks/get"))]
    pub fn task(&self, id: impl Into<String>) -> Call<tasks::Get, tasks::GetResult> {
        let run =
            |client: Client, params: TaskParams, options: Options| -> call::CallFuture<tasks::GetResult> {
                Box::pin(async move { follow_task::read_task(&client, &params, &options).await })
            };
        Call::new(self, Ok(TaskParams::new(id)), run)
    }

    /// Waits for the result of a task (2025-11-25 only).
    pub fn task_result(&self, id: impl Into<String>) -> Call<tasks::Payload, tasks::PayloadResult> {
        self.request::<tasks::Payload>(TaskParams::new(id))
    }

    /// Lists the tasks (2025-11-25 only).
    pub fn list_tasks(&self) -> Paginator<tasks::List> {
        Paginator::new(self)
    }

    /// Answers the input requests of a task (extension of 2026-07-28).
    pub fn update_task(&self, params: UpdateParams) -> Call<tasks::Update, EmptyResult> {
        self.request::<tasks::Update>(params)
    }

    /// Notifies the server that the roots have changed (up to 2025-11-25; later it asks for them with each call).
    #[doc(alias("notifications/roots/list_changed", "sendRootsListChanged"))]
    pub async fn notify_roots_changed(&self) -> Result<()> {
        let connection = self.connection().await?;
        connection.era().notify_roots_changed(&connection).await
    }

    /// Sends one request of any method and returns its output. Input requests in the output are returned, not answered;
    /// [`Client::handle_input_requests`] answers them with the handlers. A call of a tool gets no idempotency key.
    pub fn request<M: ClientMethod>(&self, params: M::Params) -> Call<M, M::Output> {
        Call::new(self, Ok(params), call::send_single::<M>)
    }

    /// Sends a request by method name, and returns its result unchanged. A call of a tool gets no idempotency key.
    ///
    /// On 2026-07-28 the entries that every request needs are added to `_meta`, unless they are present. Fails with
    /// [`ErrorKind::Config`] if another key of `_meta` is malformed or reserved by the protocol.
    #[doc(alias = "send_request")]
    pub async fn request_raw(&self, method: &str, params: Option<RawJson>) -> Result<RawJson> {
        let request = UntypedRequest { method, params };
        self.send_with_retry(&request, &Options::default()).await.map(|(result, _)| result)
    }
}

/// A request by method name.
struct UntypedRequest<'a> {
    method: &'a str,
    params: Option<RawJson>,
}

impl OutboundRequest for UntypedRequest<'_> {
    fn method(&self) -> &str {
        self.method
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn encode(
        &self,
        out: &mut Vec<u8>,
        id: &Id<'_>,
        connection: &ClientConnection,
        options: &Options,
    ) -> Result<()> {
        let invalid = |error| ClientError::config(format!("request params must be a JSON object: {error}"));
        let mut params: Option<OrderedMap<RawJson>> =
            self.params.as_ref().map(RawJson::read).transpose().map_err(invalid)?;
        let given = params.as_ref().and_then(|params| params.get("_meta"));
        let mut meta = given.map(RawJson::read).transpose().map_err(invalid)?;
        let caller_meta: Option<tsugite_core::protocol::Meta> = meta.clone();
        call::check_meta_keys(caller_meta.as_ref(), &call::PARAMS_META_KEYS)?;
        connection.add_request_meta(&mut meta, id, options);
        // Entries of the caller override those of the client.
        if let (Some(meta), Some(caller_meta)) = (&mut meta, caller_meta) {
            for key in SENDER_KEYS {
                if let Some(value) = caller_meta.get(key) {
                    meta.insert(key, value);
                }
            }
        }
        if let Some(meta) = meta {
            let meta = RawJson::from_value(&meta).map_err(invalid)?;
            params.get_or_insert_default().insert("_meta", meta);
        }
        write::request(out, id, self.method, params.as_ref()).map_err(invalid)
    }

    fn param_headers(&self, connection: &ClientConnection) -> Vec<(String, String)> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct RequestSubject {
            name: Option<String>,
            uri: Option<String>,
            task_id: Option<String>,
            arguments: Option<RawJson>,
        }
        let Some(fields) = self.params.as_ref().and_then(|params| params.read::<RequestSubject>().ok())
        else {
            return Vec::new();
        };
        if !connection.era().mirrors_headers() {
            return Vec::new();
        }
        let mut headers = Vec::new();
        let subject = match self.method {
            tools::Call::NAME | prompts::Get::NAME => fields.name.clone(),
            resources::Read::NAME => fields.uri,
            tasks::Get::NAME | tasks::Update::NAME | tasks::Cancel::NAME => fields.task_id,
            _ => None,
        };
        if let Some(subject) = subject {
            let encoded = tsugite_core::session::header::encode(&subject).into_owned();
            headers.push(("mcp-name".to_owned(), encoded));
        }
        if let (tools::Call::NAME, Some(name)) = (self.method, fields.name) {
            headers.extend(
                connection.shared.tools.param_headers(&name, fields.arguments.as_ref().map(RawJson::text)),
            );
        }
        headers
    }
}

fn call_params(name: String, arguments: &impl Serialize) -> Result<CallParams> {
    let invalid = |error: &dyn std::fmt::Display| {
        ClientError::config(format!("the arguments of the tool {name:?} must be a JSON object: {error}"))
    };
    let arguments = RawJson::from_value(arguments).map_err(|error| invalid(&error))?;
    if arguments.text() == "null" {
        return Ok(CallParams::new(name));
    }
    if !arguments.is_object() {
        return Err(invalid(&"found another type"));
    }
    Ok(CallParams::new(name).arguments(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_or_nothing() {
        assert!(call_params("a".to_owned(), &serde_json::json!([1])).is_err());
        assert!(call_params("a".to_owned(), &()).unwrap().arguments.is_none());
        assert!(call_params("a".to_owned(), &serde_json::json!({})).unwrap().arguments.is_some());
    }
}
