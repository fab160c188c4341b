//! The macros of Tsugite: sugar over what `tsugite::server` has as builders and traits.
//!
//! `offer` makes something to register of a function (`function`, with its `params`), for `tool`, `resource` and
//! `prompt`; `handlers` does so for the methods of a block; `form` stands for itself. None of them looks at what a type
//! is called: the code they write asks the compiler, see `tsugite::server::param`.

mod case;
mod docs;
mod form;
mod function;
mod handlers;
mod mistakes;
mod offer;
mod params;
mod prompt;
mod resource;
mod settings;
mod tool;

use proc_macro::TokenStream;

use offer::Kind;

/// TODO
#[proc_macro_attribute]
pub fn tool(attr: TokenStream, item: TokenStream) -> TokenStream {
    offer::expand(Kind::Tool, attr.into(), item.into()).into()
}

/// TODO
#[proc_macro_attribute]
pub fn resource(attr: TokenStream, item: TokenStream) -> TokenStream {
    offer::expand(Kind::Resource, attr.into(), item.into()).into()
}

/// TODO
#[proc_macro_attribute]
pub fn prompt(attr: TokenStream, item: TokenStream) -> TokenStream {
    offer::expand(Kind::Prompt, attr.into(), item.into()).into()
}

/// TODO
#[proc_macro_attribute]
pub fn handlers(attr: TokenStream, block: TokenStream) -> TokenStream {
    handlers::expand(attr.into(), block.into()).into()
}

/// TODO
#[proc_macro_derive(Form, attributes(form))]
pub fn form(item: TokenStream) -> TokenStream {
    form::expand(item.into()).into()
}
