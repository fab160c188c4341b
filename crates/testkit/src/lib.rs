//! Shared parts of the tests: fixture servers, a raw client, and transcripts that run over every transport and revision.
//!
//! Checks over the whole tree live in `tests/`. The code in the README and in `docs/` is compiled and run here.

pub mod fixture;
pub mod http;
pub mod log;
pub mod raw_client;
pub mod replicas;
pub mod script;
pub mod spec_schema;
pub mod task_kills;
pub mod transcript;

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../README.ja.md")]
pub struct ReadmeInJapanese;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/tools.md")]
pub struct Tools;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/resources.md")]
pub struct Resources;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/platforms.md")]
pub struct Platforms;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/prompts_and_completion.md")]
pub struct PromptsAndCompletion;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/authorization.md")]
pub struct Authorization;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/tasks.md")]
pub struct Tasks;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/idempotency.md")]
pub struct Idempotency;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/asking.md")]
pub struct Asking;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/changing.md")]
pub struct Changing;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/composing.md")]
pub struct Composing;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/stdio.md")]
pub struct Stdio;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/http.md")]
pub struct Http;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/scaling.md")]
pub struct Scaling;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/deploying.md")]
pub struct Deploying;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/client.md")]
pub struct Client;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/host.md")]
pub struct Host;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/bridge.md")]
pub struct Bridge;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing.md")]
pub struct Testing;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/from_rmcp.md")]
pub struct FromRmcp;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/from_fastmcp.md")]
pub struct FromFastmcp;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/errors.md")]
pub struct Errors;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/hosts.md")]
pub struct Hosts;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/logging.md")]
pub struct Logging;
