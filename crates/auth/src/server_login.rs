//! The login at one server: its current token, and one renewal at a time.
//!
//! A renewal is a task of its own. All requests that need it wait for it, and it goes on when they are dropped.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OnceCell, watch};
use tsugite::client::{Challenge, Credentials, FetchRequest, Fetcher, Identity};

use crate::attempt::{Attempt, Outcome};
use crate::dpop::{Proof, now};
use crate::error::{AuthError, Result};
use crate::jose::SigningKey;
use crate::net::{GuardedHttp, Trust, Url};
use crate::scopes;
use crate::settings::Settings;
use crate::store::{StoredToken, Vault};
use crate::token_endpoint::Nonce;

/// The login at one server.
pub(crate) struct ServerLogin {
    server: String,
    settings: Arc<Settings>,
    fetcher: Mutex<Option<Fetcher>>,
    token: Mutex<Option<Arc<CurrentToken>>>,
    loaded: OnceCell<()>,
    /// The renewal that runs, or ran last.
    renewal: Mutex<Option<Renewal>>,
    /// The last failure of a login by a person.
    last_failure: Mutex<Option<(Instant, AuthError)>>,
    /// How often each operation has asked for more scopes.
    step_ups: Mutex<HashMap<String, u32>>,
    /// The nonce of the server.
    nonce: Nonce,
    /// The nonce of the authorization server.
    issuer_nonce: Nonce,
    /// The address that the last challenge came from.
    address: Mutex<Option<IpAddr>>,
}

type Renewal = watch::Receiver<Option<Result<()>>>;

struct CurrentToken {
    stored: StoredToken,
    key: Option<SigningKey>,
}

impl ServerLogin {
    pub(crate) fn new(server: String, settings: Arc<Settings>) -> Self {
        Self {
            server,
            settings,
            fetcher: Mutex::default(),
            token: Mutex::default(),
            loaded: OnceCell::new(),
            renewal: Mutex::default(),
            last_failure: Mutex::default(),
            step_ups: Mutex::default(),
            nonce: Nonce::default(),
            issuer_nonce: Nonce::default(),
            address: Mutex::default(),
        }
    }

    pub(crate) fn set_fetcher(&self, fetcher: Fetcher) {
        *lock(&self.fetcher) = Some(fetcher);
    }

    /// The HTTP client for requests to authorization servers.
    fn fetcher(&self) -> Fetcher {
        let own = self.settings.fetcher.clone();
        own.or_else(|| lock(&self.fetcher).clone()).unwrap_or_default()
    }

    /// Loads the token from the store, once.
    pub(crate) async fn load(&self) -> Result<()> {
        let load = || async {
            let vault = self.settings.store.read().await?;
            match vault.token(&self.server).filter(|token| self.settings.is_usable(token)) {
                Some(token) => self.set_token(Some(token.clone())),
                None => Ok(()),
            }
        };
        self.loaded.get_or_try_init(load).await.map(drop)
    }

    fn set_token(&self, token: Option<StoredToken>) -> Result<()> {
        let token = match token {
            Some(stored) => {
                let key = stored.dpop_key.as_ref().map(SigningKey::from_stored).transpose()?;
                Some(Arc::new(CurrentToken { stored, key }))
            }
            None => None,
        };
        *lock(&self.token) = token;
        Ok(())
    }

    /// The current token.
    fn stored_token(&self) -> Option<StoredToken> {
        lock(&self.token).as_ref().map(|token| token.stored.clone())
    }

    /// Forgets the token, but not the store.
    pub(crate) fn forget(&self) {
        *lock(&self.token) = None;
    }

    /// Revokes a token that is in no store any more. Returns false if the authorization server revokes none.
    pub(crate) async fn revoke(&self, token: &StoredToken, vault: &Vault) -> Result<bool> {
        // The address of the server decides which addresses of its authorization server are trusted.
        let challenge = self.ask_for_challenge().await;
        self.attempt(challenge.as_ref())?.revoke(token, vault).await
    }

    /// The headers of a request.
    pub(crate) fn credentials(&self, verb: &str, url: &str) -> Result<Credentials> {
        let Some(token) = lock(&self.token).clone() else { return Ok(Credentials::none()) };
        let access_token = token.stored.access_token.expose();
        let Some(key) = &token.key else { return Ok(Credentials::bearer(access_token)) };
        let nonce = self.nonce.get();
        let proof = Proof { verb, url, token: Some(access_token), nonce: nonce.as_deref() }.sign(key)?;
        Ok(Credentials::none().header("authorization", format!("DPoP {access_token}")).header("dpop", proof))
    }

