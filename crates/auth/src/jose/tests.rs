//! The examples of the RFCs, and signatures of our own keys.

use serde_json::{Value, json};
use tsugite::base64;

use super::{Algorithm, Jwk, SigningKey, sha256_text};

fn jwk(value: Value) -> Jwk {
    serde_json::from_value(value).unwrap()
}

/// The payload of RFC 7515, A.2 and A.3.
const PAYLOAD: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

fn rfc7515_ec_key() -> Jwk {
    jwk(json!({
        "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }))
}

fn rfc7515_ec_token() -> String {
    let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    format!("eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}.{signature}")
}

#[test]
fn examples_of_rfc_7515_are_verified() {
    let (header, claims) = rfc7515_ec_key().verify_jwt(&rfc7515_ec_token(), &["ES256"]).unwrap();
    assert_eq!((header["alg"].as_str(), claims["iss"].as_str()), (Some("ES256"), Some("joe")));
    let rsa = jwk(json!({
        "kty": "RSA", "e": "AQAB",
        "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-\
              pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg\
              665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRW\
              yuXpoQ",
    }));
    let signature = "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdb\
              F9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--\
              xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlU\
              PQGe77Rw";
    let token = format!("eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}.{signature}");
    assert!(rsa.verify_jwt(&token, &["RS256"]).is_ok());
    assert!(rsa.verify_jwt(&token, &["ES256"]).is_err());
}

#[test]
fn example_of_rfc_8037_is_verified() {
    let key =
        jwk(json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}));
    let input = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let signature = base64::decode_url(signature).unwrap();
    assert!(key.verify("EdDSA", input.as_bytes(), &signature).is_ok());
    assert!(key.verify("EdDSA", &input.as_bytes()[1..], &signature).is_err());
}

#[test]
fn example_of_rfc_9449_is_verified() {
    let token = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0Rs\
              cEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.e\
              yJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0Ijox\
              NTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg";
    let head = base64::decode_url(token.split('.').next().unwrap()).unwrap();
    let head: Value = serde_json::from_slice(&head).unwrap();
    let (_, claims) = jwk(head["jwk"].clone()).verify_jwt(token, &["ES256"]).unwrap();
    assert_eq!(claims["htu"], "https://server.example.com/token");
}

#[test]
fn example_of_rfc_7636_is_reproduced() {
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    assert_eq!(sha256_text(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
}

#[test]
fn forged_tokens_are_refused() {
    let (key, good) = (rfc7515_ec_key(), rfc7515_ec_token());
    let (input, signature) = good.rsplit_once('.').unwrap();
    let none = "eyJhbGciOiJub25lIn0";
    let hmac = "eyJhbGciOiJIUzI1NiJ9";
    for token in [
        format!("{none}.{PAYLOAD}."),
        format!("{none}.{PAYLOAD}.{signature}"),
        format!("{hmac}.{PAYLOAD}.{signature}"),
        format!("{input}."),
        format!("{input}.{}", "A".repeat(86)),
        format!("{input}x.{signature}"),
        format!("{good}="),
        format!("{good}.x"),
        input.to_owned(),
        String::new(),
    ] {
        for algorithms in [&["ES256"][..], &["ES256", "none", "HS256", "RS256"]] {
            assert!(key.verify_jwt(&token, algorithms).is_err(), "{token}");
        }
    }
    let only = Jwk { alg: Some("ES384".to_owned()), ..key.clone() };
    assert!(only.verify_jwt(&good, &["ES256"]).is_err());
    let short = Jwk { x: Some(base64::encode_url(&[1; 31])), ..key };
    assert!(short.verify_jwt(&good, &["ES256"]).is_err());
}

#[test]
fn tokens_that_need_an_unknown_extension_are_refused() {
    let (key, _) = SigningKey::generate().unwrap();
    let public = jwk(key.public_jwk().unwrap());
    let sign = |header: &[(&str, Value)]| key.sign_jwt(header, &[("sub", json!("x"))]).unwrap();
    assert!(public.verify_jwt(&sign(&[]), &["ES256"]).is_ok());
    assert!(public.verify_jwt(&sign(&[("crit", json!(["b64"]))]), &["ES256"]).is_err());
}

#[test]
fn keys_of_every_kind_sign() {
    for (algorithm, pem) in [
        (Algorithm::Es256, include_str!("../../tests/data/p256.pem")),
        (Algorithm::Es384, include_str!("../../tests/data/p384.pem")),
        (Algorithm::EdDsa, include_str!("../../tests/data/ed25519.pem")),
        (Algorithm::Rs256, include_str!("../../tests/data/rsa.pem")),
        (Algorithm::Rs384, include_str!("../../tests/data/rsa.pem")),
        (Algorithm::Rs512, include_str!("../../tests/data/rsa.pem")),
        (Algorithm::Ps256, include_str!("../../tests/data/rsa.pem")),
        (Algorithm::Ps384, include_str!("../../tests/data/rsa.pem")),
        (Algorithm::Ps512, include_str!("../../tests/data/rsa.pem")),
    ] {
        let key = SigningKey::from_pem(pem, algorithm).unwrap().key_id("k");
        let public = jwk(key.public_jwk().unwrap());
        let token = key.sign_jwt(&[("typ", json!("JWT"))], &[("sub", json!("x"))]).unwrap();
        let (header, claims) = public.verify_jwt(&token, &[algorithm.name()]).unwrap();
        assert_eq!((header["kid"].as_str(), claims["sub"].as_str()), (Some("k"), Some("x")), "{algorithm:?}");
        assert_eq!(format!("{key:?}"), format!("SigningKey {{ algorithm: {algorithm:?}, .. }}"));
        assert_eq!(Algorithm::from_name(algorithm.name()), Some(algorithm));
    }
}

#[test]
fn unfit_private_keys_are_refused() {
    let p256 = include_str!("../../tests/data/p256.pem");
    for (pem, algorithm) in [
        (p256, Algorithm::Rs256),
        (p256, Algorithm::Es384),
        ("", Algorithm::Es256),
        ("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----", Algorithm::Es256),
    ] {
        let error = SigningKey::from_pem(pem, algorithm).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn examples_of_thumbprints_are_reproduced() {
    // RFC 7638, 3.1; RFC 8037, A.3
    let n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMs\
             tn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5haj\
             rn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";
    let rsa = jwk(json!({"kty": "RSA", "n": n, "e": "AQAB", "alg": "RS256", "kid": "2011-04-29"}));
    assert_eq!(rsa.thumbprint().as_deref(), Ok("NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"));
    let okp =
        jwk(json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}));
    assert_eq!(okp.thumbprint().as_deref(), Ok("kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"));
    for malformed in
        [json!({"kty": "RSA", "n": "\"", "e": "AQAB"}), json!({"kty": "EC"}), json!({"kty": "oct"})]
    {
        assert!(jwk(malformed).thumbprint().is_err());
    }
}
