//! The errors of requests as a type; their code and data depend on the revision and are assigned here.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::error_text::{ErrorText, truncated};
use super::{Revision, Revisions, Translate};
use crate::jsonrpc::code::{
    CONTENT_TOO_LARGE, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
};
use crate::jsonrpc::{ErrorObject, JsonError, Raw};
use crate::protocol::capabilities::ElicitationCapability;
use crate::protocol::elicitation::UrlParams;
use crate::protocol::{ClientCapabilities, Method, Object, resources, tasks, tools};

/// The error of a request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[doc(alias("McpError", "ErrorData", "JSONRPCError"))]
pub enum RpcError {
    /// The message is not JSON.
    Parse(ErrorText),
    /// The message is not a request, or not allowed now.
    InvalidRequest(ErrorText),
    /// The method does not exist, or its capability is not advertised.
    MethodNotFound {
        /// The method.
        method: String,
    },
    /// The params are invalid.
    InvalidParams(ErrorText),
    /// An internal error; the details stay in the log.
    Internal,
    /// The message exceeds one of the limits.
    TooLarge(ErrorText),
    /// The tool does not exist.
    UnknownTool {
        /// The name of the tool.
        name: String,
    },
    /// The prompt does not exist.
    UnknownPrompt {
        /// The name of the prompt.
        name: String,
    },
    /// The resource does not exist.
    ResourceNotFound {
        /// The URI of the resource.
        uri: String,
    },
    /// The client did not declare a capability that the request needs.
    MissingCapability {
        /// The capabilities it would have to declare.
        required: Box<ClientCapabilities>,
    },
    /// The version is not supported.
    UnsupportedVersion {
        /// The requested version.
        requested: String,
        /// The supported versions.
        supported: Revisions,
    },
    /// A header is missing or differs from the body.
    HeaderMismatch(ErrorText),
    /// The user must visit web pages first (2025-11-25).
    UrlElicitationRequired {
        /// The pages.
        elicitations: Vec<UrlParams>,
    },
    /// The tool runs only as a task, and the request does not allow one.
    TaskRequired {
        /// The name of the tool.
        name: String,
    },
    /// The tool cannot run as a task (2025-11-25).
    TaskForbidden {
        /// The name of the tool.
        name: String,
    },
    /// The token of the caller lacks a scope. Over HTTP a client gets 403 and a challenge instead.
    InsufficientScope(Box<InsufficientScope>),
    /// The user rejected a sampling request.
    UserRejected,
    /// Any other error, with its own code.
    Other(ErrorObject),
    /// An error of another server, forwarded unchanged.
    Forwarded(ErrorObject),
}

/// The scopes that a request needs, and those that its token has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsufficientScope {
    /// All scopes that the request needs, also those that the token has.
    pub required: Vec<String>,
    /// The scopes of the token.
    pub granted: Vec<String>,
}

/// Error codes that not every revision has.
pub mod code {
    /// A resource does not exist (up to 2025-11-25).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user must visit web pages first (2025-11-25).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// A header is missing or differs from the body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare a capability that the request needs (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The version is not supported (2026-07-28).
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// The user rejected the request (up to 2025-11-25, by example).
    pub const USER_REJECTED: i64 = -1;
}

impl RpcError {
    /// Params that could not be deserialized.
    pub fn invalid_params(error: &JsonError) -> Self {
        let mut text = ErrorText::from(format!("Invalid params: {error}"));
        if !error.path().is_empty() {
            text = text.with("path", error.path());
        }
        if let Some(expected) = error.expected() {
            text = text.with("expected", expected);
        }
        RpcError::InvalidParams(text)
    }

