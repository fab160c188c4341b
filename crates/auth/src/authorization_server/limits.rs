//! Rate limits in the store, so that all replicas count together.

use std::net::IpAddr;
use std::time::Duration;

use tsugite::store::{SpendLimit, StoreError};

use super::AuthorizationState;
use super::http_message::{EndpointError, OAuthError};

impl AuthorizationState {
    /// Takes one attempt to log in. The error is the time to wait.
    pub(super) async fn spend_login(
        &self,
        name: &str,
        client: Option<IpAddr>,
    ) -> Result<Result<(), Duration>, StoreError> {
        let burst = self.settings.max_logins;
        let limit = SpendLimit { burst, per_second: 1.0 / 60.0 };
        // The address first: beyond its limit it can lock no further names, and makes no further records.
        let from_address = SpendLimit { burst: burst.saturating_mul(2), ..limit };
        if let Err(wait) = self.records.spend("login from", &network(client), from_address).await? {
            return Ok(Err(wait));
        }
        // A directory may take names that differ in case for one.
        self.records.spend("login of", &name.trim().to_lowercase(), limit).await
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
