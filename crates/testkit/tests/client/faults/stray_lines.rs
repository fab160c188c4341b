//! Output of a child that is not a message.

use tsugite::client::{ConnectStep, ErrorKind};

use super::script::{spawn, spawn_modern};
use super::{call, within, without_growing};

#[tokio::test]
async fn noise_between_messages_is_skipped() {
    // L-06
    let noise = [
        "send_line 'Server running on stdio'",
        r"send_line ''; send_line '   '; print '\r\n'",
        r#"send_line '{'; send_line '}'; send_line []; send_line [1,2]; send_line null; send_line 17; send_line '"text"'"#,
        // Invalid UTF-8, a NUL, control characters.
        r"print '\xff\xfe{}\n'; print '\x00\n'; print '\x01\x1b[31m\n'",
        r#"print '{"jsonrpc":"2.0","id":2,"result":{"a":"\xff"}}\n'"#,
        r#"print '{"jsonrpc":"2.0","id":2\x00,"result":{}}\n'"#,
        // Messages of another protocol, and invalid messages.
        r#"send_line '{"jsonrpc":"1.0","id":2,"result":{}}'; send_line '{"id":2,"result":{}}'"#,
        r#"send_line '{"jsonrpc":"2.0"}'; send_line '{"jsonrpc":"2.0","id":2}'; send_line '{"jsonrpc":"2.0","result":{}}'"#,
        r#"send_line '{"jsonrpc":"2.0","id":2,"error":{"code":"x","message":1}}'"#,
        r#"send_line '{"jsonrpc":"2.0","id":2,"id":2,"result":{}}'"#,
        r#"send_line '{"jsonrpc":"2.0","id":2,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}'"#,
        r#"send_line '{"jsonrpc":"2.0","method":7}'; send_line '{"jsonrpc":"2.0","method":"x","params":[1]}'"#,
        r#"send_line '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":"x"}}'"#,
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
    let script = r"print '\xef\xbb\xbf\n'; handshake; read_line; print '\xef\xbb\xbf\n'; answer 2 yes; drain";
    let client = within(spawn(script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
}

#[tokio::test]
async fn endless_nesting_is_skipped() {
    let deep = "repeat 200000 { print [ }; print '\\n'";
    let script = format!(
        r#"handshake; read_line; print '{{"jsonrpc":"2.0","id":2,"result":'; {deep}; {deep}; answer 2 yes; drain"#
    );
    let client = within(spawn(&script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
    // The same with balanced brackets, which could be parsed.
    let deep = "repeat 100000 { print [ }; repeat 100000 { print ] }";
    let script = format!(
        r#"handshake; read_line; print '{{"jsonrpc":"2.0","id":2,"result":{{"content":'; {deep}; send_line '}}}}'; answer 2 yes; drain"#
    );
    let client = within(spawn(&script)).await.unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "yes");
}

#[tokio::test]
async fn line_of_two_gibibytes_is_skipped_without_buffering() {
    // L-05
    let kibibytes = "x".repeat(16 << 10);
    let script = format!(
        "handshake; read_line; repeat 131072 {{ print {kibibytes} }}; print '\\n'; answer 2 yes; drain"
    );
    let client = within(spawn(&script).max_message_bytes(1 << 20)).await.unwrap();
    // A busy machine needs longer for this much than the default timeout.
    let call = client.call::<String>("t", ()).timeout(std::time::Duration::from_secs(600));
    assert_eq!(without_growing(call.into_future()).await.unwrap(), "yes");
}

#[tokio::test]
async fn message_over_the_size_limit_is_skipped() {
    // Whitespace between tokens counts toward the limit.
    let padded = |id: u32, text: &str, length: usize| {
        let answer = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        );
        format!("send_line '{answer:<length$}'")
    };
    let (long, fits) = (padded(9, "long", 4097), padded(2, "fits", 4096));
    let client =
        within(spawn(&format!("handshake; read_line; {long}; {fits}; drain")).max_message_bytes(4096))
            .await
            .unwrap();
    assert_eq!(call(&client, "t").await.unwrap(), "fits");
}

#[tokio::test]
async fn endless_line_times_out() {
    // L-05
    for first in ["handshake", ""] {
        let script = format!("{first}; read_line; repeat forever {{ print xxxxxxxxxxxxxxxx }}");
        let client = match first {
            "" => spawn_modern(&script),
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
    let script = "read_line; repeat forever { print xxxxxxxxxxxxxxxx }";
    let connecting = spawn(script).max_message_bytes(1 << 16).timeout(std::time::Duration::from_millis(200));
    let error = without_growing(within(connecting)).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Connect { step: ConnectStep::FirstResponse, .. })
            && error.is_timeout(),
        "{error}"
    );
}
