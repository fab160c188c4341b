//! Bearer tokens: which requests are let in, and who sent them.

use std::task::{Context, Poll};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::maybe_ready::MaybeReady;
use super::response_body::HttpBody;
use super::responses::status_error;
use super::token_verifier::{Verifier, VerifyError};
use crate::error::Chain;
use crate::server::Principal;
use crate::shared::log;

/// Verifies the token of a request. The error is the response.
pub(super) fn authenticate(
    verifier: &Verifier,
    headers: &HeaderMap,
    cx: &mut Context<'_>,
) -> MaybeReady<Result<Principal, Response<HttpBody>>> {
    let token = match bearer_token(headers) {
        Ok(token) => token,
        Err(challenge) => return MaybeReady::Ready(Err(unauthorized(challenge))),
    };
    let mut verifying = verifier.0.verify(token);
    match verifying.as_mut().poll(cx) {
        Poll::Ready(verified) => MaybeReady::Ready(verified.map_err(refuse)),
        Poll::Pending => MaybeReady::pending(async move { verifying.await.map_err(refuse) }),
    }
}

/// The token of the only `Authorization` header, or the challenge for a request without one.
fn bearer_token(headers: &HeaderMap) -> Result<String, &'static str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err("Bearer") };
    let (scheme, token) = value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or("Bearer")?;
    match scheme.eq_ignore_ascii_case("bearer") {
        true => Ok(token.trim().to_owned()),
        false => Err("Bearer"),
    }
}

fn refuse(error: VerifyError) -> Response<HttpBody> {
    match error {
        VerifyError::InvalidToken => unauthorized("Bearer error=\"invalid_token\""),
        VerifyError::Unavailable(source) => {
            log::error!(error = %Chain(&*source), "a token could not be checked");
            let text = "The token could not be checked; try again later";
            status_error(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }
}

fn unauthorized(challenge: &'static str) -> Response<HttpBody> {
    let text = "Unauthorized: this server needs a valid token in `Authorization: Bearer …`";
    let mut response = status_error(StatusCode::UNAUTHORIZED, text);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        bearer_token(&headers).ok()
    }

    #[test]
    fn token_stands_in_one_bearer_header() {
        assert_eq!(token(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(token(&["bearer  abc "]).as_deref(), Some("abc"));
        for refused in [&[][..], &["Basic abc"], &["Bearer"], &["Bearer a", "Bearer a"]] {
            assert_eq!(token(refused), None, "{refused:?}");
        }
    }
}
