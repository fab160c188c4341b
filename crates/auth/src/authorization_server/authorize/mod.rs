//! `/authorize`: from the request of a client to the code, by way of a login and the consent of the user.
//!
//! - `request`: what a client may ask for. `browser`: the cookie of a browser, and who is logged in there.
//! - `flow`: the steps. Between two of them the page carries the request, sealed and bound to the browser and the step, so
//!   that no step can be left out and no other site can submit a form.
//! - `consents`: what a user has allowed before. `provider_login`: the way by an OpenID provider.
//!   `provider_grants`: whether the provider still vouches for a user.
//! - `pages`: the pages.

mod browser;
mod consents;
mod flow;
mod pages;
mod provider_grants;
mod provider_login;
mod request;
