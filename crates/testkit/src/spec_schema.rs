//! Validates messages with the official schemas: whether the revision has them, which side may send them, their shape.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jsonschema::Validator;
use serde_json::{Value, json};
use tsugite_core::revision::Revision;

/// Fails unless a request or notification exists in the revision.
pub fn validate_message(revision: Revision, message: &Value) -> Result<(), String> {
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let document = schema_document(revision)?;
    let definitions =
        document.get(definitions_key(document)).and_then(Value::as_object).ok_or("no definitions")?;
    let is_it = |definition: &Value| definition.pointer("/properties/method/const") == Some(&json!(method));
    match definitions.iter().find(|(_, definition)| is_it(definition)) {
        Some((name, _)) => validate_definition(revision, name, message),
        None => Err(format!("{revision} has no {method}")),
    }
}

/// Fails unless this side may send the request or notification: `Client` or `Server`.
pub fn validate_message_from(side: &str, revision: Revision, message: &Value) -> Result<(), String> {
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let kind = if message.get("id").is_some() { "Request" } else { "Notification" };
    let document = schema_document(revision)?;
    let definitions =
        document.get(definitions_key(document)).and_then(Value::as_object).ok_or("no definitions")?;
    let sent = definitions.get(&format!("{side}{kind}"));
    // A union of one type is the type itself.
    let all = sent.and_then(|sent| sent.get("anyOf")).and_then(Value::as_array);
    let named = all.into_iter().flatten().filter_map(|one| one.get("$ref")?.as_str()?.rsplit('/').next());
    let mut sent = named.filter_map(|name| definitions.get(name)).chain(sent);
    match sent.any(|one| one.pointer("/properties/method/const") == Some(&json!(method))) {
        true => validate_message(revision, message),
        false => Err(format!("{side}s of {revision} send no {method} as a {}", kind.to_lowercase())),
    }
}

/// Fails unless the server's result of a client request is valid.
pub fn validate_server_result(revision: Revision, method: &str, result: &Value) -> Result<(), String> {
    let name = match method {
        _ if revision.is_stateless() && result.get("resultType") == Some(&json!("input_required")) => {
            "InputRequiredResult"
        }
        "initialize" => "InitializeResult",
        "server/discover" => "DiscoverResult",
        "subscriptions/listen" => "SubscriptionsListenResult",
        "tools/list" => "ListToolsResult",
        "tools/call" => "CallToolResult",
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        "prompts/list" => "ListPromptsResult",
        "prompts/get" => "GetPromptResult",
        "completion/complete" => "CompleteResult",
        _ => "Result",
    };
    validate_definition(revision, name, result)
}

/// Fails unless the client's result of a server request is valid.
pub fn validate_client_result(revision: Revision, method: &str, result: &Value) -> Result<(), String> {
    let name = match method {
        "elicitation/create" => "ElicitResult",
        "sampling/createMessage" => "CreateMessageResult",
        "roots/list" => "ListRootsResult",
        "ping" => "EmptyResult",
        _ => return Ok(()),
    };
    validate_definition(revision, name, result)
}

/// Fails unless a value matches the definition of this name in the revision.
pub fn validate_definition(revision: Revision, name: &str, value: &Value) -> Result<(), String> {
    let errors: Vec<_> = validator(revision, name)?
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(format!("invalid {name} of {revision}: {}\n   {value}", errors.join("; "))),
    }
}

fn schema_document(revision: Revision) -> Result<&'static Value, String> {
    static ALL: OnceLock<Result<HashMap<Revision, Value>, String>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let read = Revision::ALL.into_iter().map(|revision| {
            let path = format!("{}/../core/tests/data/{revision}/schema.json", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            Ok((revision, serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?))
        });
        read.collect()
    });
    all.as_ref().map_err(Clone::clone)?.get(&revision).ok_or_else(|| format!("no schema of {revision}"))
}

/// Returns a cached validator, as compiling a schema takes far longer than using it.
fn validator(revision: Revision, name: &str) -> Result<Arc<Validator>, String> {
    type Key = (Revision, String);
    static VALIDATORS: Mutex<BTreeMap<Key, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let mut made = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = (revision, name.to_owned());
    if let Some(validator) = made.get(&wanted) {
        return Ok(Arc::clone(validator));
    }
    let document = schema_document(revision)?;
    let key = definitions_key(document);
    let schema = json!({
        "$schema": document.get("$schema"), key: document.get(key), "$ref": format!("#/{key}/{name}"),
    });
    let validator = jsonschema::options().should_validate_formats(false).build(&schema);
    let validator = Arc::new(validator.map_err(|error| format!("{revision} {name}: {error}"))?);
    made.insert(wanted, Arc::clone(&validator));
    Ok(validator)
}

fn definitions_key(document: &Value) -> &'static str {
    if document.get("$defs").is_some() { "$defs" } else { "definitions" }
}
