//! The address and the credentials in a `redis://` URL.

use std::fmt;
use std::net::IpAddr;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

/// A URL that [`Redis::at`](crate::Redis::at) does not accept. It never contains the URL, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

/// The server to connect to.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) uses_tls: bool,
    pub(crate) database: i64,
    /// User and password.
    pub(crate) credentials: RedisConnectionInfo,
}

impl Address {
    pub(crate) fn from_url(url: &str) -> Result<Self, UrlError> {
        let (uses_tls, rest) = match (url.strip_prefix("rediss://"), url.strip_prefix("redis://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => {
                return Err(UrlError(
                    "the URL of Redis begins neither with redis:// nor with rediss://".into(),
                ));
            }
        };
        if rest.contains(['#', '?']) {
            return Err(UrlError(
                "the URL of Redis has a query or a fragment; neither is supported (write # and ? in a password as %23 and %3F)".into(),
            ));
        }
        // The library is built without its own TLS, and refuses rediss:// for that reason.
        let info = format!("redis://{rest}").into_connection_info();
        // The detail of its errors could repeat a part of the URL.
        let info = info.map_err(|_| {
            UrlError(
                "the URL of Redis is not of the form redis://[[user]:password@]host[:port][/database]".into(),
            )
        })?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(UrlError("the URL of Redis names no host".into()));
        };
        if info.redis_settings().username().is_some() && info.redis_settings().password().is_none() {
            return Err(UrlError("the URL of Redis names a user without a password".into()));
        }
        let database = info.redis_settings().db();
        if database < 0 {
            return Err(UrlError("the number of the database in the URL of Redis is negative".into()));
        }
        Ok(Self {
            host: host.clone(),
            port: *port,
            uses_tls,
            database,
            credentials: info.redis_settings().clone(),
        })
    }

    /// Refuses to send passwords and contents over a network without TLS.
    pub(crate) fn require_encryption(self) -> Result<Self, UrlError> {
        if self.uses_tls || self.is_loopback() {
            return Ok(self);
        }
        Err(UrlError(format!(
            "redis://{self} is not on this machine, and the connection is not encrypted; use rediss://, or \
             `Redis::at_unencrypted` if the network between is trusted"
        )))
    }

    fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn urls_name_user_password_and_database() {
        let address = Address::from_url("rediss://me:p%40ss@db.example:7000/3").unwrap();
        assert_eq!(address.to_string(), "db.example:7000");
        assert!(address.uses_tls);
        assert_eq!(address.database, 3);
        assert_eq!(address.credentials.username(), Some("me"));
        assert_eq!(address.credentials.password(), Some("p@ss"));
        let address = Address::from_url("redis://[::1]").unwrap();
        assert_eq!(address.to_string(), "[::1]:6379");
    }

    #[test]
    fn malformed_urls_are_refused_without_their_password() {
        let urls = [
            "",
            "localhost:6379",
            "http://localhost",
            "redis://",
            "redis://:hunter2@",
            "redis://hunter2@localhost",
            "redis://:hunter2@localhost:99999",
            "redis://:hunter2@localhost/first",
            "redis://:hunter2@localhost/-1",
            "redis://:hunter2@localhost#insecure",
            "redis://:hunter2@localhost?protocol=resp3",
            "unix:///hunter2",
        ];
        for url in urls {
            let error =
                Address::from_url(url).err().unwrap_or_else(|| UrlError(format!("{url} is accepted")));
            assert!(error.to_string().contains("Redis"), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn unencrypted_connections_stay_on_this_machine() {
        for url in ["redis://localhost", "redis://127.0.0.9:1", "redis://[::1]:1", "rediss://db.example"] {
            assert!(Address::from_url(url).unwrap().require_encryption().is_ok(), "{url}");
        }
        for url in
            ["redis://db.example", "redis://192.0.2.1", "redis://[2001:db8::1]", "redis://localhost.example"]
        {
            let error = Address::from_url(url).unwrap().require_encryption().err().unwrap();
            assert!(error.to_string().contains("rediss://"), "{error}");
        }
    }
}
