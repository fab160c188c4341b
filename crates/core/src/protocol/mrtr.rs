//! Multi-round-trip requests: a server that needs input returns input requests, and the client sends the request again
//! with the responses (2026-07-28).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::elicitation::{Create, ElicitParams};
use super::result::require_object as result_object;
use super::roots;
use super::sampling::{CreateMessage, CreateMessageParams};
use super::wire::wire;
use super::{EmptyParams, HasMeta, Meta, Method, OrderedMap, Output, ResultType, map_only};
use crate::jsonrpc::{JsonError, Raw, RawJson};

/// Input requests by key. The server chooses the keys; the responses have the same.
pub type InputRequests = OrderedMap<InputRequest>;

/// Responses by key, each the bare result of the request with that key.
///
/// They stay raw: a response is deserialized as the output of the requested method, never inferred from its shape.
pub type InputResponses = OrderedMap<RawJson>;

/// A request of a server for input during a request of the client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InputRequest {
    /// Requests input from the user.
    Elicit(ElicitParams),
    /// Requests a message from the model.
    Sample(CreateMessageParams),
    /// Requests the roots.
    Roots(EmptyParams),
}

impl InputRequest {
    /// The corresponding method.
    pub fn method(&self) -> &'static str {
        match self {
            InputRequest::Elicit(_) => Create::NAME,
            InputRequest::Sample(_) => CreateMessage::NAME,
            InputRequest::Roots(_) => roots::List::NAME,
        }
    }
}

impl Serialize for InputRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct InputSer<'a, P> {
            method: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            params: Option<&'a P>,
        }
        let method = self.method();
        match self {
            InputRequest::Elicit(params) => InputSer { method, params: Some(params) }.serialize(serializer),
            InputRequest::Sample(params) => InputSer { method, params: Some(params) }.serialize(serializer),
            InputRequest::Roots(params) => {
                InputSer { method, params: params.meta.is_some().then_some(params) }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for InputRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct InputDe {
            method: String,
            params: Option<RawJson>,
        }
        let InputDe { method, params } = map_only::deserialize_map(deserializer)?;
        let params = params.unwrap_or_else(RawJson::empty_object);
        // Only these three are allowed; any other is an error of the server.
        match method.as_str() {
            Create::NAME => params.read().map(InputRequest::Elicit),
            CreateMessage::NAME => params.read().map(InputRequest::Sample),
            roots::List::NAME => params.read().map(InputRequest::Roots),
            other => {
                let shown: String = other.chars().take(40).collect();
                Err(JsonError::new(format!("{shown:?} is not allowed as an input request")))
            }
        }
        .map_err(D::Error::custom)
    }
}

wire! {
    /// A result that requests input, or has only a state to send back. At least one of the two is present.
    #[derive(Default)]
    #[doc(alias("InputRequiredResult", "elicitation"))]
    pub struct InputRequired {
    }
    optional {
        /// The input requests.
        input_requests: InputRequests,
        /// The state to send back unchanged.
        request_state: String,
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

impl InputRequired {
    /// Deserializes it. Fails if it has neither input requests nor a state: a retry would make no difference.
    #[inline]
    pub(super) fn read(result: Raw<'_>) -> Result<Self, JsonError> {
        let asked: Self = result_object(result)?.read()?;
        if asked.input_requests.is_none() && asked.request_state.is_none() {
            return Err(JsonError::new("neither `inputRequests` nor `requestState`"));
        }
        Ok(asked)
    }
}

/// A result that asks for input, with every request left raw: for a peer that passes them on without acting on them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawInputRequired {
    /// The requests by key.
    pub input_requests: Option<OrderedMap<RawInputRequest>>,
    /// To be sent back unchanged.
    pub request_state: Option<RawJson>,
}

/// One request inside a [`RawInputRequired`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RawInputRequest {
    /// The method.
    pub method: String,
    /// The params, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<RawJson>,
}

impl RawInputRequired {
    /// Reads a result. `None` if it is complete, or not a result that asks for input.
    pub fn from_result(result: &RawJson) -> Option<Self> {
        // Most results are complete and need not be parsed to find that out.
        if !result.text().contains(ResultType::InputRequired.as_str()) {
            return None;
        }
        let kind = ResultType::from_result(Raw::from(result)).ok()?;
        result.read().ok().filter(|_| kind == ResultType::InputRequired)
    }

