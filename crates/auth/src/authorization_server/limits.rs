//! Rate limits in the store, so that all replicas count together.
//!
//! Most are spent and never given back. An attempt to log in is given back to its address if the password was right, so that
//! many users of one address do not keep each other out. Failed secrets of clients are counted when they have failed, so that
//! a client that is right costs no write.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tsugite::store::{Precondition, SpendLimit, StoreError};

use super::AuthorizationState;
use super::http_message::{EndpointError, OAuthError};
use super::records::FIELD;

impl AuthorizationState {
    /// Takes one attempt to log in. The error is the time to wait.
    pub(super) async fn spend_login(
        &self,
        name: &str,
        client: Option<IpAddr>,
    ) -> Result<Result<(), Duration>, StoreError> {
        let burst = self.settings.max_logins;
        // The address first: beyond its limit it can lock no further names, and makes no further records.
        if let Err(wait) = self.take_attempt(&network(client)).await? {
            return Ok(Err(wait));
        }
        let of_all = burst.saturating_mul(60);
        let all = SpendLimit { burst: of_all, per_second: f64::from(of_all) / 60.0 };
        if let Err(wait) = self.records.spend("logins", "", all).await? {
            return Ok(Err(wait));
        }
        // A directory may take names that differ in case for one.
        let limit = SpendLimit { burst, per_second: 1.0 / 60.0 };
        self.records.spend("login of", &name.trim().to_lowercase(), limit).await
    }

    /// Gives an attempt to log in back to its address, because the password was right.
    pub(super) async fn give_login_back(&self, client: Option<IpAddr>) -> Result<(), StoreError> {
        let give = |mut attempts: Attempts| {
            attempts.open -= 1.0;
            Ok(attempts)
        };
        // An attempt that stays counted for a minute does no harm.
        self.change_attempts(&network(client), give).await.map(drop)
    }

    /// Takes one attempt of an address. The error is the time to wait.
    async fn take_attempt(&self, network: &str) -> Result<Result<(), Duration>, StoreError> {
        let burst = self.max_attempts();
        let take = |mut attempts: Attempts| {
            attempts.open += 1.0;
            match attempts.open <= burst {
                true => Ok(attempts),
                false => Err(Duration::from_secs_f64((attempts.open - burst) * SECONDS_PER_ATTEMPT)),
            }
        };
        self.change_attempts(network, take).await
    }

    /// Changes the open attempts of an address. Fails with a short wait if too many others change them at the same time.
    async fn change_attempts(
        &self,
        network: &str,
        change: impl Fn(Attempts) -> Result<Attempts, Duration>,
    ) -> Result<Result<(), Duration>, StoreError> {
        let key = self.records.key("attempts from", network);
        let ttl = Duration::from_secs_f64((self.max_attempts() + 1.0) * SECONDS_PER_ATTEMPT);
        for _ in 0..MAX_CHANGES {
            let found = self.records.read::<Attempts>(&key, FIELD).await?;
            let precondition = match &found {
                Some(found) => Precondition::FieldVersion(found.version),
                None => Precondition::FieldAbsent,
            };
            let before = found.map(|found| found.value).unwrap_or_default();
            let after = match change(before.at(self.clock.seconds())) {
                Ok(after) => after,
                Err(wait) => return Ok(Err(wait)),
            };
            if self.records.write((&key, FIELD), &after, precondition, ttl).await? {
                return Ok(Ok(()));
            }
        }
        Ok(Err(Duration::from_secs(1)))
    }

    /// How many wrong passwords an address may try at once.
    fn max_attempts(&self) -> f64 {
        f64::from(self.settings.max_logins) * 2.0
    }

    /// Whether no secret is compared now, because too many from this address or of this client were wrong.
    pub(super) async fn is_guessing(
        &self,
        client_id: &str,
        client: Option<IpAddr>,
    ) -> Result<bool, StoreError> {
        let from = self.records.exists("secrets refused from", &network(client)).await?;
        Ok(from || self.records.exists("secrets refused of", client_id).await?)
    }

