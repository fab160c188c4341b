//! Values that can be registered: a tool, resource or prompt, or a function that returns one.
//!
//! `#[tool] fn add` makes a function `add` that returns a [`Tool`], so that `.tool(add)` registers it.

use super::prompt::Prompt;
use super::registry::Registration;
use super::resource::Resource;
use super::tool::Tool;

/// How a value is converted: it is the item already, or converts into it. Inferred by the compiler.
#[derive(Debug)]
pub enum ByValue {}

/// How a value is converted: it is a function that returns the item. Inferred by the compiler.
#[derive(Debug)]
pub enum ByCall {}

// Both implementations cover every type, and `Marker` tells them apart. If only one could match a function, the compiler would
// report the signature of that function instead of the message.
macro_rules! into_item {
    ($(#[$attr:meta])* $name:ident, $method:ident, $item:ident) => {
        $(#[$attr])*
        pub trait $name<Marker> {
            /// Returns the item.
            fn $method(self) -> $item;
        }

        #[diagnostic::do_not_recommend]
        impl<T: Into<$item>> $name<ByValue> for T {
            fn $method(self) -> $item {
                self.into()
            }
        }

        #[diagnostic::do_not_recommend]
        impl<F: FnOnce() -> $item> $name<ByCall> for F {
            fn $method(self) -> $item {
                self()
            }
        }
    };
}

into_item! {
    /// A tool, or a function with `#[tool]`. The parameter of [`Server::tool`](super::Server::tool).
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a tool",
        label = "not a tool",
        note = "put `#[tool]` on the function, or build a tool with `Tool::new(\"name\").handler(…)`",
        note = "`#[prompt]` functions are registered with `.prompt(…)`, `#[resource]` functions with `.resource(…)`"
    )]
    IntoTool, into_tool, Tool
}

into_item! {
    /// A resource, or a function with `#[resource]`. The parameter of [`Server::resource`](super::Server::resource).
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a resource",
        label = "not a resource",
        note = "put `#[resource(\"…\")]` on the function, or build a resource with `Resource::new(\"uri\").handler(…)`",
        note = "`#[tool]` functions are registered with `.tool(…)`, `#[prompt]` functions with `.prompt(…)`"
    )]
    IntoResource, into_resource, Resource
}

into_item! {
    /// A prompt, or a function with `#[prompt]`. The parameter of [`Server::prompt`](super::Server::prompt).
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a prompt",
        label = "not a prompt",
        note = "put `#[prompt]` on the function, or build a prompt with `Prompt::new(\"name\").handler(…)`",
        note = "`#[tool]` functions are registered with `.tool(…)`, `#[resource]` functions with `.resource(…)`"
    )]
    IntoPrompt, into_prompt, Prompt
}

/// A tool, resource or prompt, or a function with `#[tool]`, `#[resource]` or `#[prompt]`. The parameter of
/// [`Server::add`](super::Server::add).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool, resource or prompt",
    label = "cannot be registered",
    note = "put `#[tool]`, `#[resource(\"…\")]` or `#[prompt]` on the function, or build the item, for example with `Tool::new`"
)]
pub trait IntoRegistration<Marker> {
    /// Returns the registration.
    fn into_registration(self) -> Registration;
}

#[diagnostic::do_not_recommend]
impl<T: Into<Registration>> IntoRegistration<ByValue> for T {
    fn into_registration(self) -> Registration {
        self.into()
    }
}

#[diagnostic::do_not_recommend]
impl<F: FnOnce() -> T, T: Into<Registration>> IntoRegistration<fn() -> T> for F {
    fn into_registration(self) -> Registration {
        self().into()
    }
}
