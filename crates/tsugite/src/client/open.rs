//! How a connection begins: the revision is found out, and shaken hands on where that is the custom.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::lifecycle::{Initialize, InitializeParams, Initialized};
use tsugite_core::protocol::logging::{SetLevel, SetLevelParams};
use tsugite_core::protocol::{Meta, Method, NoParams};
use tsugite_core::revision::{Revision, Revisions, write_request};
use tsugite_core::session::probe::{
    Ask, Mode, Policy, ProbeFailure, Settled, StdioNext, StdioOutcome, StdioProbe, Verdict,
};

use super::Way;
use super::call::Typed;
use super::carrier::{self, Carrier};
use super::error::{Error, Kind, Result, Step, clip};
use super::http;
use super::link::{Link, Trouble, Written};
use super::options::Options;
use super::shared::Shared;

/// Opens a connection. `known` is what was found out earlier.
pub(super) async fn open(
    way: &Way,
    shared: &Arc<Shared>,
    known: Option<Verdict>,
) -> Result<(Arc<Link>, Option<Verdict>)> {
    match way {
        Way::Child(command) => through_pipe(shared, known, || carrier::through_child(shared, command)).await,
        Way::Memory(server, who) => {
            through_pipe(shared, known, || carrier::in_memory(shared, server, who)).await
        }
        Way::Http(url) => http::open(shared, url, known).await,
    }
}

/// What this client is willing to speak.
pub(super) fn policy(shared: &Shared) -> Policy {
    let spoken = shared.settings.spoken;
    let only = spoken.newest_first().next().filter(|_| shared.settings.pinned);
    let mode = match only {
        Some(revision) => Mode::Pin(revision),
        None if spoken.handshake() == Revisions::NONE => Mode::StatelessOnly,
        None if spoken.stateless() == Revisions::NONE => Mode::HandshakeOnly,
        None => Mode::Auto,
    };
    Policy::new(spoken).mode(mode)
}

async fn through_pipe(
    shared: &Arc<Shared>,
    known: Option<Verdict>,
    start: impl Fn() -> Result<Arc<Link>>,
) -> Result<(Arc<Link>, Option<Verdict>)> {
    let policy = policy(shared);
    let (mut probe, mut next) = match known {
        Some(verdict) => StdioProbe::with_verdict(policy, verdict),
        None => StdioProbe::new(policy),
    };
    let mut opening = Opening(Some(start()?));
    loop {
        let Some(link) = &opening.0 else { return Err(Kind::Closed.into()) };
        next = match next {
            StdioNext::Ask(ask) => heard(&mut probe, link, ask).await?,
            StdioNext::Restart(ask) => {
                link.end("it is started again");
                opening = Opening(Some(start()?));
                let Some(link) = &opening.0 else { return Err(Kind::Closed.into()) };
                heard(&mut probe, link, ask).await?
            }
            // What is no message is skipped where it is read, so nobody has been told of any.
            StdioNext::KeepWaiting => StdioNext::Fail(ProbeFailure::Silent),
            StdioNext::Fail(failure) => return Err(failed(failure, link)),
            StdioNext::Settled(settled) => {
                settle(link, settled).await?;
                let verdict = probe.verdict();
                return opening.0.take().map(|link| (link, verdict)).ok_or_else(|| Kind::Closed.into());
            }
        };
    }
}

/// A connection that ends unless it is taken: whoever gives up waiting must not leave a child behind.
pub(super) struct Opening(pub(super) Option<Arc<Link>>);

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            link.end("the client gave up");
        }
    }
}

async fn heard(probe: &mut StdioProbe, link: &Arc<Link>, ask: Ask) -> Result<StdioNext> {
    let request = First::new(link, ask);
    let limit = link.shared.settings.probe;
    let options = match ask {
        Ask::Discover(_) => Options { idle: Some(limit), total: Some(limit), ..Options::default() },
        Ask::Initialize(_) => Options::default(),
    };
    Ok(match link.call(&request, &options).await {
        Ok(Ok(result)) => {
            link.introduce(&result);
            probe.heard(StdioOutcome::Result((&result).into()))
        }
        Ok(Err(error)) => probe.heard(StdioOutcome::Error(&error)),
        Err(Trouble::Lost { .. }) => probe.heard(StdioOutcome::Exited),
        Err(Trouble::Final(error)) if error.is_timeout() => probe.heard(StdioOutcome::Silence),
        Err(Trouble::Final(error)) => return Err(error),
    })
}