    /// Counts a wrong secret of a client. Beyond a limit no further secret is compared until the limit allows one more.
    pub(super) async fn count_wrong_secret(
        &self,
        client_id: &str,
        client: Option<IpAddr>,
    ) -> Result<(), StoreError> {
        let network = network(client);
        for (kind, refused, name, per_minute) in [
            ("wrong secret from", "secrets refused from", network.as_str(), WRONG_SECRETS_OF_ADDRESS),
            ("wrong secret of", "secrets refused of", client_id, WRONG_SECRETS_OF_CLIENT),
        ] {
            let limit = SpendLimit { burst: per_minute, per_second: f64::from(per_minute) / 60.0 };
            if let Err(wait) = self.records.spend(kind, name, limit).await? {
                self.records.claim(refused, name, wait.max(Duration::from_secs(1))).await?;
            }
        }
        Ok(())
    }

    /// Takes one registration of a client.
    pub(super) async fn spend_registration(&self, client: Option<IpAddr>) -> Result<(), EndpointError> {
        let burst = self.settings.max_registrations;
        let limit = |burst: u32| SpendLimit { burst, per_second: f64::from(burst) / 3_600.0 };
        let own = self.records.spend("registration from", &network(client), limit(burst)).await?;
        own.map_err(OAuthError::too_many)?;
        let all = self.records.spend("registrations", "", limit(burst.saturating_mul(50))).await?;
        Ok(all.map_err(OAuthError::too_many)?)
    }

    /// Takes one request to a URL that a client has named. Returns false if there were too many.
    pub(super) async fn spend_fetch(&self, client: Option<IpAddr>) -> Result<bool, StoreError> {
        self.spend_shared("fetch", client, 300).await
    }

    /// Takes one login at the provider, which is recorded before its user is known. Returns false if there were too
    /// many.
    pub(super) async fn spend_provider_login(&self, client: Option<IpAddr>) -> Result<bool, StoreError> {
        self.spend_shared("provider login", client, 1_200).await
    }

    /// Takes one assertion of a client that vouches for itself; its id is recorded. Returns false if there were too many.
    pub(super) async fn spend_assertion(&self, client: Option<IpAddr>) -> Result<bool, StoreError> {
        self.spend_shared("assertion", client, 3_000).await
    }

    /// Takes one of what all clients may do so often a minute, and each network a tenth as often.
    async fn spend_shared(
        &self,
        kind: &str,
        client: Option<IpAddr>,
        per_minute: u32,
    ) -> Result<bool, StoreError> {
        let limit = |burst: u32| SpendLimit { burst, per_second: f64::from(burst) / 60.0 };
        let (kind_of_one, network) = (format!("{kind} from"), network(client));
        if self.records.spend(&kind_of_one, &network, limit(per_minute / 10)).await?.is_err() {
            return Ok(false);
        }
        Ok(self.records.spend(&format!("{kind}s"), "", limit(per_minute)).await?.is_ok())
    }
}

/// The open attempts of an address to log in: those that were not right, of which one is forgotten every minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Attempts {
    open: f64,
    /// In seconds since 1970.
    counted_at: u64,
}

impl Attempts {
    /// The attempts that are still open at a time.
    fn at(self, now: u64) -> Self {
        let forgotten = now.saturating_sub(self.counted_at) as f64 / SECONDS_PER_ATTEMPT;
        Self { open: (self.open - forgotten).max(0.0), counted_at: now }
    }
}

const SECONDS_PER_ATTEMPT: f64 = 60.0;
const MAX_CHANGES: usize = 8;
/// Wrong secrets of clients a minute. A secret has 16 bytes at least, so these leave nothing to guess.
const WRONG_SECRETS_OF_ADDRESS: u32 = 30;
const WRONG_SECRETS_OF_CLIENT: u32 = 300;

/// The network that counts as one client: an IPv4 address, or the /64 of an IPv6 address.
fn network(client: Option<IpAddr>) -> String {
    match client.map(|address| address.to_canonical()) {
        None => "unknown".to_owned(),
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_together() {
        let of = |text: &str| network(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!((of("192.0.2.1"), of("::ffff:192.0.2.1")), (of("192.0.2.1"), of("192.0.2.1")));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