    /// Adds a member to the data of an error with a message of its own. Errors of other kinds have data already and are
    /// not changed. Long text is cut to 200 characters.
    ///
    /// ```
    /// use tsugite_core::revision::{Revision, RpcError};
    ///
    /// let error = RpcError::InvalidParams("Invalid params: `day` is over".into()).with("path", "day");
    /// assert_eq!(error.to_error_object(Revision::NEWEST).data.unwrap().text(), r#"{"path":"day"}"#);
    /// ```
    #[must_use]
    pub fn with(self, name: &str, value: impl Into<Value>) -> Self {
        match self {
            RpcError::Parse(text) => RpcError::Parse(text.with(name, value)),
            RpcError::InvalidRequest(text) => RpcError::InvalidRequest(text.with(name, value)),
            RpcError::InvalidParams(text) => RpcError::InvalidParams(text.with(name, value)),
            RpcError::TooLarge(text) => RpcError::TooLarge(text.with(name, value)),
            RpcError::HeaderMismatch(text) => RpcError::HeaderMismatch(text.with(name, value)),
            error => error,
        }
    }

    /// An internal error with a message that the peer may read.
    pub fn internal_with_message(text: impl Into<Cow<'static, str>>) -> Self {
        RpcError::Other(ErrorObject::new(INTERNAL_ERROR, text))
    }

    /// The error object for the peer's revision.
    pub fn to_error_object(&self, to: Revision) -> ErrorObject {
        let error = ErrorObject::new(self.code(to), self.message());
        match self {
            RpcError::Parse(text)
            | RpcError::InvalidRequest(text)
            | RpcError::InvalidParams(text)
            | RpcError::TooLarge(text)
            | RpcError::HeaderMismatch(text) => match text.data() {
                Some(data) => error.data(data),
                None => error,
            },
            RpcError::MethodNotFound { method } => error.data(&SingleMember("method", truncated(method))),
            RpcError::UnknownTool { name } | RpcError::UnknownPrompt { name } => {
                error.data(&SingleMember("name", truncated(name)))
            }
            RpcError::ResourceNotFound { uri } => error.data(&SingleMember("uri", truncated(uri))),
            RpcError::MissingCapability { required } => {
                error.data(&SingleMember(REQUIRED_CAPABILITIES, required))
            }
            RpcError::UnsupportedVersion { requested, supported } => error.data(&UnsupportedVersionData {
                supported: supported.names(),
                requested: truncated(requested),
            }),
            RpcError::UrlElicitationRequired { elicitations } if to.has_core_tasks() => {
                // A page without an id cannot be encoded there; the caller assigns one.
                let sayable = |page: &UrlParams| page.clone().downgrade(to).is_ok();
                let elicitations: Vec<_> = elicitations.iter().filter(|page| sayable(page)).collect();
                error.data(&SingleMember("elicitations", elicitations))
            }
            RpcError::TaskRequired { .. } if to.is_stateless() => {
                error.data(&SingleMember(REQUIRED_CAPABILITIES, tasks_capability()))
            }
            RpcError::UrlElicitationRequired { .. } => {
                error.data(&SingleMember(REQUIRED_CAPABILITIES, url_capability()))
            }
            RpcError::InsufficientScope(scopes) => error.data(&SingleMember("scopes", &scopes.required)),
            RpcError::Other(object) => ErrorObject { code: error.code, ..object.clone() },
            RpcError::Forwarded(object) => object.clone(),
            _ => error,
        }
    }

