//! The grant `authorization_code`: a code for tokens, once, by the client that asked for it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tsugite::store::Precondition;

use super::{TokenCall, TokenGrant, invalid_grant, user_is_gone};
use crate::authorization_server::AuthorizationState;
use crate::authorization_server::http_message::{EndpointError, HttpResponse};
use crate::authorization_server::records::{FIELD, hex_digest};
use crate::authorization_server::users::EarlierLogin;
use crate::jose::sha256_text;
use crate::secret::Secret;

/// A code that was issued.
#[derive(Serialize, Deserialize)]
pub(in crate::authorization_server) struct CodeRecord {
    pub(in crate::authorization_server) client_id: String,
    /// The redirect URI that the client named, and has to name again.
    pub(in crate::authorization_server) redirect_uri: Option<String>,
    pub(in crate::authorization_server) scopes: Vec<String>,
    pub(in crate::authorization_server) resource: String,
    pub(in crate::authorization_server) code_challenge: String,
    pub(in crate::authorization_server) dpop_jkt: Option<String>,
    pub(in crate::authorization_server) subject: String,
    /// The generation of the user at the login.
    #[serde(default)]
    pub(in crate::authorization_server) generation: String,
    pub(in crate::authorization_server) authenticated_at: u64,
    /// The name of the login at the provider, for a user of the provider.
    #[serde(default)]
    pub(in crate::authorization_server) provider_grant: Option<String>,
    /// The name of the family of all tokens that come of the code.
    pub(in crate::authorization_server) family: String,
    pub(in crate::authorization_server) expires_at: u64,
}

impl CodeRecord {
    fn login(&self) -> EarlierLogin<'_> {
        let Self { subject, generation, provider_grant, .. } = self;
        EarlierLogin { subject, generation, provider_grant: provider_grant.as_deref() }
    }
}

impl AuthorizationState {
    pub(super) async fn exchange_code(
        self: &Arc<Self>,
        call: &TokenCall<'_>,
    ) -> Result<HttpResponse, EndpointError> {
        call.check_grant("authorization_code")?;
        let unknown = || invalid_grant("the code is unknown, used or expired");
        let code = call.form.get("code").ok_or_else(unknown)?;
        let key = self.records.key("code", code);
        let found = self.records.read::<CodeRecord>(&key, FIELD).await?;
        let record = found.map(|found| found.value).ok_or_else(unknown)?;
        if record.client_id != call.client.client_id {
            return Err(unknown().into());
        }
        if self.records.read::<bool>(&key, USED).await?.is_some() {
            self.revoke_family(&record.family).await?;
            return Err(unknown().into());
        }
        self.check_code(call, &record)?;
        // Before the code is used: if the provider cannot be asked now, the client may repeat its request.
        if !self.may_get_tokens(record.login()).await? {
            return Err(user_is_gone().into());
        }
        self.use_proof(call).await?;
        // Two exchanges at the same time are two uses, too.
        let ttl = std::time::Duration::from_secs(60 * 60);
        let is_first =
            self.records.write((&key, USED), &true, Precondition::FieldAbsentInRecord, ttl).await?;
        if !is_first {
            self.revoke_family(&record.family).await?;
            return Err(unknown().into());
        }
        self.keep_client(call.client).await?;
        let refresh_token = match call.client.may_use("refresh_token") {
            true => Some(self.start_family(call, &record).await?),
            false => None,
        };
        // A second use may have revoked the family before it was there.
        if self.records.exists("revoked", &hex_digest(&record.family)).await? {
            self.revoke_family(&record.family).await?;
            return Err(unknown().into());
        }
        let grant = TokenGrant {
            client_id: record.client_id,
            subject: record.subject,
            scopes: record.scopes,
            resource: record.resource,
            key: call.key.clone(),
            family: Some(hex_digest(&record.family)),
            authenticated_at: Some(record.authenticated_at),
        };
        self.token_response(&grant, refresh_token.as_deref()).await
    }

    fn check_code(&self, call: &TokenCall<'_>, record: &CodeRecord) -> Result<(), EndpointError> {
        if record.expires_at < self.clock.seconds() {
            return Err(invalid_grant("the code is unknown, used or expired").into());
        }
        if record.redirect_uri.is_some() && call.form.get("redirect_uri") != record.redirect_uri.as_deref() {
            return Err(invalid_grant("`redirect_uri` is not that of the request for the code").into());
        }
        let verifier = call.form.get("code_verifier").unwrap_or_default();
        let is_verifier = (43..=128).contains(&verifier.len());
        if !is_verifier || Secret::new(sha256_text(verifier)) != Secret::from(record.code_challenge.as_str())
        {
            return Err(invalid_grant("`code_verifier` does not belong to the code").into());
        }
        if record.dpop_jkt.is_some() && record.dpop_jkt != call.key {
            return Err(invalid_grant("the code is bound to another key").into());
        }
        Ok(self.check_resource(call, &record.resource)?)
    }
}

/// The field that says that a code was used.
const USED: &str = "used";
