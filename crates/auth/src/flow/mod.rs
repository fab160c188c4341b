//! The authorization code flow: a person logs in with a browser.
//!
//! - `request`: the URL that the browser opens, with PKCE and `state`; the check of the answer.
//! - `listener`: the loopback address that the answer is redirected to.
//! - `user_agent`: how the URL is shown: a browser, or a text to copy.

mod listener;
mod open_url;
mod request;
mod user_agent;

pub use user_agent::{Browser, ClientQuestion, LoginPage, Prompt, UserAgent, UserAgentFuture};

pub(crate) use listener::{RedirectListener, RedirectTarget};
pub(crate) use request::{AuthorizationParams, AuthorizationRequest};
