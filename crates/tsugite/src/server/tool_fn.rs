//! From a function to a tool: its parameters are asked for by type, its arguments are read into theirs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tsugite_core::jsonrpc::{Raw, RawJson};
use tsugite_core::protocol::tools::{CallResult, ToolAnnotations};
use tsugite_core::protocol::{Icon, Schema, tools};

use super::context::Context;
use super::failure::{Failure, ToolError};
use super::output::IntoOutput;
use super::state::States;

/// A tool: what clients see of it, and what happens when it is called.
///
/// ```
/// use tsugite::prelude::*;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Greet {
///     name: String,
/// }
///
/// let greet = Tool::new("greet")
///     .description("Greets somebody.")
///     .handler(|Args(greet): Args<Greet>| async move { format!("Hello, {}!", greet.name) });
/// # let _ = greet;
/// ```
pub struct Tool {
    pub(crate) definition: tools::Tool,
    pub(crate) handler: Option<Arc<dyn Handler>>,
}

/// What a handler's future gives.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<CallResult, Failure>> + Send>>;

/// Something that can be called.
pub trait Handler: Send + Sync {
    /// Begins a call. The arguments are read before this returns; the future borrows nothing.
    fn call(
        &self,
        parts: &CallParts<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<CallResult, Failure>> + Send>>;
}

/// What a call brings along.
pub struct CallParts<'a> {
    pub(crate) arguments: Raw<'a>,
    pub(crate) context: &'a Context,
    pub(crate) states: &'a States,
}

/// A parameter of a handler, asked for by its type.
pub trait FromCall: Sized {
    /// Takes it from a call.
    fn from_call(call: &CallParts<'_>) -> Result<Self, Failure>;

    /// The schema of the arguments, if this parameter is the one that holds them.
    fn input_schema() -> Option<Schema> {
        None
    }
}

/// The arguments of a call, read into `T`; its schema is the tool's input schema.
#[derive(Debug, Clone, Copy)]
pub struct Args<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> FromCall for Args<T> {
    fn from_call(call: &CallParts<'_>) -> Result<Self, Failure> {
        read_arguments(call.arguments).map(Args).map_err(|text| Failure::Tool(ToolError::new(text)))
    }

    fn input_schema() -> Option<Schema> {
        Some(schema_of::<T>())
    }
}

/// Reads arguments, or says in words a model can act on what is wrong and where.
fn read_arguments<T: DeserializeOwned>(arguments: Raw<'_>) -> Result<T, String> {
    if let Ok(value) = serde_json::from_str(arguments.text()) {
        return Ok(value);
    }
    // `42.0` is an integer to JSON Schema; serde is stricter. Only what failed is read a second time.
    if let Ok(mut value) = arguments.read::<Value>()
        && whole_numbers(&mut value)
        && let Ok(value) = serde_json::from_value(value)
    {
        return Ok(value);
    }
    // And a third time, to see where it failed: keeping track of that costs, so calls that succeed do not.
    let mut reader = serde_json::Deserializer::from_str(arguments.text());
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Ok(value) => Ok(value),
        Err(error) => {
            let path = error.path().to_string();
            let text = tsugite_core::jsonrpc::BadShape::from(error.into_inner());
            Err(match path.as_str() {
                "." => format!("invalid arguments: {text}"),
                path => format!("invalid argument `{path}`: {text}"),
            })
        }
    }
}

/// Writes whole numbers as integers; tells whether there were any that were not.
fn whole_numbers(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float)
                if number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 =>
            {
                *value = Value::from(float as i64);
                true
            }
            _ => false,
        },
        // Every element, not the first that changes.
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| whole_numbers(item) | changed),
        Value::Object(members) => {
            members.values_mut().fold(false, |changed, item| whole_numbers(item) | changed)
        }
        _ => false,
    }
}

impl Tool {
    /// A tool that is called by `name`. It takes no arguments until it has a handler that asks for some.
    pub fn new(name: impl Into<String>) -> Self {
        Self { definition: tools::Tool::new(name, Schema::object()), handler: None }
    }

    /// A tool whose schemas are known only at run time.
    pub fn of(definition: tools::Tool) -> Self {
        Self { definition, handler: None }
    }

    /// What happens when it is called. Parameters are asked for by type: [`Args`], [`Context`],
    /// [`State`](super::State), [`Cancelled`](super::Cancelled).
    #[must_use]
    pub fn handler<P>(mut self, handler: impl IntoHandler<P>) -> Self {
        if let Some(schema) = handler.input_schema() {
            self.definition.input_schema = schema;
        }
        if let Some(schema) = handler.output_schema() {
            self.definition.output_schema = Some(schema);
        }
        self.handler = Some(handler.into_handler());
        self
    }

