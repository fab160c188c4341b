//! The test vectors of Project Wycheproof against the verification of signatures.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tsugite::base64::encode_url;
use tsugite_auth::Jwk;
use wycheproof::TestResult;

/// Verifies a signature as the vector expects. Returns 1, to be counted.
fn check(
    jwk: &Value,
    algorithm: &str,
    message: &[u8],
    signature: &[u8],
    expected: TestResult,
    id: usize,
) -> usize {
    let jwk: Jwk = serde_json::from_value(jwk.clone()).unwrap();
    let verified = jwk.verify(algorithm, message, signature).is_ok();
    match expected {
        TestResult::Valid => assert!(verified, "{algorithm} {id} is valid"),
        TestResult::Invalid => assert!(!verified, "{algorithm} {id} is invalid"),
        TestResult::Acceptable => {}
    }
    1
}

#[test]
fn vectors_of_ecdsa_are_judged_right() {
    use wycheproof::ecdsa::{TestName, TestSet};
    let mut count = 0;
    for (name, curve, algorithm) in [
        (TestName::EcdsaSecp256r1Sha256P1363, "P-256", "ES256"),
        (TestName::EcdsaSecp384r1Sha384P1363, "P-384", "ES384"),
    ] {
        for group in TestSet::load(name).unwrap().test_groups {
            let point = &group.key.key[1..];
            let (x, y) = point.split_at(point.len() / 2);
            let jwk = json!({"kty": "EC", "crv": curve, "x": encode_url(x), "y": encode_url(y)});
            for test in group.tests {
                count += check(&jwk, algorithm, &test.msg, &test.sig, test.result, test.tc_id);
            }
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn vectors_of_ed25519_are_judged_right() {
    use wycheproof::eddsa::{TestName, TestSet};
    let mut count = 0;
    for group in TestSet::load(TestName::Ed25519).unwrap().test_groups {
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": encode_url(&group.key.pk)});
        for test in group.tests {
            count += check(&jwk, "EdDSA", &test.msg, &test.sig, test.result, test.tc_id);
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn vectors_of_rsa_are_judged_right() {
    use wycheproof::{rsa_pkcs1_verify, rsa_pss_verify};
    let mut count = 0;
    for (name, algorithm) in [
        (rsa_pkcs1_verify::TestName::Rsa2048Sha256, "RS256"),
        (rsa_pkcs1_verify::TestName::Rsa2048Sha384, "RS384"),
        (rsa_pkcs1_verify::TestName::Rsa2048Sha512, "RS512"),
        (rsa_pkcs1_verify::TestName::Rsa4096Sha256, "RS256"),
    ] {
        for group in rsa_pkcs1_verify::TestSet::load(name).unwrap().test_groups {
            let jwk = json!({"kty": "RSA", "n": encode_url(&group.key.n), "e": encode_url(&group.key.e)});
            for test in group.tests {
                count += check(&jwk, algorithm, &test.msg, &test.sig, test.result, test.tc_id);
            }
        }
    }
    for (name, algorithm) in [
        (rsa_pss_verify::TestName::RsaPss2048Sha256Mgf1SaltLen32, "PS256"),
        (rsa_pss_verify::TestName::RsaPss2048Sha384Mgf1SaltLen48, "PS384"),
        (rsa_pss_verify::TestName::RsaPss4096Sha512Mgf1SaltLen64, "PS512"),
    ] {
        for group in rsa_pss_verify::TestSet::load(name).unwrap().test_groups {
            let jwk = json!({"kty": "RSA", "n": encode_url(&group.key.n), "e": encode_url(&group.key.e)});
            for test in group.tests {
                count += check(&jwk, algorithm, &test.msg, &test.sig, test.result, test.tc_id);
            }
        }
    }
    assert!(count > 900, "{count}");
}
