//! The tool of all servers, in the form of each revision.

use serde_json::{Value, json};

use crate::message::Rev;

/// The name of the tool.
pub(crate) const NAME: &str = "do-it";

/// Returns the tool of a server of this revision, with all fields of the revision and unknown ones.
pub(crate) fn offered(rev: Rev) -> Value {
    described(rev, rev)
}

/// Returns the tool of a server of `from` as a client of `to` must see it.
pub(crate) fn described(from: Rev, to: Rev) -> Value {
    let both = from.min(to);
    let mut tool = json!({
        "name": NAME,
        "description": "Runs an action — いつでも",
        "inputSchema": {
            "type": "object",
            "properties": {"do": {"type": "string", "x-unknown": [1]}, "cell": {"type": "string"}},
            "required": ["do"],
        },
    });
    if both >= Rev::Mar25 {
        tool["annotations"] = json!({"readOnlyHint": true, "x-unknown": 2.0});
    }
    // 2025-03-26 has the title among the annotations.
    match both {
        Rev::Nov24 => {}
        _ if to == Rev::Mar25 => tool["annotations"]["title"] = json!("Do it"),
        _ => tool["title"] = json!("Do it"),
    }
    if both >= Rev::Jun25 {
        tool["outputSchema"] = json!({"type": "object", "properties": {"cell": {"type": "string"}}});
        tool["_meta"] = json!({"com.example/shelf": 12345678901234567890_u64});
    }
    if both >= Rev::Nov25 {
        tool["icons"] = json!([{"src": "data:image/png;base64,AA==", "mimeType": "image/png"}]);
    }
    if from == Rev::Nov25 && to == Rev::Nov25 {
        tool["execution"] = json!({"taskSupport": "forbidden"});
    }
    tool["x-unknown"] = json!({"kept": [null, 1, "ü"]});
    tool
}
