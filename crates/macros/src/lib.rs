//! The macros of Tsugite: sugar over what `tsugite::server` has as builders and traits.
//!
//! `offer` makes something to register of a function (`function`, with its `params`), for `find_tool`, `resource` and
//! `prompt`; `handlers` does so for the methods of a block; `form` stands for itself. None of them looks at what a type
//! is called: the code they write asks the compiler, see `tsugite::server::macro_support`.
//!
//! Examples stand where the macros are used from: in `tsugite`.

mod case;
mod diagnostics;
mod docs;
mod form;
mod function;
mod handlers;
mod item;
mod params;
mod prompt;
mod resource;
mod settings;
mod tool;

use proc_macro::TokenStream;

use item::ItemKind;

/// Makes a tool of a function: its doc comment is the description, its parameters are the arguments, its return type is
/// the structured content.
///
/// `fn add` becomes a value `add` to register, and `add::call` the function itself. A function that is not `async` runs
/// where blocking harms nobody.
///
/// A parameter is an argument if it can be read from JSON and has a schema (`serde::Deserialize` and `JsonSchema`), and a
/// part of the call if it is a `Context`, `State<T>`, `Principal`, `Args<T>` and so on. An `Option` may be left out. What
/// is returned is text, content or a `CallResult`, anything that has `serde::Serialize` and `JsonSchema`, or a `Result` of
/// these.
///
/// | setting | means |
/// |---|---|
/// | `name`, `title`, `description` | instead of what the function says |
/// | `read_only`, `destructive`, `idempotent`, `open_world` | hints; `destructive = false` says no |
/// | `timeout = "30s"` | ends a call that takes longer: `ms`, `s`, `m`, or a `Duration` |
/// | `icons = [Icon::new(…)]`, `tags = ["a"]` | pictures; words to sort it by |
/// | `validated` | checks what the schema says and no type can, such as a `pattern` |
///
/// On a parameter, `#[arg(…)]` takes `name`, `description`, `default` (of the type), `default = …` and `header = "Region"`,
/// the header that repeats the argument over HTTP.
///
/// The function may not be generic, borrow its parameters, or have more than 16 of them. Methods stand under
/// [`macro@handlers`].
#[proc_macro_attribute]
pub fn tool(attr: TokenStream, item: TokenStream) -> TokenStream {
    item::expand(ItemKind::Tool, attr.into(), item.into()).into()
}

/// Makes a resource of a function, or by a template a family of them, whose variables are the parameters.
///
/// It gives text, bytes, `Json<T>` or a `ReadResult`, an `Option` of these (`None` is a resource that is not there) or a
/// `Result`. Everything else is as for [`macro@find_tool`].
///
/// Settings after the URI: `name` (the function's unless given), `title`, `description`, `mime_type`, `size`, `icons`,
/// `tags`, `annotations`. On a parameter: `name`, `default`, and `complete`, which is a list of values or an `async`
/// function from `CompletionRequest` to a `Vec<String>`.
#[proc_macro_attribute]
pub fn resource(attr: TokenStream, item: TokenStream) -> TokenStream {
    item::expand(ItemKind::Resource, attr.into(), item.into()).into()
}

/// Makes a prompt of a function: its parameters are the prompt's arguments.
///
/// It gives text, messages or a `GetResult`, or a `Result` of these. Everything else is as for [`macro@find_tool`].
///
/// Settings: `name`, `title`, `description`, `icons`, `tags`. On a parameter: `name`, `description`, `default`, and
/// `complete` as for [`macro@resource`].
#[proc_macro_attribute]
pub fn prompt(attr: TokenStream, item: TokenStream) -> TokenStream {
    item::expand(ItemKind::Prompt, attr.into(), item.into()).into()
}

/// Offers the methods of an `impl` block that are marked with [`macro@find_tool`], [`macro@resource`] or [`macro@prompt`].
///
/// They take `&self`, since calls run at the same time, and stay methods. Others are left alone.
#[proc_macro_attribute]
pub fn handlers(attr: TokenStream, block: TokenStream) -> TokenStream {
    handlers::expand(attr.into(), block.into()).into()
}

/// Makes a form of a struct, to ask a user with, and choices of an enum without data.
///
/// Fields are text, numbers, `bool`, an enum that derives this, an `Option` of these, or a `Vec` of such an enum. They must
/// be filled in unless they are an `Option` or have a default. A setting that does not fit its field does not compile.
///
/// | `#[form(…)]` | on |
/// |---|---|
/// | `title`, `description`, `default`, `rename` | any field; the doc comment is the description |
/// | `min`, `max` | a number |
/// | `min_length`, `max_length`, `format` (`"email"`, `"uri"`, `"date"`, `"date-time"`) | text |
/// | `min_items`, `max_items` | a `Vec` |
/// | `title`, `rename` | a variant; its doc comment is the title, its name in snake case the value |
/// | `rename_all = "camelCase"` | the struct or the enum; the words are serde's |
#[proc_macro_derive(Form, attributes(form))]
pub fn form(item: TokenStream) -> TokenStream {
    form::expand(item.into()).into()
}
