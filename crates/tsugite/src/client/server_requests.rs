//! Answers to what a server asks, the same for both eras.

use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::elicitation::{
    self, ElicitAction, ElicitParams, ElicitResult, FormParams, UrlParams,
};
use tsugite_core::protocol::mrtr::{InputRequest, InputRequests, InputResponses};
use tsugite_core::protocol::sampling::{CreateMessage, CreateMessageParams, CreateMessageResult};
use tsugite_core::protocol::tasks::MaybeTask;
use tsugite_core::protocol::{Method, roots};
use tsugite_core::revision::{Revision, RpcError, Translate, read_params, write_input_response};

use super::client_error::{ClientError, ErrorKind};
use super::client_handler::{ClientHandlers, FormResponse, UrlResponse};

/// Answers a request of the server (up to 2025-11-25): the result, as `from` writes it.
pub(super) async fn handle_server_request(
    handlers: &ClientHandlers,
    method: &str,
    params: &RawJson,
    from: Revision,
) -> Result<RawJson, RpcError> {
    let params = Raw::from(params);
    match method {
        elicitation::Create::NAME => {
            let answer = elicit(handlers, read_params::<elicitation::Create>(params, from)?).await?;
            // Some servers ask more than their revision can. Whoever asks so understands the answer.
            RawJson::from_value(&answer).map_err(|_| RpcError::Internal)
        }
        CreateMessage::NAME => {
            let answer = sample(handlers, read_params::<CreateMessage>(params, from)?).await?;
            encode_result::<CreateMessage>(MaybeTask::Complete(answer), from)
        }
        roots::List::NAME => encode_result::<roots::List>(list_roots(handlers).await?, from),
        other => Err(RpcError::MethodNotFound { method: other.to_owned() }),
    }
}

/// Answers everything a result asks (2026-07-28). One after another: a person reads one question at a time.
pub(super) async fn handle_input_requests(
    handlers: &ClientHandlers,
    asked: InputRequests,
) -> Result<InputResponses, ClientError> {
    let mut answers = InputResponses::new();
    for (key, request) in asked {
        let method = request.method();
        let answer = match request {
            InputRequest::Elicit(params) => match elicit(handlers, params).await {
                Ok(answer) => write_input_response::<elicitation::Create>(MaybeTask::Complete(answer))
                    .map_err(unsupported_error),
                Err(refusal) => Err(refusal),
            },
            InputRequest::Sample(params) => match sample(handlers, params).await {
                Ok(answer) => write_input_response::<CreateMessage>(MaybeTask::Complete(answer))
                    .map_err(unsupported_error),
                Err(refusal) => Err(refusal),
            },
            InputRequest::Roots(_) => match list_roots(handlers).await {
                Ok(answer) => write_input_response::<roots::List>(answer).map_err(unsupported_error),
                Err(refusal) => Err(refusal),
            },
            _ => Err(RpcError::MethodNotFound { method: method.to_owned() }),
        };
        let answer = answer.map_err(|refusal| {
            let said = refusal.to_error_object(Revision::NEWEST).message;
            ErrorKind::InputRequired(format!(
                "the server asks for `{method}`, and that cannot be answered: {said}"
            ))
        })?;
        answers.insert(key, answer);
    }
    Ok(answers)
}

async fn elicit(handlers: &ClientHandlers, params: ElicitParams) -> Result<ElicitResult, RpcError> {
    match params {
        ElicitParams::Form(form) => elicit_form(handlers, form).await,
        ElicitParams::Url(url) => Ok(match elicit_url(handlers, url).await? {
            UrlResponse::Accept => ElicitResult::new(ElicitAction::Accept),
            UrlResponse::Decline => ElicitResult::new(ElicitAction::Decline),
            UrlResponse::Cancel => ElicitResult::new(ElicitAction::Cancel),
        }),
        _ => Err(RpcError::InvalidParams("this client knows forms and web pages only".into())),
    }
}

async fn elicit_form(handlers: &ClientHandlers, form: FormParams) -> Result<ElicitResult, RpcError> {
    let Some(ask) = &handlers.form else { return Err(mode_not_supported("forms")) };
    let schema = form.requested_schema.clone();
    match ask(form).await {
        FormResponse::Accept(content) => {
            let content = schema.with_defaults(content);
            if let Err(error) = schema.check(&content) {
                tracing::error!(%error, "the answer to a form does not fit it and was not sent");
                return Err(RpcError::internal_with_message(format!(
                    "the client's answer does not fit the form: {error}"
                )));
            }
            Ok(ElicitResult::new(ElicitAction::Accept).content(content))
        }
        FormResponse::Decline => Ok(ElicitResult::new(ElicitAction::Decline)),
        FormResponse::Cancel => Ok(ElicitResult::new(ElicitAction::Cancel)),
    }
}

