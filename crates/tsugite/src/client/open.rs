//! How a connection begins: the revision is found out, and shaken hands on where that is the custom.

use std::sync::Arc;

use tsugite_core::jsonrpc::{Id, RawJson};
use tsugite_core::protocol::discover::Discover;
use tsugite_core::protocol::lifecycle::{Initialize, InitializeParams, Initialized};
use tsugite_core::protocol::logging::{SetLevel, SetLevelParams};
use tsugite_core::protocol::{Meta, Method, NoParams};
use tsugite_core::revision::{Revision, Revisions, write_request};
use tsugite_core::session::probe::{
    ProbeRequest, ProbeMode, ProbePolicy, ProbeError, ProbeOutcome, StdioProbeStep, StdioOutcome, StdioProbe, ProbeRecord,
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
    known: Option<ProbeRecord>,
) -> Result<(Arc<Link>, Option<ProbeRecord>)> {
    match way {
        Way::Child(command) => through_pipe(shared, known, || carrier::through_child(shared, command)).await,
        Way::Memory(server, who) => {
            through_pipe(shared, known, || carrier::in_memory(shared, server, who)).await
        }
        Way::Http(url) => http::open(shared, url, known).await,
    }
}

/// What this client is willing to speak.
pub(super) fn policy(shared: &Shared) -> ProbePolicy {
    let spoken = shared.settings.spoken;
    let only = spoken.newest_first().next().filter(|_| shared.settings.pinned);
    let mode = match only {
        Some(revision) => ProbeMode::Pin(revision),
        None if spoken.handshake() == Revisions::NONE => ProbeMode::StatelessOnly,
        None if spoken.stateless() == Revisions::NONE => ProbeMode::HandshakeOnly,
        None => ProbeMode::Auto,
    };
    ProbePolicy::new(spoken).mode(mode)
}

async fn through_pipe(
    shared: &Arc<Shared>,
    known: Option<ProbeRecord>,
    start: impl Fn() -> Result<Arc<Link>>,
) -> Result<(Arc<Link>, Option<ProbeRecord>)> {
    let policy = policy(shared);
    let (mut probe, mut next) = match known {
        Some(verdict) => StdioProbe::with_record(policy, verdict),
        None => StdioProbe::new(policy),
    };
    let mut opening = Opening(Some(start()?));
    loop {
        let Some(link) = &opening.0 else { return Err(Kind::Closed.into()) };
        next = match next {
            StdioProbeStep::Send(ask) => heard(&mut probe, link, ask).await?,
            StdioProbeStep::Restart(ask) => {
                link.end("it is started again");
                opening = Opening(Some(start()?));
                let Some(link) = &opening.0 else { return Err(Kind::Closed.into()) };
                heard(&mut probe, link, ask).await?
            }
            // What is no message is skipped where it is read, so nobody has been told of any.
            StdioProbeStep::KeepWaiting => StdioProbeStep::Fail(ProbeError::NoResponse),
            StdioProbeStep::Fail(failure) => return Err(failed(failure, link)),
            StdioProbeStep::Done(settled) => {
                settle(link, settled).await?;
                let verdict = probe.record();
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

async fn heard(probe: &mut StdioProbe, link: &Arc<Link>, ask: ProbeRequest) -> Result<StdioProbeStep> {
    let request = First::new(link, ask);
    let limit = link.shared.settings.probe;
    let options = match ask {
        ProbeRequest::Discover(_) => Options { idle: Some(limit), total: Some(limit), ..Options::default() },
        ProbeRequest::Initialize(_) => Options::default(),
    };
    Ok(match link.call(&request, &options).await {
        Ok(Ok(result)) => {
            link.introduce(&result);
            probe.receive(StdioOutcome::Result((&result).into()))
        }
        Ok(Err(error)) => probe.receive(StdioOutcome::Error(&error)),
        Err(Trouble::Lost { .. }) => probe.receive(StdioOutcome::Exited),
        Err(Trouble::Final(error)) if error.is_timeout() => probe.receive(StdioOutcome::Timeout),
        Err(Trouble::Final(error)) => return Err(error),
    })
}

/// Both sides know each other: what is due then is done.
pub(super) async fn settle(link: &Arc<Link>, settled: ProbeOutcome) -> Result<()> {
    match settled {
        ProbeOutcome::Stateless { revision, discover_result: Some(found) } => {
            let server = found.meta.as_ref().and_then(Meta::server_info);
            link.agree(revision, server, Some(found.capabilities), found.instructions);
        }
        ProbeOutcome::Stateless { revision, discover_result: None } => {
            link.agree(revision, None, None, None);
            link.trust();
        }
        ProbeOutcome::Handshake { revision, initialize_result: answer } => {
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
pub(super) fn failed(failure: ProbeError, link: &Link) -> Error {
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
        ProbeError::HttpStatus(status) => Kind::Status { status, said: String::new() }.into(),
        ProbeError::Rejected(error) => {
            let revision = link.revision();
            Error::refused(error, Initialize::NAME, revision)
        }
        ProbeError::NoResponse => {
            Error::connect(Step::Answer, format!("the server does not answer{last_words}"))
        }
        ProbeError::Exited => {
            let seen = link.lost().unwrap_or("the server ended");
            Error::connect(Step::Handshake, format!("{seen}{last_words}"))
        }
        other => Kind::Revision(other.to_string()).into(),
    }
}

/// The first request of a connection, before anything is agreed.
pub(super) struct First {
    ask: ProbeRequest,
    hello: Option<InitializeParams>,
    claims: Vec<(&'static str, RawJson)>,
}

impl First {
    pub(super) fn new(link: &Link, ask: ProbeRequest) -> Self {
        let settings = &link.shared.settings;
        match ask {
            ProbeRequest::Discover(revision) => Self { ask, hello: None, claims: link.claims(revision) },
            ProbeRequest::Initialize(offer) => {
                let hello =
                    InitializeParams::new(offer.as_str(), settings.capabilities(), settings.info.clone());
                Self { ask, hello: Some(hello), claims: Vec::new() }
            }
        }
    }

    pub(super) fn revision(&self) -> Revision {
        match self.ask {
            ProbeRequest::Discover(revision) | ProbeRequest::Initialize(revision) => revision,
        }
    }
}

impl Written for First {
    fn method(&self) -> &str {
        match self.ask {
            ProbeRequest::Discover(_) => Discover::NAME,
            ProbeRequest::Initialize(_) => Initialize::NAME,
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