    /// The error code for the peer's revision.
    pub fn code(&self, to: Revision) -> i64 {
        match self {
            RpcError::Parse(_) => PARSE_ERROR,
            RpcError::InvalidRequest(_) => INVALID_REQUEST,
            RpcError::MethodNotFound { .. } => METHOD_NOT_FOUND,
            RpcError::InvalidParams(_)
            | RpcError::UnknownTool { .. }
            | RpcError::UnknownPrompt { .. }
            | RpcError::InsufficientScope(_) => INVALID_PARAMS,
            RpcError::Internal => INTERNAL_ERROR,
            RpcError::TooLarge(_) => CONTENT_TOO_LARGE,
            RpcError::ResourceNotFound { .. } if to.is_stateless() => INVALID_PARAMS,
            RpcError::ResourceNotFound { .. } => code::RESOURCE_NOT_FOUND,
            RpcError::UnsupportedVersion { .. } if to.is_stateless() => code::UNSUPPORTED_VERSION,
            RpcError::MissingCapability { .. } if to.is_stateless() => code::MISSING_CLIENT_CAPABILITY,
            RpcError::HeaderMismatch(_) if to.is_stateless() => code::HEADER_MISMATCH,
            // Older revisions refuse a call that must be a task with this code.
            RpcError::MissingCapability { required } if required.has_task_extension() => METHOD_NOT_FOUND,
            RpcError::UnsupportedVersion { .. } | RpcError::MissingCapability { .. } => INVALID_PARAMS,
            RpcError::HeaderMismatch(_) => INVALID_REQUEST,
            // Where the code does not exist, the missing capability is URL elicitation.
            RpcError::UrlElicitationRequired { .. } if to.has_core_tasks() => code::URL_ELICITATION_REQUIRED,
            RpcError::UrlElicitationRequired { .. } if to.is_stateless() => code::MISSING_CLIENT_CAPABILITY,
            RpcError::UrlElicitationRequired { .. } => INVALID_PARAMS,
            RpcError::TaskRequired { .. } if to.is_stateless() => code::MISSING_CLIENT_CAPABILITY,
            RpcError::TaskRequired { .. } | RpcError::TaskForbidden { .. } => METHOD_NOT_FOUND,
            RpcError::UserRejected => code::USER_REJECTED,
            // 2026-07-28 reserves this block, so codes that older peers use from it are not passed on.
            RpcError::Other(object) if to.is_stateless() && (-32099..=-32000).contains(&object.code) => {
                if object.code == code::RESOURCE_NOT_FOUND {
                    INVALID_PARAMS
                } else {
                    INTERNAL_ERROR
                }
            }
            RpcError::Other(object) | RpcError::Forwarded(object) => object.code,
        }
    }

    /// The error that a peer of `from` meant when it responded to `method`.
    ///
    /// -32002 is a missing resource on every revision, since servers lag behind, but only for requests about resources.
    /// So is -32602 with a `uri` in its data, for `resources/read`. Other invalid params stay invalid params: only the
    /// sender knows what was wrong.
    pub fn from_error_object(error: ErrorObject, method: &str, from: Revision) -> Self {
        let about_resource =
            [resources::Read::NAME, resources::Subscribe::NAME, resources::Unsubscribe::NAME];
        match error.code {
            code::RESOURCE_NOT_FOUND if about_resource.contains(&method) => {
                let uri = read_data::<UriData>(&error).map(|data| data.uri).unwrap_or_default();
                RpcError::ResourceNotFound { uri }
            }
            // 2026-07-28: a missing resource is -32602 with its URI ("Resources", "Error Handling").
            INVALID_PARAMS if method == resources::Read::NAME && from.is_stateless() => {
                match read_data::<UriData>(&error) {
                    Some(data) => RpcError::ResourceNotFound { uri: data.uri },
                    None => RpcError::Other(error),
                }
            }
            // Some servers respond "method not found" for an unknown tool. 2025-11-25 also does so for tools that are
            // misused as tasks.
            METHOD_NOT_FOUND if method == tools::Call::NAME && !is_about_tasks(&error, from) => {
                let name = read_data::<NameData>(&error).map(|data| data.name).unwrap_or_default();
                RpcError::UnknownTool { name }
            }
            code::HEADER_MISMATCH if from.is_stateless() => RpcError::HeaderMismatch(with_data_of(error)),
            code::UNSUPPORTED_VERSION if from.is_stateless() => match read_data::<VersionData>(&error) {
                Some(data) => RpcError::UnsupportedVersion {
                    requested: data.requested,
                    supported: data.supported.iter().filter_map(|name| name.parse().ok()).collect(),
                },
                None => RpcError::Other(error),
            },
            code::MISSING_CLIENT_CAPABILITY if from.is_stateless() => {
                match read_data::<CapabilityData>(&error) {
                    Some(data) => {
                        RpcError::MissingCapability { required: Box::new(data.required_capabilities) }
                    }
                    None => RpcError::Other(error),
                }
            }
            code::URL_ELICITATION_REQUIRED if from.has_core_tasks() => {
                match read_data::<ElicitationData>(&error) {
                    Some(data) => RpcError::UrlElicitationRequired { elicitations: data.elicitations },
                    None => RpcError::Other(error),
                }
            }
            code::USER_REJECTED if !from.is_stateless() => RpcError::UserRejected,
            _ => RpcError::Other(error),
        }
    }

