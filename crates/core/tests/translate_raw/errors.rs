//! Translation of error codes.

use tsugite_core::jsonrpc::{ErrorObject, RawJson};
use tsugite_core::revision::Revision::*;
use tsugite_core::revision::{Revision, translate_raw_error};

fn error(code: i64, data: &str) -> ErrorObject {
    let mut error = ErrorObject::new(code, "as it was said");
    error.data = (!data.is_empty()).then(|| RawJson::parse(data).unwrap());
    error
}

/// The number and the data it has then; the message must be the same.
#[track_caller]
fn translated(code: i64, data: &str, method: &str, from: Revision, to: Revision) -> (i64, String) {
    let error = translate_raw_error(error(code, data), method, from, to);
    assert_eq!(error.message, "as it was said");
    (error.code, error.data.map(|data| data.text().to_owned()).unwrap_or_default())
}

fn older() -> impl Iterator<Item = Revision> {
    Revision::ALL.into_iter().filter(|revision| !revision.is_stateless())
}

#[test]
fn error_is_unchanged_where_its_code_means_the_same() {
    let data = r#"{"uri":"a:b", "x":1.0}"#;
    let codes = [-32700, -32600, -32601, -32602, -32603, -32002, -32000, -32042, -32021, -1, 0, 7, -32801];
    for from in Revision::ALL {
        for code in codes {
            for method in ["tools/call", "resources/read", "no/such"] {
                assert_eq!(translated(code, data, method, from, from), (code, data.to_owned()));
            }
        }
        for to in Revision::ALL {
            for code in [-32700, -32600, -32601, -32603, -1, 0, 7, -32801] {
                for method in ["tools/call", "resources/read", "no/such"] {
                    assert_eq!(
                        translated(code, data, method, from, to),
                        (code, data.to_owned()),
                        "{from} {to}"
                    );
                }
            }
        }
    }
    for from in older() {
        for to in older() {
            for code in [-32002, -32000, -32020, -32021, -32022, -32099] {
                assert_eq!(translated(code, data, "resources/read", from, to), (code, data.to_owned()));
            }
        }
    }
}

#[test]
fn missing_resource_has_its_own_code_in_handshake_revisions() {
    let data = r#"{"x":1.0,"uri":"a:b"}"#;
    for older in older() {
        for data in [data, "", "1.0", "{}"] {
            let translate = translated(-32002, data, "resources/read", older, V2026_07_28);
            assert_eq!(translate, (-32602, data.to_owned()));
        }
        let translate = |data: &str, method: &str| translated(-32602, data, method, V2026_07_28, older);
        assert_eq!(translate(data, "resources/read"), (-32002, data.to_owned()));
        // An error without the URI may mean anything.
        for other in ["", "{}", "[\"a:b\"]", r#"{"uri":1}"#] {
            assert_eq!(translate(other, "resources/read"), (-32602, other.to_owned()));
        }
        assert_eq!(translate(data, "tools/call"), (-32602, data.to_owned()));
        // A server that lags behind.
        assert_eq!(translated(-32002, data, "resources/read", V2026_07_28, older), (-32002, data.to_owned()));
    }
}

#[test]
fn codes_reserved_by_2026_07_28_are_replaced() {
    let data = r#"{"x":1.0}"#;
    for older in older() {
        for code in [-32000, -32001, -32020, -32022, -32099] {
            assert_eq!(translated(code, data, "tools/call", older, V2026_07_28), (-32603, data.to_owned()));
        }
        let translate = |code, data: &str| translated(code, data, "tools/call", V2026_07_28, older);
        assert_eq!(translate(-32020, data), (-32600, data.to_owned()));
        let versions = r#"{"supported":["2026-07-28","later"],"requested":"1","x":1.0}"#;
        assert_eq!(translate(-32022, versions), (-32602, versions.to_owned()));
        let capability = r#"{"requiredCapabilities":{"sampling":{},"x":1.0},"y":1}"#;
        assert_eq!(translate(-32021, capability), (-32602, capability.to_owned()));
        // Older revisions leave these codes to the server.
        assert_eq!(translate(-32021, "1"), (-32021, "1".to_owned()));
    }
}

#[test]
fn url_elicitation_code_exists_only_on_2025_11_25() {
    let page = r#"{"mode":"url","message":"m","url":"a:b","elicitationId":"e","x":1.0}"#;
    let data = format!(r#"{{"elicitations":[{page}],"y":1.0}}"#);
    let more = format!(
        r#"{{"elicitations":[{page}],"y":1.0,"requiredCapabilities":{{"elicitation":{{"url":{{}}}}}}}}"#
    );
    let translate = |to| translated(-32042, &data, "tools/call", V2025_11_25, to);
    assert_eq!(translate(V2026_07_28), (-32021, more.clone()));
    assert_eq!(translate(V2025_06_18), (-32602, more));
    assert_eq!(translated(-32042, "{}", "tools/call", V2025_11_25, V2026_07_28), (-32603, "{}".to_owned()));
    assert_eq!(translated(-32042, &data, "tools/call", V2025_06_18, V2026_07_28), (-32603, data.clone()));
}
