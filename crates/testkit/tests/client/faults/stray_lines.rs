//! Output of a child that is not a message.

use tsugite::client::{ConnectStep, ErrorKind};

use super::shell::{spawn, spawn_modern};
use super::{call, within, without_growing};

#[tokio::test]
async fn noise_between_messages_is_skipped() {
    // L-06
    let noise = [
        "echo 'Server running on stdio'",
        "echo; echo '   '; printf '\\r\\n'",
        "echo '{'; echo '}'; echo '[]'; echo '[1,2]'; echo null; echo 17; echo '\"text\"'",
        // Invalid UTF-8, a NUL, control characters.
        "printf '\\377\\376{}\\n'; printf '\\000\\n'; printf '\\001\\033[31m\\n'",
        "printf '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"a\":\"\\377\"}}\\n'",
        "printf '{\"jsonrpc\":\"2.0\",\"id\":2\\000,\"result\":{}}\\n'",
        // Messages of another protocol, and invalid messages.
        r#"echo '{"jsonrpc":"1.0","id":2,"result":{}}'; echo '{"id":2,"result":{}}'"#,
        r#"echo '{"jsonrpc":"2.0"}'; echo '{"jsonrpc":"2.0","id":2}'; echo '{"jsonrpc":"2.0","result":{}}'"#,
        r#"echo '{"jsonrpc":"2.0","id":2,"error":{"code":"x","message":1}}'"#,
        r#"echo '{"jsonrpc":"2.0","id":2,"id":2,"result":{}}'"#,
        r#"echo '{"jsonrpc":"2.0","id":2,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}'"#,
        r#"echo '{"jsonrpc":"2.0","method":7}'; echo '{"jsonrpc":"2.0","method":"x","params":[1]}'"#,
        r#"echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":"x"}}'"#,
    ];
    for noise in noise {
        let script = format!(
            "{noise}; read_line; {noise}; welcome; {noise}; read_line; {noise}; read_line; {noise}; answer 2 yes; {noise}; drain"
        );
        let client = within(spawn(&script)).await.unwrap_or_else(|error| panic!("{noise}: {error}"));
        assert_eq!(call(&client, "t").await.unwrap(), "yes", "{noise}");
    }
}

#[tokio::test]
async fn byte_order_mark_spoils_only_its_line() {
    let script =
        r#"printf '\357\273\277\n'; handshake; read_line; printf '\357\273\277\n'; answer 2 yes; drain"#;
    let client = within(spawn(script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
}

#[tokio::test]
async fn endless_nesting_is_skipped() {
    let deep = "head -c 200000 /dev/zero | tr '\\0' '['";
    let script = format!(
        r#"handshake; read_line; printf '{{"jsonrpc":"2.0","id":2,"result":'; {deep}; echo; {deep}; echo; answer 2 yes; drain"#
    );
    let client = within(spawn(&script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
    // The same with balanced brackets, which could be parsed.
    let deep = "head -c 100000 /dev/zero | tr '\\0' '['; head -c 100000 /dev/zero | tr '\\0' ']'";
    let script = format!(
        r#"handshake; read_line; printf '{{"jsonrpc":"2.0","id":2,"result":{{"content":'; {deep}; echo '}}}}'; answer 2 yes; drain"#
    );
    let client = within(spawn(&script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
}

#[tokio::test]
async fn line_of_two_gibibytes_is_skipped_without_buffering() {
    // L-05
    let script =
        r#"handshake; read_line; head -c 2147483648 /dev/zero | tr '\0' 'x'; echo; answer 2 yes; drain"#;
    let client = within(spawn(script).max_message_bytes(1 << 20)).await.unwrap();
    // A busy machine needs longer for this much than the default timeout.
    let call = client.call::<String>("t", ()).timeout(std::time::Duration::from_secs(600));
    assert_eq!(without_growing(call.into_future()).await.unwrap(), "yes");
}

#[tokio::test]
async fn message_over_the_size_limit_is_skipped() {
    // Whitespace between tokens counts toward the limit.
    let script = r#"
        handshake; read_line; printf '%-4097s\n' "$(answer 9 long)"; printf '%-4096s\n' "$(answer 2 fits)"; drain"#;
    let client = within(spawn(script).max_message_bytes(4096)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "fits");
}

#[tokio::test]
async fn endless_line_times_out() {
    // L-05
    for first in ["handshake", ":"] {
        let script = format!("{first}; read_line; tr '\\0' 'x' < /dev/zero");
        let client = match first {
            ":" => spawn_modern(&script),
            _ => spawn(&script),
        };
        let client = within(client.max_message_bytes(1 << 16)).await.unwrap();
        let call = client.call::<String>("t", ()).timeout(std::time::Duration::from_millis(200));
        let error = without_growing(within(call)).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
    }
}

#[tokio::test]
async fn endless_handshake_response_times_out() {
    let script = "read_line; tr '\\0' 'x' < /dev/zero";
    let connecting = spawn(script).max_message_bytes(1 << 16).timeout(std::time::Duration::from_millis(200));
    let error = without_growing(within(connecting)).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Connect { step: ConnectStep::FirstResponse, .. })
            && error.is_timeout(),
        "{error}"
    );
}
