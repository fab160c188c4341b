//! Answers the requests of a server, in both eras, with the client's handlers.

use tokio::time::Instant;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::elicitation::{
    self, ElicitAction, ElicitParams, ElicitResult, FormParams, UrlParams,
};
use tsugite_core::protocol::meta::RELATED_TASK;
use tsugite_core::protocol::mrtr::{InputRequest, InputRequests, InputResponses};
use tsugite_core::protocol::sampling::{CreateMessage, CreateMessageParams, CreateMessageResult};
use tsugite_core::protocol::tasks::MaybeTask;
use tsugite_core::protocol::{Meta, Method, roots};
use tsugite_core::revision::{Revision, RpcError, Translate, read_params, write_input_response};

use super::client_error::{ClientError, ErrorKind};
use super::client_handler::{ClientHandlers, FormResponse, UrlResponse};
use crate::shared::log;

/// Answers a request of the server (up to 2025-11-25). The result is encoded for `from`.
pub(super) async fn handle_server_request(
    handlers: &ClientHandlers,
    method: &str,
    params: &RawJson,
    from: Revision,
) -> Result<RawJson, RpcError> {
    let params = Raw::from(params);
    match method {
        elicitation::Create::NAME => {
            let response = elicit(handlers, read_params::<elicitation::Create>(params, from)?).await?;
            // Not downgraded: some servers use more than their revision has, and such a server can read the response.
            RawJson::from_value(&response).map_err(|_| RpcError::Internal)
        }
        CreateMessage::NAME => {
            let response = sample(handlers, read_params::<CreateMessage>(params, from)?).await?;
            encode_result::<CreateMessage>(MaybeTask::Complete(response), from)
        }
        roots::List::NAME => encode_result::<roots::List>(list_roots(handlers).await?, from),
        other => Err(RpcError::MethodNotFound { method: other.to_owned() }),
    }
}

/// Answers the input requests of a result (2026-07-28), one after another because a user reads one at a time.
pub(super) async fn handle_input_requests(
    handlers: &ClientHandlers,
    requests: InputRequests,
) -> Result<InputResponses, ClientError> {
    let mut responses = InputResponses::new();
    for (key, request) in requests {
        let method = request.method();
        let response = match request {
            InputRequest::Elicit(params) => match elicit(handlers, params).await {
                Ok(response) => write_input_response::<elicitation::Create>(MaybeTask::Complete(response))
                    .map_err(unsupported_error),
                Err(error) => Err(error),
            },
            InputRequest::Sample(params) => match sample(handlers, params).await {
                Ok(response) => write_input_response::<CreateMessage>(MaybeTask::Complete(response))
                    .map_err(unsupported_error),
                Err(error) => Err(error),
            },
            InputRequest::Roots(_) => match list_roots(handlers).await {
                Ok(response) => write_input_response::<roots::List>(response).map_err(unsupported_error),
                Err(error) => Err(error),
            },
            _ => Err(RpcError::MethodNotFound { method: method.to_owned() }),
        };
        let response = response.map_err(|error| {
            let message = error.to_error_object(Revision::NEWEST).message;
            ErrorKind::InputRequired(format!("cannot answer the server's request `{method}`: {message}"))
        })?;
        responses.insert(key, response);
    }
    Ok(responses)
}

async fn elicit(handlers: &ClientHandlers, params: ElicitParams) -> Result<ElicitResult, RpcError> {
    match params {
        ElicitParams::Form(form) => elicit_form(handlers, form).await,
        ElicitParams::Url(url) => Ok(match elicit_url(handlers, url).await? {
            UrlResponse::Accept => ElicitResult::new(ElicitAction::Accept),
            UrlResponse::Decline => ElicitResult::new(ElicitAction::Decline),
            UrlResponse::Cancel => ElicitResult::new(ElicitAction::Cancel),
        }),
        _ => Err(RpcError::InvalidParams("this client supports only the modes `form` and `url`".into())),
    }
}