    fn message(&self) -> Cow<'static, str> {
        match self {
            RpcError::Parse(text)
            | RpcError::InvalidRequest(text)
            | RpcError::InvalidParams(text)
            | RpcError::TooLarge(text)
            | RpcError::HeaderMismatch(text) => text.text(),
            RpcError::MethodNotFound { .. } => "Method not found".into(),
            RpcError::Internal => "Internal error".into(),
            RpcError::UnknownTool { name } if name.is_empty() => "Unknown tool".into(),
            RpcError::UnknownTool { name } => format!("Unknown tool: {}", truncated(name)).into(),
            RpcError::UnknownPrompt { name } => format!("Unknown prompt: {}", truncated(name)).into(),
            RpcError::ResourceNotFound { uri } => format!("Resource not found: {}", truncated(uri)).into(),
            RpcError::MissingCapability { .. } => "The client lacks a capability this request needs".into(),
            RpcError::UnsupportedVersion { .. } => "Unsupported protocol version".into(),
            RpcError::UrlElicitationRequired { .. } => "The user must visit a web page first".into(),
            RpcError::TaskRequired { name } => {
                format!("The tool {} runs only as a task", truncated(name)).into()
            }
            RpcError::TaskForbidden { name } => {
                format!("The tool {} cannot run as a task", truncated(name)).into()
            }
            RpcError::InsufficientScope(scopes) => {
                format!("The caller lacks a scope: this needs {}", scopes.required.join(", ")).into()
            }
            RpcError::UserRejected => "The user rejected the request".into(),
            RpcError::Other(object) | RpcError::Forwarded(object) => object.message.clone(),
        }
    }
}

#[derive(Deserialize)]
struct VersionData {
    supported: Vec<String>,
    #[serde(default)]
    requested: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CapabilityData {
    required_capabilities: ClientCapabilities,
}

#[derive(Deserialize)]
struct UriData {
    uri: String,
}

#[derive(Deserialize)]
struct NameData {
    name: String,
}

#[derive(Deserialize)]
struct ElicitationData {
    elicitations: Vec<UrlParams>,
}

/// The supported versions in the data of an error; `None` if there is no such list, or it is malformed.
pub(crate) fn supported_versions(error: &ErrorObject) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct SupportedVersions {
        supported: Vec<String>,
    }
    let list: SupportedVersions = Raw::from(error.data.as_ref()?).read_object().ok()?;
    Some(list.supported)
}

/// Data with one member.
struct SingleMember<T>(&'static str, T);

impl<T: Serialize> Serialize for SingleMember<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.0, &self.1)])
    }
}

const REQUIRED_CAPABILITIES: &str = "requiredCapabilities";

/// The data of an unsupported version.
#[derive(Serialize)]
struct UnsupportedVersionData<'a> {
    supported: Vec<&'static str>,
    requested: Cow<'a, str>,
}

fn read_data<T: serde::de::DeserializeOwned>(error: &ErrorObject) -> Option<T> {
    error.data.as_ref()?.read().ok()
}

fn is_about_tasks(error: &ErrorObject, from: Revision) -> bool {
    from.has_core_tasks() && error.message.to_ascii_lowercase().contains("task")
}

fn url_capability() -> ClientCapabilities {
    ClientCapabilities::new().elicitation(ElicitationCapability::new().url(Object::new()))
}

fn tasks_capability() -> ClientCapabilities {
    ClientCapabilities::new()
        .extensions(Object::from_iter([(tasks::EXTENSION.to_owned(), Value::Object(Object::new()))]))
}

/// The message of a peer's error with its data.
fn with_data_of(error: ErrorObject) -> ErrorText {
    let data: Object = read_data(&error).unwrap_or_default();
    data.into_iter().fold(error.message.into(), |text: ErrorText, (name, value)| text.with(&name, value))
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for RpcError {}