    /// Encodes it as a result.
    pub fn to_result(&self) -> Result<RawJson, JsonError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct TaggedResult<'a> {
            result_type: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            input_requests: Option<&'a OrderedMap<RawInputRequest>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            request_state: Option<&'a RawJson>,
        }
        RawJson::from_value(&TaggedResult {
            result_type: ResultType::InputRequired.as_str(),
            input_requests: self.input_requests.as_ref(),
            request_state: self.request_state.as_ref(),
        })
    }
}

/// Puts the answers of a round, and the state it belongs to, into raw params. What an earlier round put there is replaced.
pub fn set_input_responses(
    params: &mut OrderedMap<RawJson>,
    answers: Option<&InputResponses>,
    state: Option<RawJson>,
) -> Result<(), JsonError> {
    match answers {
        Some(answers) => drop(params.insert(INPUT_RESPONSES, RawJson::from_value(answers)?)),
        None => drop(params.remove(INPUT_RESPONSES)),
    }
    match state {
        Some(state) => drop(params.insert(REQUEST_STATE, state)),
        None => drop(params.remove(REQUEST_STATE)),
    }
    Ok(())
}

/// Reads the answers in the params of a request. Absent and `null` are none.
pub fn read_input_responses(member: Option<Raw<'_>>) -> Result<InputResponses, JsonError> {
    match member.filter(|raw| !raw.is_null()) {
        Some(raw) => {
            raw.read_object().map_err(|error| JsonError::new(format!("`{INPUT_RESPONSES}`: {error}")))
        }
        None => Ok(InputResponses::new()),
    }
}

/// Reads the state in the params of a request, which is a string.
pub fn read_request_state(member: Raw<'_>) -> Result<String, JsonError> {
    member.read().map_err(|_| JsonError::new(format!("`{REQUEST_STATE}` must be a string")))
}

/// The member of params that holds the answers.
pub const INPUT_RESPONSES: &str = "inputResponses";
/// The member of results and params that holds the state of a call.
pub const REQUEST_STATE: &str = "requestState";

/// The result of a request that may request input.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MaybeInputRequired<T> {
    /// The complete result.
    Complete(T),
    /// The server requests input first.
    InputRequired(InputRequired),
}

impl<T> From<T> for MaybeInputRequired<T> {
    fn from(result: T) -> Self {
        MaybeInputRequired::Complete(result)
    }
}

impl<T: Output> Output for MaybeInputRequired<T> {
    fn result_type(&self) -> ResultType {
        match self {
            MaybeInputRequired::Complete(result) => result.result_type(),
            MaybeInputRequired::InputRequired(_) => ResultType::InputRequired,
        }
    }

    #[inline]
    fn read(kind: ResultType, result: Raw<'_>) -> Result<Self, JsonError> {
        match kind {
            ResultType::InputRequired => InputRequired::read(result).map(MaybeInputRequired::InputRequired),
            other => T::read(other, result).map(MaybeInputRequired::Complete),
        }
    }
}

impl<T: Serialize> Serialize for MaybeInputRequired<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MaybeInputRequired::Complete(result) => result.serialize(serializer),
            MaybeInputRequired::InputRequired(asked) => asked.serialize(serializer),
        }
    }
}

impl<T: HasMeta> HasMeta for MaybeInputRequired<T> {
    fn meta(&self) -> Option<&Meta> {
        match self {
            MaybeInputRequired::Complete(result) => result.meta(),
            MaybeInputRequired::InputRequired(asked) => asked.meta.as_ref(),
        }
    }

    fn meta_mut(&mut self) -> &mut Option<Meta> {
        match self {
            MaybeInputRequired::Complete(result) => result.meta_mut(),
            MaybeInputRequired::InputRequired(asked) => &mut asked.meta,
        }
    }
}

/// Deserializes raw JSON that must be an object.
pub(super) fn deserialize_object<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<RawJson>, D::Error> {
    match Option::<RawJson>::deserialize(deserializer)? {
        Some(json) if !json.is_object() => Err(D::Error::custom("expected an object")),
        json => Ok(json),
    }
}