/// Asks whether a web page may be opened. One that is no web page is declined without asking.
pub(super) async fn elicit_url(handlers: &ClientHandlers, url: UrlParams) -> Result<UrlResponse, RpcError> {
    let Some(ask) = &handlers.url else { return Err(mode_not_supported("web pages")) };
    if !is_http_url(&url.url) {
        tracing::warn!("the server wants an address opened that is no web page; declined");
        return Ok(UrlResponse::Decline);
    }
    Ok(ask(url).await)
}

async fn sample(
    handlers: &ClientHandlers,
    params: CreateMessageParams,
) -> Result<CreateMessageResult, RpcError> {
    let Some(ask) = &handlers.sample else { return Err(method_not_found::<CreateMessage>()) };
    if !handlers.sampling_tools && (params.tools.is_some() || params.tool_choice.is_some()) {
        return Err(RpcError::InvalidParams("this client gives its model no tools".into()));
    }
    ask(params).await
}

async fn list_roots(handlers: &ClientHandlers) -> Result<roots::ListResult, RpcError> {
    let Some(ask) = &handlers.roots else { return Err(method_not_found::<roots::List>()) };
    Ok(roots::ListResult::new(ask(()).await))
}

/// Plain text, http or https, with a host: nothing that runs something by being opened.
fn is_http_url(url: &str) -> bool {
    let scheme = |name: &str| url.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let rest = [("https://", 8), ("http://", 7)].into_iter().find(|(name, _)| scheme(name));
    let host = rest.and_then(|(_, length)| url.get(length..)).unwrap_or_default();
    !host.is_empty()
        && !host.starts_with(['/', '?', '#'])
        && url.chars().all(|letter| !letter.is_control() && !letter.is_whitespace())
}

fn encode_result<M: Method>(mut output: M::Output, to: Revision) -> Result<RawJson, RpcError>
where
    M::Output: Translate,
{
    output.downgrade(to).map_err(unsupported_error)?;
    RawJson::from_value(&output).map_err(|_| RpcError::Internal)
}

fn unsupported_error(unsayable: tsugite_core::revision::UnsupportedByRevisionError) -> RpcError {
    RpcError::internal_with_message(unsayable.to_string())
}

/// A method of which the server was not told ("Client Features", "Roots": -32601 without support for them).
fn method_not_found<M: Method>() -> RpcError {
    RpcError::MethodNotFound { method: M::NAME.to_owned() }
}

/// A mode of elicitation of which the server was not told.
fn mode_not_supported(what: &str) -> RpcError {
    RpcError::InvalidParams(format!("this client does not offer {what}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::client_handler::request_callback;
    use serde_json::json;

    fn handlers(answer: FormResponse) -> ClientHandlers {
        let form = Some(request_callback(move |_| {
            let answer = answer.clone();
            async move { answer }
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
    async fn defaults_fill_missing_form_fields() {
        let handlers = handlers(FormResponse::accept(&json!({"name": "Kiku"})).unwrap());
        let answer = handle_server_request(&handlers, "elicitation/create", &form(), Revision::V2025_11_25)
            .await
            .unwrap();
        assert_eq!(answer.text(), r#"{"action":"accept","content":{"name":"Kiku","sure":true}}"#);
    }

    #[tokio::test]
    async fn request_beyond_the_revision_still_gets_a_response() {
        let handlers = handlers(FormResponse::accept_defaults());
        let choices =
            json!({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["b"]});
        let form = raw(
            json!({"message": "?", "requestedSchema": {"type": "object", "properties": {"some": choices}}}),
        );
        let answer = handle_server_request(&handlers, "elicitation/create", &form, Revision::V2025_06_18)
            .await
            .unwrap();
        assert_eq!(answer.text(), r#"{"action":"accept","content":{"some":["b"]}}"#);
    }

    #[tokio::test]
    async fn invalid_form_content_is_not_sent() {
        let handlers = handlers(FormResponse::accept(&json!({"sure": "yes"})).unwrap());
        let refusal = handle_server_request(&handlers, "elicitation/create", &form(), Revision::V2025_11_25)
            .await
            .unwrap_err();
        assert!(refusal.to_error_object(Revision::V2025_11_25).message.contains("`sure`"));
    }

    #[tokio::test]
    async fn undeclared_requests_are_refused() {
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

    #[test]
    fn only_web_pages_are_opened() {
        for url in ["https://example.com/a?b", "HTTP://localhost:1/"] {
            assert!(is_http_url(url), "{url}");
        }
        for url in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://",
            "https:///x",
            "https://a b",
            "https://a\n",
        ] {
            assert!(!is_http_url(url), "{url}");
        }
    }
}
