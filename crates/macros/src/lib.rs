//! The macros of Tsugite: shorthand for the builders and traits of `tsugite::server`.
//!
//! `item` expands a function (`function`, with its `params`) to a `tool`, `resource` or `prompt`; `handlers` does so for
//! the methods of an `impl` block; `form` derives forms; `guide` is for the documentation of `tsugite`. No macro looks at the name of a type: the generated code selects
//! by traits, see `tsugite::server::macro_support`.
//!
//! Examples are in `tsugite`, which re-exports the macros.

mod case;
mod diagnostics;
mod docs;
mod form;
mod function;
mod guide;
mod handlers;
mod item;
mod params;
mod prompt;
mod resource;
mod rules;
mod settings;
mod tool;

use proc_macro::TokenStream;

use item::ItemKind;

/// The doc comment of the function is the description of the tool, its parameters are the arguments, and its return type
/// is the structured content.
///
/// `fn add` becomes a function `add()` that returns the `Tool`, so `.tool(add)` registers it; `add::call` is the function
/// itself. Variables and parameters may be called `add`, too. A function that is not `async`
/// runs on a thread for blocking work.
///
/// A parameter is an argument if its type implements `serde::Deserialize` and `JsonSchema`, and a part of the call if it
/// is a `Context`, `State<T>`, `Principal`, `Args<T>` or another `FromCall`. An `Option` is an optional argument. The
/// function returns text, content, a `CallResult`, any type that implements `serde::Serialize` and `JsonSchema`, or a
/// `Result` of these.
///
/// | setting | meaning |
/// |---|---|
/// | `name`, `title`, `description` | replaces the name and the doc comment of the function |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | hints; `destructive = false` negates one |
/// | `timeout = "30s"` | the time limit of a call: `ms`, `s`, `m`, or a `Duration` |
/// | `icons = [Icon::new(…)]`, `tags = ["a"]` | icons; tags to filter by |
/// | `scopes = ["notes:write"]` | the scopes that a caller needs; a call without them gets 403 over HTTP |
/// | `task = "optional"` | whether a call can be a task: `"forbidden"` (default), `"optional"`, `"required"` |
/// | `restartable` | a task of the tool is run again from the start if its process ends |
/// | `once` | a call with an idempotency key runs once: a second call with the key gets the outcome of the first |
/// | `validated` | validates arguments against the schema, for rules that no type expresses, such as a `pattern` |
///
/// On a parameter, `#[arg(…)]` accepts `name`, `description`, `default` (of the type), `default = …` and
/// `header = "Region"`, the HTTP header that repeats the argument. The default appears in the schema if its type implements
/// `serde::Serialize` or is an enum without data. `#[schemars(range(min = 1))]`, `length(…)` and `regex(pattern = "…")` on a
/// parameter are in the schema and enforced.
///
/// The function cannot be generic, borrow its parameters, or have more than 16 of them. For methods see
/// [`macro@handlers`].
#[proc_macro_attribute]
pub fn tool(attr: TokenStream, item: TokenStream) -> TokenStream {
    item::expand(ItemKind::Tool, attr.into(), item.into()).into()
}

/// A URI with variables makes a resource template, whose variables are the parameters of the function.
///
/// The function returns text, bytes, `Json<T>` or a `ReadResult`, an `Option` of these (`None` means that the resource
/// does not exist), or a `Result`. Everything else is as for [`macro@tool`].
///
/// Settings after the URI: `name` (by default that of the function), `title`, `description`, `mime_type`, `size`, `icons`,
/// `tags`, `scopes`, `annotations`. On a parameter: `name`, `default`, and `complete`, which is a list of values or an `async`
/// function from `CompletionRequest` to a `Vec<String>`. The function may take `State<T>` and other parts of the call after
/// it; inside [`macro@handlers`] a method is `complete = self.titles`.
#[proc_macro_attribute]
pub fn resource(attr: TokenStream, item: TokenStream) -> TokenStream {
    item::expand(ItemKind::Resource, attr.into(), item.into()).into()
}

/// The parameters of the function are the arguments of the prompt.
///
/// The function returns text, messages, a `GetResult`, or a `Result` of these. Everything else is as for [`macro@tool`].
///
/// Settings: `name`, `title`, `description`, `icons`, `tags`, `scopes`. On a parameter: `name`, `description`, `default`, and
/// `complete` as for [`macro@resource`].
#[proc_macro_attribute]
pub fn prompt(attr: TokenStream, item: TokenStream) -> TokenStream {
    item::expand(ItemKind::Prompt, attr.into(), item.into()).into()
}

/// The methods are those of the `impl` block that are marked with [`macro@tool`], [`macro@resource`] or [`macro@prompt`].
///
/// They take `&self`, since calls run concurrently, and remain methods. Other items are not changed.
#[proc_macro_attribute]
pub fn handlers(attr: TokenStream, block: TokenStream) -> TokenStream {
    handlers::expand(attr.into(), block.into()).into()
}

/// Fields are text, numbers, `bool`, an enum that derives `Form`, an `Option` of these, or a `Vec` of such an enum. They
/// are required unless they are an `Option` or have a default. A setting that does not apply to its field is a compile
/// error.
///
/// | `#[form(…)]` | applies to |
/// |---|---|
/// | `title`, `description`, `default`, `rename` | any field; the doc comment is the description |
/// | `min`, `max` | a number |
/// | `min_length`, `max_length`, `format` (`"email"`, `"uri"`, `"date"`, `"date-time"`) | text |
/// | `min_items`, `max_items` | a `Vec` |
/// | `title`, `rename` | a variant; by default its doc comment is the title and its name in snake case the value |
/// | `rename_all = "camelCase"` | the struct or the enum; with the case names of serde |
#[proc_macro_derive(Form, attributes(form))]
pub fn form(item: TokenStream) -> TokenStream {
    form::expand(item.into()).into()
}

/// Expands to the text of a guide, for the documentation of `tsugite`. Not part of the public interface.
#[doc(hidden)]
#[proc_macro]
pub fn guide(name: TokenStream) -> TokenStream {
    guide::expand(name.into()).into()
}