    /// What happens when it is called, over arguments as they came: for tools known only at run time.
    #[must_use]
    pub fn raw_handler<F, A, R>(mut self, handler: F) -> Self
    where
        F: Fn(RawJson, Context) -> A + Send + Sync + 'static,
        A: Future<Output = R> + Send + 'static,
        R: IntoOutput,
    {
        self.handler = Some(Arc::new(RawFn(handler)));
        self
    }

    /// For people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// What it does, for the model.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = Some(description.into());
        self
    }

    /// Pictures of it.
    #[must_use]
    pub fn icons(mut self, icons: impl Into<Vec<Icon>>) -> Self {
        self.definition.icons = Some(icons.into());
        self
    }

    /// It changes nothing.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.hint(|hints| hints.read_only_hint = Some(true))
    }

    /// It may destroy something.
    #[must_use]
    pub fn destructive(self) -> Self {
        self.hint(|hints| hints.destructive_hint = Some(true))
    }

    /// Calling it again with the same arguments does nothing more.
    #[must_use]
    pub fn idempotent(self) -> Self {
        self.hint(|hints| hints.idempotent_hint = Some(true))
    }

    /// Whether it touches a world that is not closed, such as the web.
    #[must_use]
    pub fn open_world(self, open: bool) -> Self {
        self.hint(|hints| hints.open_world_hint = Some(open))
    }

    fn hint(mut self, set: impl FnOnce(&mut ToolAnnotations)) -> Self {
        set(self.definition.annotations.get_or_insert_default());
        self
    }
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// A function that can be a tool: `async`, with parameters that implement [`FromCall`] and a return type that
/// implements [`IntoOutput`].
pub trait IntoHandler<P> {
    /// The schema of its arguments.
    fn input_schema(&self) -> Option<Schema>;
    /// The schema of its structured content.
    fn output_schema(&self) -> Option<Schema>;
    /// The handler.
    fn into_handler(self) -> Arc<dyn Handler>;
}

struct RawFn<F>(F);

impl<F, A, R> Handler for RawFn<F>
where
    F: Fn(RawJson, Context) -> A + Send + Sync + 'static,
    A: Future<Output = R> + Send + 'static,
    R: IntoOutput,
{
    fn call(&self, parts: &CallParts<'_>) -> Answer {
        let answer = (self.0)(parts.arguments.to_owned(), parts.context.clone());
        Box::pin(async move { answer.await.into_output() })
    }
}

struct TypedFn<F, P>(F, std::marker::PhantomData<fn(P)>);

macro_rules! functions_of {
    ($($param:ident),*) => {
        impl<Func, Fut, Ret, $($param),*> IntoHandler<($($param,)*)> for Func
        where
            Func: Fn($($param),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Ret> + Send + 'static,
            Ret: IntoOutput + 'static,
            $($param: FromCall + 'static,)*
        {
            fn input_schema(&self) -> Option<Schema> {
                None$(.or_else($param::input_schema))*
            }

            fn output_schema(&self) -> Option<Schema> {
                Ret::output_schema()
            }

            fn into_handler(self) -> Arc<dyn Handler> {
                Arc::new(TypedFn::<Func, ($($param,)*)>(self, std::marker::PhantomData))
            }
        }

        impl<Func, Fut, Ret, $($param),*> Handler for TypedFn<Func, ($($param,)*)>
        where
            Func: Fn($($param),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Ret> + Send + 'static,
            Ret: IntoOutput + 'static,
            $($param: FromCall + 'static,)*
        {
            #[allow(unused_variables, non_snake_case, reason = "a function without parameters asks for nothing")]
            fn call(&self, parts: &CallParts<'_>) -> Answer {
                $(
                    let $param = match $param::from_call(parts) {
                        Ok(value) => value,
                        Err(failure) => return Box::pin(std::future::ready(Err(failure))),
                    };
                )*
                let answer = (self.0)($($param),*);
                Box::pin(async move { answer.await.into_output() })
            }
        }
    };
}

functions_of!();
functions_of!(A);
functions_of!(A, B);
functions_of!(A, B, C);
functions_of!(A, B, C, D);
functions_of!(A, B, C, D, E);
functions_of!(A, B, C, D, E, G);

/// The schema of a type, in the 2020-12 dialect, with subschemas in place where they do not recurse.
pub(crate) fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of a Rust type says nothing to a client.
    schema.remove("title");
    schema.remove("$schema");
    Schema::from(Value::from(schema))
}
