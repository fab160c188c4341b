//! Why a request was refused, as a type; the number it has depends on the revision and is given here.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{Revision, Revisions, Translate};
use crate::jsonrpc::code::{
    CONTENT_TOO_LARGE, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
};
use crate::jsonrpc::{ErrorObject, JsonError, Raw};
use crate::protocol::capabilities::ElicitationCapability;
use crate::protocol::elicitation::UrlParams;
use crate::protocol::{ClientCapabilities, Method, Object, resources, tasks, tools};

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RpcError {
    /// Not JSON.
    Parse(Cow<'static, str>),
    /// Not a request, or not one that may come now.
    InvalidRequest(Cow<'static, str>),
    /// No such method here, or none that was advertised.
    MethodNotFound {
        /// Which.
        method: String,
    },
    /// The params do not fit.
    InvalidParams(Cow<'static, str>),
    /// Our own failure; what went wrong stays in the log.
    Internal,
    /// The message is over one of our limits.
    TooLarge(Cow<'static, str>),
    /// There is no such tool.
    UnknownTool {
        /// Which.
        name: String,
    },
    /// There is no such prompt.
    UnknownPrompt {
        /// Which.
        name: String,
    },
    /// There is no such resource.
    ResourceNotFound {
        /// Which.
        uri: String,
    },
    /// The client did not declare what the request needs.
    MissingCapability {
        /// What it would have to declare.
        required: Box<ClientCapabilities>,
    },
    /// The version is not one of ours.
    UnsupportedVersion {
        /// What was asked for.
        requested: String,
        /// What there is.
        supported: Revisions,
    },
    /// A header is missing or says something else than the body.
    HeaderMismatch(Cow<'static, str>),
    /// The user must visit web pages first (2025-11-25).
    UrlElicitationRequired {
        /// Which.
        elicitations: Vec<UrlParams>,
    },
    /// The tool runs only as a task, and none was asked for or can be followed.
    TaskRequired {
        /// Which.
        name: String,
    },
    /// The tool cannot run as a task (2025-11-25).
    TaskForbidden {
        /// Which.
        name: String,
    },
    /// The person behind the client said no to a sampling request.
    UserRejected,
    /// Anything else, with its own number.
    Other(ErrorObject),
    /// What somebody else has answered, passed on word for word.
    Forwarded(ErrorObject),
}

/// Numbers that not every revision has.
pub mod code {
    /// A resource does not exist (up to 2025-11-25).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user must visit web pages first (2025-11-25).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// A header is missing or says something else than the body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare what the request needs (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The version is not one of ours (2026-07-28).
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// The person behind the client said no (up to 2025-11-25, by example).
    pub const USER_REJECTED: i64 = -1;
}

impl RpcError {
    /// Params that could not be read into their type.
    pub fn invalid_params(error: &JsonError) -> Self {
        RpcError::InvalidParams(format!("Invalid params: {error}").into())
    }

    /// Our own failure, in words the peer may read.
    pub fn internal_with_message(text: impl Into<Cow<'static, str>>) -> Self {
        RpcError::Other(ErrorObject::new(INTERNAL_ERROR, text))
    }

    /// The error as the peer's revision writes it.
    pub fn to_error_object(&self, to: Revision) -> ErrorObject {
        let error = ErrorObject::new(self.code(to), self.message());
        match self {
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
                // One without an id could not be written there; whoever asks gives it one.
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
            RpcError::Other(object) => ErrorObject { code: error.code, ..object.clone() },
            RpcError::Forwarded(object) => object.clone(),
            _ => error,
        }
    }

    /// The number the peer's revision has for it.
    pub fn code(&self, to: Revision) -> i64 {
        match self {
            RpcError::Parse(_) => PARSE_ERROR,
            RpcError::InvalidRequest(_) => INVALID_REQUEST,
            RpcError::MethodNotFound { .. } => METHOD_NOT_FOUND,
            RpcError::InvalidParams(_) | RpcError::UnknownTool { .. } | RpcError::UnknownPrompt { .. } => {
                INVALID_PARAMS
            }
            RpcError::Internal => INTERNAL_ERROR,
            RpcError::TooLarge(_) => CONTENT_TOO_LARGE,
            RpcError::ResourceNotFound { .. } if to.is_stateless() => INVALID_PARAMS,
            RpcError::ResourceNotFound { .. } => code::RESOURCE_NOT_FOUND,
            RpcError::UnsupportedVersion { .. } if to.is_stateless() => code::UNSUPPORTED_VERSION,
            RpcError::MissingCapability { .. } if to.is_stateless() => code::MISSING_CLIENT_CAPABILITY,
            RpcError::HeaderMismatch(_) if to.is_stateless() => code::HEADER_MISMATCH,
            RpcError::UnsupportedVersion { .. } | RpcError::MissingCapability { .. } => INVALID_PARAMS,
            RpcError::HeaderMismatch(_) => INVALID_REQUEST,
            // Where the number does not exist, what is missing is a client that can open web pages.
            RpcError::UrlElicitationRequired { .. } if to.has_core_tasks() => code::URL_ELICITATION_REQUIRED,
            RpcError::UrlElicitationRequired { .. } if to.is_stateless() => code::MISSING_CLIENT_CAPABILITY,
            RpcError::UrlElicitationRequired { .. } => INVALID_PARAMS,
            RpcError::TaskRequired { .. } if to.is_stateless() => code::MISSING_CLIENT_CAPABILITY,
            RpcError::TaskRequired { .. } | RpcError::TaskForbidden { .. } => METHOD_NOT_FOUND,
            RpcError::UserRejected => code::USER_REJECTED,
            // 2026-07-28 keeps this block for itself and what older peers put there says nothing on it.
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

    /// What a peer of `from` meant by an error it answered `method` with.
    ///
    /// -32002 is taken for a missing resource from everyone, since servers lag behind, but only where a resource was
    /// asked for. An invalid-params error stays what it says: only its sender knows what was missing.
    pub fn from_error_object(error: ErrorObject, method: &str, from: Revision) -> Self {
        let about_resource =
            [resources::Read::NAME, resources::Subscribe::NAME, resources::Unsubscribe::NAME];
        match error.code {
            code::RESOURCE_NOT_FOUND if about_resource.contains(&method) => {
                let uri = read_data::<UriData>(&error).map(|data| data.uri).unwrap_or_default();
                RpcError::ResourceNotFound { uri }
            }
            // Some servers say "method not found" of a tool. 2025-11-25 says it of tools misused as tasks as well.
            METHOD_NOT_FOUND if method == tools::Call::NAME && !is_about_tasks(&error, from) => {
                let name = read_data::<NameData>(&error).map(|data| data.name).unwrap_or_default();
                RpcError::UnknownTool { name }
            }
            code::HEADER_MISMATCH if from.is_stateless() => RpcError::HeaderMismatch(error.message),
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
            | RpcError::HeaderMismatch(text) => text.clone(),
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

/// The versions a refusal says the server speaks; `None` if it has no such list, or one that cannot be read.
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

/// The data of a version that is not spoken.
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

/// What a peer sent is echoed, but never more of it than helps.
fn truncated(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 200;
    match text.char_indices().nth(MAX_CHARS) {
        None => Cow::Borrowed(text),
        Some((at, _)) => Cow::Owned(format!("{}…", text.get(..at).unwrap_or_default())),
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for RpcError {}