async fn elicit_form(handlers: &ClientHandlers, form: FormParams) -> Result<ElicitResult, RpcError> {
    let Some(callback) = &handlers.form else { return Err(mode_not_supported("forms")) };
    handlers.elicitation_limit.admit(Instant::now())?;
    let schema = form.requested_schema.clone();
    match callback(form).await {
        FormResponse::Accept(content) => {
            let content = schema.with_defaults(content);
            if let Err(error) = schema.check(&content) {
                log::error!(%error, "the response to a form does not match its schema and was not sent");
                return Err(RpcError::internal_with_message(format!(
                    "the client's response does not match the form: {error}"
                )));
            }
            Ok(ElicitResult::new(ElicitAction::Accept).content(content))
        }
        FormResponse::Invalid(error) => {
            log::error!(%error, "the response to a form is not an object of form fields and was not sent");
            Err(RpcError::internal_with_message(format!(
                "the client's response is not an object of form fields: {error}"
            )))
        }
        FormResponse::Decline => Ok(ElicitResult::new(ElicitAction::Decline)),
        FormResponse::Cancel => Ok(ElicitResult::new(ElicitAction::Cancel)),
    }
}

/// Asks the user to open a web page. A URL that is not `http` or `https`, or that names a user, is declined without asking.
pub(super) async fn elicit_url(handlers: &ClientHandlers, url: UrlParams) -> Result<UrlResponse, RpcError> {
    let Some(callback) = &handlers.url else { return Err(mode_not_supported("web pages")) };
    if url.target().is_none() {
        log::warn!("declined to open a URL of the server that is not http or https, or that names a user");
        return Ok(UrlResponse::Decline);
    }
    handlers.elicitation_limit.admit(Instant::now())?;
    Ok(callback(url).await)
}

async fn sample(
    handlers: &ClientHandlers,
    params: CreateMessageParams,
) -> Result<CreateMessageResult, RpcError> {
    let Some(callback) = &handlers.sample else { return Err(method_not_found::<CreateMessage>()) };
    if !handlers.sampling_tools && (params.tools.is_some() || params.tool_choice.is_some()) {
        return Err(RpcError::InvalidParams("this client does not support tools for its model".into()));
    }
    params.check_tool_results().map_err(|text| {
        RpcError::InvalidParams(format!("Invalid params: {text}").into()).with("path", "messages")
    })?;
    let result = callback(params).await?;
    check_meta(CreateMessage::NAME, result.meta.iter())?;
    Ok(result)
}

async fn list_roots(handlers: &ClientHandlers) -> Result<roots::ListResult, RpcError> {
    let Some(callback) = &handlers.roots else { return Err(method_not_found::<roots::List>()) };
    let roots = callback(()).await;
    check_meta(roots::List::NAME, roots.iter().flat_map(|root| &root.meta))?;
    if let Some(root) = roots.iter().find(|root| !root.is_file()) {
        log::warn!(uri = root.uri, "the roots are not sent: one of them is not a `file://` URI");
        return Err(RpcError::Internal);
    }
    Ok(roots::ListResult::new(roots))
}

/// Checks the `_meta` keys that a handler of the application set.
fn check_meta<'a>(method: &str, mut metas: impl Iterator<Item = &'a Meta>) -> Result<(), RpcError> {
    metas.try_for_each(|meta| meta.check_user_keys(&[RELATED_TASK])).map_err(|error| {
        log::error!(method, %error, "the response to a request of the server was not sent");
        RpcError::Internal
    })
}

fn encode_result<M: Method>(mut output: M::Output, to: Revision) -> Result<RawJson, RpcError>
where
    M::Output: Translate,
{
    output.downgrade(to).map_err(unsupported_error)?;
    RawJson::from_value(&output).map_err(|_| RpcError::Internal)
}

