//! Elicitation: the server asks the user, by a form or by a web page.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use super::form::FormSchema;
use super::result::complete;
use super::tasks::{MaybeTask, TaskRequest};
use super::wire::{has_meta, method, notification, string_enum, wire};
use super::{HasMeta, Meta, OrderedMap, map_only};

method! {
    /// Asks the user. On 2026-07-28 it travels inside a result.
    Create = "elicitation/create", ElicitParams => MaybeTask<ElicitResult>
}

notification! {
    /// What the user was sent to a web page for is done (2025-11-25 only).
    Complete = "notifications/elicitation/complete", CompleteParams
}

/// A question to the user.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form to fill in.
    Form(FormParams),
    /// A web page to visit (from 2025-11-25).
    Url(UrlParams),
}

wire! {
    /// A form to fill in.
    pub struct FormParams {
        /// What is asked.
        message: String,
        /// The form.
        requested_schema: FormSchema,
    }
    optional {
        /// Says that it is a form; silence says the same.
        mode: FormMode,
        /// Asks for a task (2025-11-25 only).
        task: TaskRequest,
        /// Data beside the protocol (up to 2025-11-25; embedded requests have none).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

string_enum! {
    /// The word for the mode of forms.
    pub enum FormMode {
        /// A form.
        Form = "form",
    }
}

wire! {
    /// A web page to visit. What is typed there never passes through the client.
    #[serde(tag = "mode", rename = "url")]
    pub struct UrlParams {
        /// Why.
        message: String,
        /// Where.
        url: String,
    }
    optional {
        /// Names the visit (2025-11-25 only, and required there).
        elicitation_id: String,
        /// Asks for a task (2025-11-25 only).
        task: TaskRequest,
        /// Data beside the protocol (up to 2025-11-25; embedded requests have none).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// Which visit is done.
    pub struct CompleteParams {
        /// The name it was given.
        elicitation_id: String,
    }
    optional {
        /// Data beside the protocol.
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

wire! {
    /// What the user did.
    pub struct ElicitResult {
        /// Whether they agreed.
        action: ElicitAction,
    }
    optional {
        /// What they filled in; only when they accepted a form.
        content: OrderedMap<FieldValue>,
        /// Data beside the protocol (up to 2025-11-25).
        #[serde(rename = "_meta")]
        meta: Meta,
    }
}

string_enum! {
    /// What the user did with a question.
    pub enum ElicitAction {
        /// Answered it.
        Accept = "accept",
        /// Said no.
        Decline = "decline",
        /// Went away without a choice.
        Cancel = "cancel",
    }
}

/// What was filled into one field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// Words, or one choice.
    Text(String),
    /// A number.
    Number(Number),
    /// Yes or no.
    Boolean(bool),
    /// Several choices (from 2025-11-25).
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
            _ => Err(D::Error::custom("a field holds a string, a number, a boolean or an array of strings")),
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