    /// An attempt to get a token. URLs that the server names are trusted as far as its address allows.
    fn attempt<'a>(&'a self, challenge: Option<&'a Challenge>) -> Result<Attempt<'a>> {
        let address = {
            let mut known = lock(&self.address);
            *known = challenge.and_then(|challenge| challenge.remote_address).or(*known);
            *known
        };
        let (server, settings) = (&self.server, &*self.settings);
        let trust = Trust::of_server(&Url::parse(server)?, address).allow_private(settings.allow_private);
        let http = GuardedHttp::new(self.fetcher(), trust);
        Ok(Attempt::new(server, settings, http, challenge, &self.issuer_nonce))
    }

    pub(crate) fn set_nonce(&self, nonce: &str) {
        self.nonce.set(Some(nonce));
    }

    pub(crate) fn has_nonce(&self) -> bool {
        self.nonce.get().is_some()
    }

    /// The identity of the token: the login it came from. The client id alone would be the same for every user.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let token = lock(&self.token).clone()?;
        let stored = &token.stored;
        let subject = format!("{} {} {}", stored.issuer, stored.client_id, stored.login_id);
        Some(Identity { subject, scopes: stored.scopes().join(" ") })
    }

    /// Waits for a renewal that runs, whatever becomes of it.
    pub(crate) async fn wait_for_renewal(&self) {
        let running = lock(&self.renewal).clone();
        if let Some(mut running) = running {
            let _ = running.wait_for(Option::is_some).await;
        }
    }

    /// Refreshes a token that is about to expire. If that fails, the server will say what it wants.
    pub(crate) async fn refresh_if_expired(self: &Arc<Self>) {
        let Some(token) = self.stored_token() else { return };
        if !token.expires_within(EXPIRY_MARGIN_SECONDS, now()) || token.refresh_token.is_none() {
            return;
        }
        let (this, expired) = (Arc::clone(self), token.access_token.clone());
        let refreshed = self
            .renew_once(Some(expired.expose()), async move { this.attempt(None)?.refresh(&token).await })
            .await;
        if let Err(error) = refreshed {
            tracing::debug!(%error, "cannot refresh the token");
        }
    }

    /// Gets another token after a 401. Returns whether there is one.
    pub(crate) async fn renew(
        self: &Arc<Self>,
        rejected: Option<&str>,
        challenge: &Challenge,
        may_ask_user: bool,
    ) -> Result<bool> {
        if self.has_other_token(rejected) {
            return Ok(true);
        }
        self.check_last_failure(may_ask_user)?;
        let (this, challenge) = (Arc::clone(self), challenge.clone());
        self.renew_once(rejected, async move {
            let attempt = this.attempt(Some(&challenge))?;
            let outcome = attempt.renew(this.stored_token().as_ref(), may_ask_user).await;
            this.record_failure(outcome)
        })
        .await?;
        Ok(self.has_other_token(rejected))
    }

    /// Gets a token with more scopes after a 403. Returns false if the server wants no scopes that were not asked for, or if
    /// the operation has asked too often.
    pub(crate) async fn step_up(
        self: &Arc<Self>,
        rejected: Option<&str>,
        challenge: &Challenge,
        operation: &str,
        may_ask_user: bool,
    ) -> Result<bool> {
        if self.has_other_token(rejected) {
            return Ok(true);
        }
        let Some(token) = self.stored_token() else { return Ok(false) };
        let wanted = scopes::parse(&challenge.param("scope").unwrap_or_default());
        let union = scopes::union(&token.requested_scopes, &wanted);
        if union == token.requested_scopes || !self.count_step_up(operation) {
            return Ok(false);
        }
        self.check_last_failure(may_ask_user)?;
        let (this, challenge) = (Arc::clone(self), challenge.clone());
        self.renew_once(rejected, async move {
            let attempt = this.attempt(Some(&challenge))?;
            let outcome = attempt.step_up(&token, union, may_ask_user).await;
            this.record_failure(outcome)
        })
        .await?;
        Ok(self.has_other_token(rejected))
    }

    /// Gets a token without a challenge, whatever token there is.
    pub(crate) async fn log_in(self: &Arc<Self>) -> Result<()> {
        let challenge = self.ask_for_challenge().await;
        let current = self.stored_token();
        let current = current.as_ref().map(|token| token.access_token.expose());
        let this = Arc::clone(self);
        self.renew_once(current, async move {
            let outcome = this.attempt(challenge.as_ref())?.log_in_again().await;
            this.record_failure(outcome)
        })
        .await
    }

    /// The challenge to a request without credentials, if the server answers with one.
    async fn ask_for_challenge(&self) -> Option<Challenge> {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let request = FetchRequest::post(&self.server, "application/json", ping)
            .header("accept", "application/json, text/event-stream")
            .timeout(PING_TIMEOUT);
        let response = self.fetcher().fetch(request).await.ok()?;
        let headers = response.headers.iter().filter(|(name, _)| name == "www-authenticate");
        let headers = headers.map(|(_, value)| value.clone()).collect();
        let mut challenge = Challenge::new(response.status, &self.server, headers);
        challenge.remote_address = response.remote_address;
        Some(challenge)
    }

    /// Whether another request has got a token meanwhile.
    fn has_other_token(&self, rejected: Option<&str>) -> bool {
        let current = lock(&self.token).clone();
        current.is_some_and(|token| Some(token.stored.access_token.expose()) != rejected)
    }

    /// Counts an attempt of an operation to get more scopes. False if there were too many.
    fn count_step_up(&self, operation: &str) -> bool {
        let mut all = lock(&self.step_ups);
        if all.len() >= MAX_OPERATIONS && !all.contains_key(operation) {
            return false;
        }
        let count = all.entry(operation.to_owned()).or_default();
        *count += 1;
        *count <= MAX_STEP_UPS
    }

    /// Fails with the error of a login that has just failed, so that waiting requests do not start one after the other.
    fn check_last_failure(&self, may_ask_user: bool) -> Result<()> {
        let is_interactive = self.settings.is_interactive();
        match &*lock(&self.last_failure) {
            Some((at, error)) if is_interactive && (!may_ask_user || at.elapsed() < FAILURE_PAUSE) => {
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }

    fn record_failure(&self, outcome: Result<Outcome>) -> Result<Outcome> {
        *lock(&self.last_failure) = outcome.as_ref().err().map(|error| (Instant::now(), error.clone()));
        outcome
    }

    /// Runs a renewal as a task of its own, or waits for the one that runs. Does nothing if another one has just replaced
    /// the rejected token.
    async fn renew_once(
        self: &Arc<Self>,
        rejected: Option<&str>,
        work: impl Future<Output = Result<Outcome>> + Send + 'static,
    ) -> Result<()> {
        let mut receiver = {
            let mut slot = lock(&self.renewal);
            // A sender that is gone without a result belongs to a task that has panicked.
            let running =
                slot.as_ref().filter(|running| running.borrow().is_none() && running.has_changed().is_ok());
            match running {
                Some(running) => running.clone(),
                None if self.has_other_token(rejected) => return Ok(()),
                None => {
                    let (sender, receiver) = watch::channel(None);
                    let this = Arc::clone(self);
                    tokio::spawn(async move {
                        let outcome = match work.await {
                            Ok(Outcome::Token(token)) => this.set_token(Some(*token)),
                            Ok(Outcome::NoToken) => this.set_token(None),
                            Ok(Outcome::Unchanged) => Ok(()),
                            Err(error) => Err(error),
                        };
                        sender.send_replace(Some(outcome));
                    });
                    *slot = Some(receiver.clone());
                    receiver
                }
            }
        };
        let outcome = receiver.wait_for(Option::is_some).await;
        match outcome.map(|outcome| outcome.clone()) {
            Ok(Some(outcome)) => outcome,
            Ok(None) | Err(_) => Err(AuthError::login("the login has ended without a result")),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A token is refreshed this long before it expires.
const EXPIRY_MARGIN_SECONDS: u64 = 10;
/// How often one operation may ask for more scopes.
const MAX_STEP_UPS: u32 = 3;
const MAX_OPERATIONS: usize = 1_000;
/// How long a server may take to answer before a login that no call has asked for.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after a failed login no other one begins.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);
