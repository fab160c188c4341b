//! A client that logs in to protected servers of other projects, one case after the other: `peer-logins URL KEYS CASE...`.
//!
//! `KEYS` is the folder of the private keys. It reports `passed CASE`, or `failed CASE: REASON`. The cases:
//!
//! - the id of a client: `basic` and `post` have a secret, `key-ALGORITHM` signs assertions with its key. `+dpop` binds the
//!   token to a key;
//! - `wrong-secret`, `wrong-key`: the authorization server must refuse them;
//! - `person+dpop`: a person logs in at the address after `open`, and the client signs assertions. Logging out must make the
//!   refresh token useless;
//! - `signed`: verifies the tokens that the server has signed, some of which are forged.

use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;
use tsugite::client::{Client, FetchRequest, Fetcher};
use tsugite_auth::{
    Algorithm, ClientCredentials, Jwk, Login, Logout, MemoryStore, Prompt, SigningKey, Store,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, keys, cases @ ..] = args.as_slice() else {
        eprintln!("usage: peer-logins URL KEYS CASE...");
        return ExitCode::from(2);
    };
    for case in cases {
        match run(case, url, Path::new(keys)).await {
            Ok(()) => println!("passed {case}"),
            Err(reason) => println!("failed {case}: {reason}"),
        }
    }
    ExitCode::SUCCESS
}

async fn run(case: &str, url: &str, keys: &Path) -> Result<(), String> {
    match case {
        "signed" => verify_signed(url).await,
        "wrong-secret" => must_refuse(ClientCredentials::secret("basic", "another secret"), url).await,
        // The authorization server knows another key of this client.
        "wrong-key" => must_refuse(ClientCredentials::key("other-ES256", key("ES256", keys)?), url).await,
        "person+dpop" => person(url, keys).await,
        machine => log_in_without_person(machine, url, keys).await,
    }
}

async fn log_in_without_person(case: &str, url: &str, keys: &Path) -> Result<(), String> {
    let (id, scheme) = match case.strip_suffix("+dpop") {
        Some(id) => (id, "DPoP"),
        None => (case, "Bearer"),
    };
    let client = match id.strip_prefix("key-") {
        Some(algorithm) => ClientCredentials::key(id, key(algorithm, keys)?),
        None if id == "post" => ClientCredentials::secret(id, SECRET).secret_in_body(),
        None => ClientCredentials::secret(id, SECRET),
    };
    let login = Login::client_credentials(client);
    let login = if scheme == "DPoP" { login.dpop() } else { login };
    expect(&call(login, url).await?, &format!("you are {id} with {scheme}"))
}

async fn must_refuse(client: ClientCredentials, url: &str) -> Result<(), String> {
    match call(Login::client_credentials(client), url).await {
        Err(error) if error.contains("invalid_client") => Ok(()),
        Err(error) => Err(format!("another error: {error}")),
        Ok(text) => Err(format!("not refused: {text}")),
    }
}

async fn person(url: &str, keys: &Path) -> Result<(), String> {
    let agent = Prompt::new(|page| async move {
        println!("open {}", page.url);
        Ok(None)
    });
    let client = ClientCredentials::key("person", key("ES256", keys)?);
    let store = MemoryStore::new();
    let login = Login::with_agent("peer-logins", agent).client(client).dpop().store(store.clone());
    // The second call refreshes the token.
    for _ in 0..2 {
        let text = call(login.clone(), url).await?;
        if !text.starts_with("you are ") || !text.ends_with(" with DPoP") {
            return Err(format!("the server said: {text}"));
        }
    }
    let before = store.read().await.map_err(|error| error.to_string())?;
    match login.logout(url).await {
        Ok(Logout::Revoked) => {}
        other => return Err(format!("the logout ended with {other:?}")),
    }
    // The tokens of before are useless: the refresh token is revoked, and the access token has expired.
    let put_back = async { store.lock().await?.write(&before).await };
    put_back.await.map_err(|error| error.to_string())?;
    match call(login.ask_user(false), url).await {
        Err(_) => Ok(()),
        Ok(text) => Err(format!("the revoked token was accepted: {text}")),
    }
}

async fn call(login: Login, url: &str) -> Result<String, String> {
    let client = Client::builder(url).login(login).connect().await.map_err(|error| error.to_string())?;
    client.call("whoami", json!({})).await.map_err(|error| error.to_string())
}

/// A token of `/signed`.
#[derive(Deserialize)]
struct SignedToken {
    algorithm: String,
    jwk: Jwk,
    token: String,
    valid: bool,
}

async fn verify_signed(url: &str) -> Result<(), String> {
    let place = url.replace("/mcp", "/signed");
    let response = Fetcher::new().fetch(FetchRequest::get(place)).await.map_err(|error| error.to_string())?;
    let tokens: Vec<SignedToken> =
        serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
    for SignedToken { algorithm, jwk, token, valid } in &tokens {
        if jwk.verify_jwt(token, &[algorithm]).is_ok() != *valid {
            return Err(format!("{algorithm}: expected valid = {valid} of {token}"));
        }
    }
    let algorithms = tokens.iter().filter(|token| token.valid).count();
    // ES256, ES384, EdDSA, and two kinds of RSA with three digests.
    match (algorithms, tokens.len()) {
        (9, 27) => Ok(()),
        other => Err(format!("the server has signed {other:?} tokens")),
    }
}

fn key(algorithm: &str, keys: &Path) -> Result<SigningKey, String> {
    let file = match algorithm {
        "ES256" => "p256",
        "ES384" => "p384",
        "EdDSA" => "ed25519",
        _ => "rsa",
    };
    let file = keys.join(file).with_extension("pem");
    let pem = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let algorithm = Algorithm::from_name(algorithm).ok_or("an unknown algorithm")?;
    SigningKey::from_pem(&pem, algorithm).map_err(|error| error.to_string())
}

fn expect(text: &str, expected: &str) -> Result<(), String> {
    match text == expected {
        true => Ok(()),
        false => Err(format!("the server said: {text}")),
    }
}

/// Characters that change when they are encoded.
const SECRET: &str = "a secret: 100% & more";
