//! The guides: one page for each task.
//!
//! | to | read |
//! |---|---|
//! | write a server | [`tools`], [`resources`], [`prompts_and_completion`], [`errors`] |
//! | ask the user, the model or the client | [`asking`] |
//! | work for longer than a request | [`tasks`] |
//! | let a repeated call run once | [`idempotency`] |
//! | serve it | [`stdio`], [`http`], [`hosts`], [`logging`], [`settings`] |
//! | install the program | [`installing`], [`platforms`] |
//! | run it in production | [`deploying`], [`scaling`] |
//! | change, combine and protect it | [`changing`], [`composing`], [`security`] |
//! | test it | [`testing`] |
//! | use servers | [`client`], [`authorization`], [`host`], [`bridge`], [`cli`] |
//! | come from another library | [`from_rmcp`], [`from_fastmcp`] |
//! | know the limits | [`rough_edges`] |
//!
//! # Files of the repository
//!
//! The guides are the files of `docs/` in the repository. Links in them to other files lead here: README.md,
//! ARCHITECTURE.md and CONTRIBUTING.md are at the root of the repository, design decisions in `docs/decisions`, and
//! examples in `crates/tsugite/examples`.

// Each file of `guide/` is a link to the file in `docs/`, so that a page exists once, is found where readers of the
// repository look for it, and is part of the package: cargo stores the contents of a link. The module exists only while
// the documentation is built. Its code is tested in the test kit, so doc tests leave it out.

#[doc = tsugite_macros::guide!("asking")]
pub mod asking {}

#[doc = tsugite_macros::guide!("authorization")]
pub mod authorization {}

#[doc = tsugite_macros::guide!("bridge")]
pub mod bridge {}

#[doc = tsugite_macros::guide!("changing")]
pub mod changing {}

#[doc = tsugite_macros::guide!("cli")]
pub mod cli {}

#[doc = tsugite_macros::guide!("client")]
pub mod client {}

#[doc = tsugite_macros::guide!("composing")]
pub mod composing {}

#[doc = tsugite_macros::guide!("deploying")]
pub mod deploying {}

#[doc = tsugite_macros::guide!("errors")]
pub mod errors {}

#[doc = tsugite_macros::guide!("from_fastmcp")]
pub mod from_fastmcp {}

#[doc = tsugite_macros::guide!("from_rmcp")]
pub mod from_rmcp {}

#[doc = tsugite_macros::guide!("host")]
pub mod host {}

#[doc = tsugite_macros::guide!("hosts")]
pub mod hosts {}

#[doc = tsugite_macros::guide!("http")]
pub mod http {}

#[doc = tsugite_macros::guide!("idempotency")]
pub mod idempotency {}

#[doc = tsugite_macros::guide!("installing")]
pub mod installing {}

#[doc = tsugite_macros::guide!("logging")]
pub mod logging {}

#[doc = tsugite_macros::guide!("platforms")]
pub mod platforms {}

#[doc = tsugite_macros::guide!("prompts_and_completion")]
pub mod prompts_and_completion {}

#[doc = tsugite_macros::guide!("resources")]
pub mod resources {}

#[doc = tsugite_macros::guide!("rough_edges")]
pub mod rough_edges {}

#[doc = tsugite_macros::guide!("scaling")]
pub mod scaling {}

#[doc = tsugite_macros::guide!("security")]
pub mod security {}

#[doc = tsugite_macros::guide!("settings")]
pub mod settings {}

#[doc = tsugite_macros::guide!("stdio")]
pub mod stdio {}

#[doc = tsugite_macros::guide!("tasks")]
pub mod tasks {}

#[doc = tsugite_macros::guide!("testing")]
pub mod testing {}

#[doc = tsugite_macros::guide!("tools")]
pub mod tools {}
