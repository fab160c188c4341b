//! Elicitation: the server requests input from the user, with a form or a URL.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use super::form::FormSchema;
use super::result::complete;
use super::tasks::{MaybeTask, TaskRequest};
use super::wire::{has_meta, method, notification, string_enum, wire};
use super::{HasMeta, Meta, OrderedMap, map_only};

method! {
    /// Requests input from the user. On 2026-07-28 it is part of a result.
    Create = "elicitation/create", ElicitParams => MaybeTask<ElicitResult>
}

notification! {
    /// The user has completed a URL elicitation (2025-11-25 only).
    Complete = "notifications/elicitation/complete", CompleteParams
}

/// A request for input from the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[doc(alias("ElicitRequest", "ElicitRequestParams", "CreateElicitationRequest"))]
pub enum ElicitParams {
    /// A form to fill in.
    Form(FormParams),
    /// A URL to visit (from 2025-11-25).
    Url(UrlParams),
}

wire! {
    /// A form to fill in.
    #[doc(alias("ElicitRequestFormParams", "elicitation"))]
    pub struct FormParams {
        /// The message for the user.
        message: String,
        /// The form.
        requested_schema: FormSchema,
    }
    optional {
        /// The mode; a form is also the default.
        mode: FormMode,
        /// Requests to run as a task (2025-11-25 only).
        task: TaskRequest,
        /// Metadata, `_meta` (up to 2025-11-25; embedded requests have none).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

string_enum! {
    /// The name of the form mode.
    pub enum FormMode {
        /// A form.
        Form = "form",
    }
}

wire! {
    /// A URL to visit. Input on that page does not pass through the client.
    #[serde(tag = "mode", rename = "url")]
    #[doc(alias("ElicitRequestURLParams", "elicitation"))]
    pub struct UrlParams {
        /// The message for the user.
        message: String,
        /// The URL.
        url: String,
    }
    optional {
        /// The id of the elicitation (2025-11-25 only, and required there).
        elicitation_id: String,
        /// Requests to run as a task (2025-11-25 only).
        task: TaskRequest,
        /// Metadata, `_meta` (up to 2025-11-25; embedded requests have none).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The completed elicitation.
    pub struct CompleteParams {
        /// The id of the elicitation.
        elicitation_id: String,
    }
    optional {
        /// Metadata, `_meta`.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// The user's response.
    pub struct ElicitResult {
        /// Whether the user accepted.
        action: ElicitAction,
    }
    optional {
        /// The values of the fields; only for an accepted form.
        content: OrderedMap<FieldValue>,
        /// Metadata, `_meta` (up to 2025-11-25).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

string_enum! {
    /// The user's action.
    pub enum ElicitAction {
        /// The user responded.
        Accept = "accept",
        /// The user declined.
        Decline = "decline",
        /// The user dismissed the request.
        Cancel = "cancel",
    }
}

/// The value of one field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// Text, or one choice.
    Text(String),
    /// A number.
    Number(Number),
    /// A boolean.
    Boolean(bool),
    /// Multiple choices (from 2025-11-25).
    List(Vec<String>),
}

impl From<FieldValue> for Value {
    fn from(field: FieldValue) -> Self {
        match field {
            FieldValue::Text(text) => Value::String(text),
            FieldValue::Number(number) => Value::Number(number),
            FieldValue::Boolean(flag) => Value::Bool(flag),
            FieldValue::List(many) => many.into(),
        }
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FieldValue::Text(text) => text.serialize(serializer),
            FieldValue::Number(number) => number.serialize(serializer),
            FieldValue::Boolean(flag) => flag.serialize(serializer),
            FieldValue::List(many) => many.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(FieldValue::Text(text)),
            Value::Number(number) => Ok(FieldValue::Number(number)),
            Value::Bool(flag) => Ok(FieldValue::Boolean(flag)),
            many @ Value::Array(_) => {
                serde_json::from_value(many).map(FieldValue::List).map_err(D::Error::custom)
            }
            _ => {
                Err(D::Error::custom("a field must be a string, a number, a boolean or an array of strings"))
            }
        }
    }
}

impl Serialize for ElicitParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ElicitParams::Form(form) => form.serialize(serializer),
            ElicitParams::Url(url) => url.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ElicitDe {
            mode: Option<String>,
            message: String,
            requested_schema: Option<FormSchema>,
            url: Option<String>,
            elicitation_id: Option<String>,
            task: Option<TaskRequest>,
            #[serde(rename = "_meta")]
            meta: Option<Meta>,
        }
        let ElicitDe { mode, message, requested_schema, url, elicitation_id, task, meta } =
            map_only::deserialize_map(deserializer)?;
        match mode.as_deref() {
            None | Some("form") => Ok(ElicitParams::Form(FormParams {
                message,
                requested_schema: requested_schema
                    .ok_or_else(|| D::Error::missing_field("requestedSchema"))?,
                mode: mode.map(|_| FormMode::Form),
                task,
                meta,
            })),
            Some("url") => Ok(ElicitParams::Url(UrlParams {
                message,
                url: url.ok_or_else(|| D::Error::missing_field("url"))?,
                elicitation_id,
                task,
                meta,
            })),
            Some(_) => Err(D::Error::custom("`mode` must be \"form\" or \"url\"")),
        }
    }
}

impl HasMeta for ElicitParams {
    fn meta(&self) -> Option<&Meta> {
        match self {
            ElicitParams::Form(form) => form.meta.as_ref(),
            ElicitParams::Url(url) => url.meta.as_ref(),
        }
    }

    fn meta_mut(&mut self) -> &mut Option<Meta> {
        match self {
            ElicitParams::Form(form) => &mut form.meta,
            ElicitParams::Url(url) => &mut url.meta,
        }
    }
}

complete!(ElicitResult);
has_meta!(CompleteParams, ElicitResult);