/// Both sides know each other: what is due then is done.
pub(super) async fn settle(link: &Arc<Link>, settled: Settled) -> Result<()> {
    match settled {
        Settled::Stateless { revision, discovered: Some(found) } => {
            let server = found.meta.as_ref().and_then(Meta::server_info);
            link.agree(revision, server, Some(found.capabilities), found.instructions);
        }
        Settled::Stateless { revision, discovered: None } => {
            link.agree(revision, None, None, None);
            link.trust();
        }
        Settled::Handshake { revision, answer } => {
            let logs = answer.capabilities.logging.is_some();
            link.agree(revision, Some(answer.server_info), Some(answer.capabilities), answer.instructions);
            link.notify::<Initialized>(NoParams::new()).await?;
            http::hear(link).await;
            if let (true, Some(level)) = (logs, link.shared.settings.log_level) {
                let params = SetLevelParams::new(level);
                if let Err(trouble) = link.call(&Typed::<SetLevel>::new(&params), &Options::default()).await {
                    tracing::warn!(error = %Error::from(trouble), "the server was not told which logs are wanted");
                }
            }
        }
    }
    Ok(())
}

/// Why no revision was found.
pub(super) fn failed(failure: ProbeFailure, link: &Link) -> Error {
    let last_words = match &link.carrier {
        Carrier::Child(pipe) => {
            let stderr = pipe.child.stderr();
            let lines: Vec<&str> = stderr.trim_end().lines().rev().take(5).collect();
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            match lines.is_empty() {
                true => String::new(),
                false => {
                    format!("; the last it wrote to its standard error: {}", clip(&lines.join("\n"), 1000))
                }
            }
        }
        _ => String::new(),
    };
    match failure {
        ProbeFailure::Status(status) => Kind::Status { status, said: String::new() }.into(),
        ProbeFailure::Refused(error) => {
            let revision = link.revision();
            Error::refused(error, Initialize::NAME, revision)
        }
        ProbeFailure::Silent => {
            Error::connect(Step::Answer, format!("the server does not answer{last_words}"))
        }
        ProbeFailure::Exited => {
            let seen = link.lost().unwrap_or("the server ended");
            Error::connect(Step::Handshake, format!("{seen}{last_words}"))
        }
        other => Kind::Revision(other.to_string()).into(),
    }
}

/// The first request of a connection, before anything is agreed.
pub(super) struct First {
    ask: Ask,
    hello: Option<InitializeParams>,
    claims: Vec<(&'static str, RawJson)>,
}

impl First {
    pub(super) fn new(link: &Link, ask: Ask) -> Self {
        let settings = &link.shared.settings;
        match ask {
            Ask::Discover(revision) => Self { ask, hello: None, claims: link.claims(revision) },
            Ask::Initialize(offer) => {
                let hello =
                    InitializeParams::new(offer.as_str(), settings.capabilities(), settings.info.clone());
                Self { ask, hello: Some(hello), claims: Vec::new() }
            }
        }
    }

    pub(super) fn revision(&self) -> Revision {
        match self.ask {
            Ask::Discover(revision) | Ask::Initialize(revision) => revision,
        }
    }
}

impl Written for First {
    fn method(&self) -> &str {
        match self.ask {
            Ask::Discover(_) => Discover::NAME,
            Ask::Initialize(_) => Initialize::NAME,
        }
    }

    fn name(&self) -> Option<&str> {
        None
    }

    fn write(&self, out: &mut Vec<u8>, id: &Id<'_>, _: &Link, _: &Options) -> Result<()> {
        match &self.hello {
            Some(hello) => write_request::<Initialize>(out, id, hello.clone(), self.revision())?,
            None => {
                let mut meta = Meta::new();
                for (key, value) in &self.claims {
                    meta.insert(*key, value);
                }
                write_request::<Discover>(out, id, NoParams::new().meta(meta), self.revision())?;
            }
        }
        Ok(())
    }

    fn headers(&self, _: &Link) -> Vec<(String, String)> {
        Vec::new()
    }
}