fn unsupported_error(error: tsugite_core::revision::UnsupportedByRevisionError) -> RpcError {
    RpcError::internal_with_message(error.to_string())
}

/// The error for a method that the client did not declare ("Client Features", "Roots": -32601 without support for
/// them).
fn method_not_found<M: Method>() -> RpcError {
    RpcError::MethodNotFound { method: M::NAME.to_owned() }
}

/// The error for an elicitation mode that the client did not declare.
fn mode_not_supported(feature: &str) -> RpcError {
    RpcError::InvalidParams(format!("this client does not support {feature}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::client_handler::request_callback;
    use serde_json::json;
    use tsugite_core::protocol::{Role, SamplingBlock};

    fn handlers(response: FormResponse) -> ClientHandlers {
        let form = Some(request_callback(move |_| {
            let response = response.clone();
            async move { response }
        }));
        ClientHandlers { form, ..ClientHandlers::default() }
    }

    fn raw(value: serde_json::Value) -> RawJson {
        RawJson::from_value(&value).unwrap()
    }

    fn form() -> RawJson {
        raw(
            json!({"message": "?", "requestedSchema": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "sure": {"type": "boolean", "default": true}}}}),
        )
    }

    #[tokio::test]
    async fn missing_fields_get_the_defaults_of_the_form() {
        let handlers = handlers(FormResponse::accept(json!({"name": "Kiku"})));
        let response = handle_server_request(&handlers, "elicitation/create", &form(), Revision::V2025_11_25)
            .await
            .unwrap();
        assert_eq!(response.text(), r#"{"action":"accept","content":{"name":"Kiku","sure":true}}"#);
    }

    #[tokio::test]
    async fn form_beyond_the_revision_is_answered() {
        let handlers = handlers(FormResponse::accept_defaults());
        let choices =
            json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["b"]});
        let form = raw(
            json!({"message": "?", "requestedSchema": {"type": "object", "properties": {"some": choices}}}),
        );
        let response = handle_server_request(&handlers, "elicitation/create", &form, Revision::V2025_06_18)
            .await
            .unwrap();
        assert_eq!(response.text(), r#"{"action":"accept","content":{"some":["b"]}}"#);
    }

    #[tokio::test]
    async fn response_that_does_not_match_the_form_is_not_sent() {
        let handlers = handlers(FormResponse::accept(json!({"sure": "yes"})));
        let error = handle_server_request(&handlers, "elicitation/create", &form(), Revision::V2025_11_25)
            .await
            .unwrap_err();
        assert!(error.to_error_object(Revision::V2025_11_25).message.contains("`sure`"));
    }

    #[tokio::test]
    async fn response_that_is_no_object_of_fields_is_not_sent() {
        let keyed_by_numbers = std::collections::BTreeMap::from([((1, 2), "a")]);
        for response in [
            FormResponse::accept("Kiku"),
            FormResponse::accept(()),
            FormResponse::accept(json!([{"name": "Kiku"}])),
            FormResponse::accept(json!({"name": {"first": "Kiku"}})),
            FormResponse::accept(keyed_by_numbers),
        ] {
            let handlers = handlers(response);
            let error =
                handle_server_request(&handlers, "elicitation/create", &form(), Revision::V2025_11_25)
                    .await
                    .unwrap_err();
            let message = error.to_error_object(Revision::V2025_11_25).message;
            assert!(
                message.starts_with("the client's response is not an object of form fields: "),
                "{message}"
            );
        }
    }

    #[tokio::test]
    async fn undeclared_request_is_refused() {
        for method in ["elicitation/create", "sampling/createMessage", "roots/list", "tools/list"] {
            let params = match method {
                "sampling/createMessage" => raw(json!({"messages": [], "maxTokens": 1})),
                _ => form(),
            };
            let refused =
                handle_server_request(&ClientHandlers::default(), method, &params, Revision::V2025_06_18)
                    .await;
            assert!(refused.is_err(), "{method}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn elicitations_are_limited_per_minute() {
        // ELIC-047, F-19
        let handlers = ClientHandlers {
            elicitation_limit: crate::client::client_handler::ElicitationLimit::new(2),
            ..handlers(FormResponse::Decline)
        };
        let ask = || async {
            handle_server_request(&handlers, "elicitation/create", &form(), Revision::NEWEST).await
        };
        assert!(ask().await.is_ok() && ask().await.is_ok());
        let refused = ask().await.unwrap_err().to_error_object(Revision::NEWEST);
        assert_eq!(refused.message, "the client answers at most 2 elicitations per minute");
        assert_eq!(refused.data.unwrap().text(), r#"{"limit":2}"#);
        tokio::time::advance(std::time::Duration::from_secs(30)).await;
        assert!(ask().await.is_ok() && ask().await.is_err());
    }

    #[tokio::test]
    async fn unmatched_tool_results_are_invalid_params() {
        // SAMP-016, SAMP-012, F-21
        let result = || Ok(CreateMessageResult::new(Role::Assistant, SamplingBlock::text("x"), "m"));
        let handlers = |sampling_tools| ClientHandlers {
            sample: Some(request_callback(move |_| async move { result() })),
            sampling_tools,
            ..ClientHandlers::default()
        };
        let call = json!({"role": "assistant", "content": {"type": "tool_use", "id": "a", "name": "t", "input": {}}});
        let answer = json!({"type": "tool_result", "toolUseId": "a", "content": []});
        let text = json!({"type": "text", "text": "x"});
        let other = json!({"type": "tool_result", "toolUseId": "b", "content": []});
        let user = |content: serde_json::Value| json!({"role": "user", "content": content});
        for (messages, fits) in [
            (json!([call, user(json!([answer]))]), true),
            (json!([call]), false),
            (json!([call, user(text.clone())]), false),
            (json!([call, user(json!([answer, text]))]), false),
            (json!([call, user(json!([other]))]), false),
        ] {
            let params = raw(json!({"messages": messages, "maxTokens": 1, "tools": []}));
            let ask = |handlers| async move {
                handle_server_request(&handlers, CreateMessage::NAME, &params, Revision::V2025_11_25).await
            };
            let outcome = ask(handlers(true)).await.map_err(|error| error.code(Revision::V2025_11_25));
            assert_eq!(outcome.map(|_| ()), if fits { Ok(()) } else { Err(-32602) }, "{messages}");
        }
        let params = raw(json!({"messages": [], "maxTokens": 1, "tools": []}));
        let refused =
            handle_server_request(&handlers(false), CreateMessage::NAME, &params, Revision::V2025_11_25)
                .await;
        assert_eq!(refused.unwrap_err().code(Revision::V2025_11_25), -32602);
    }

    #[tokio::test]
    async fn misleading_urls_are_declined_without_asking() {
        // F-14
        let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let hosts = std::sync::Arc::clone(&asked);
        let callback = move |page: UrlParams| {
            hosts.lock().unwrap().push(page.target().unwrap().host);
            async { UrlResponse::Accept }
        };
        let handlers = ClientHandlers {
            url: Some(crate::client::client_handler::request_callback(callback)),
            ..ClientHandlers::default()
        };
        for (url, expected) in [
            ("https://example.com/a?b", UrlResponse::Accept),
            ("HTTP://localhost:1/", UrlResponse::Accept),
            ("javascript:alert(1)", UrlResponse::Decline),
            ("https:///x", UrlResponse::Decline),
            ("https://bank.example@evil.example/", UrlResponse::Decline),
        ] {
            let response = elicit_url(&handlers, UrlParams::new("", url)).await.unwrap();
            assert_eq!(response, expected, "{url}");
        }
        assert_eq!(*asked.lock().unwrap(), ["example.com", "localhost"]);
    }
}
