//! Checks that the tool uses and tool results of a conversation match.

use std::collections::HashSet;

use super::Role;
use super::content::SamplingBlock;
use super::sampling::{CreateMessageParams, SamplingMessage};

impl CreateMessageParams {
    /// Checks that each tool use is answered in the next message, which comes from the user and contains nothing but tool
    /// results. An error says what is wrong.
    pub fn check_tool_results(&self) -> Result<(), String> {
        check(&self.messages)
    }
}

fn check(messages: &[SamplingMessage]) -> Result<(), String> {
    let mut open: HashSet<&str> = HashSet::new();
    for message in messages {
        let answered = tool_result_ids(message)?;
        if answered != open {
            return Err(
                "each tool use must be followed by its result in the next message, and by nothing else"
                    .to_owned(),
            );
        }
        open = tool_use_ids(message)?;
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err("a tool use has no result".to_owned()),
    }
}

/// Returns the tool uses that a message answers. A message with tool results holds nothing else and comes from the user.
fn tool_result_ids(message: &SamplingMessage) -> Result<HashSet<&str>, String> {
    let blocks = message.content.as_slice();
    let answered: Vec<&str> = blocks.iter().filter_map(tool_result_id).collect();
    if !answered.is_empty() && (answered.len() < blocks.len() || message.role != Role::User) {
        return Err("a message with tool results must contain nothing else and come from the user".to_owned());
    }
    let unique: HashSet<&str> = answered.iter().copied().collect();
    match unique.len() == answered.len() {
        true => Ok(unique),
        false => Err("a tool use has two results".to_owned()),
    }
}

fn tool_result_id(block: &SamplingBlock) -> Option<&str> {
    match block {
        SamplingBlock::ToolResult(result) => Some(&result.tool_use_id),
        _ => None,
    }
}

/// Returns the tool uses of a message. Only the assistant uses tools.
fn tool_use_ids(message: &SamplingMessage) -> Result<HashSet<&str>, String> {
    let ids = message.content.as_slice().iter().filter_map(|block| match block {
        SamplingBlock::ToolUse(tool) => Some(tool.id.as_str()),
        _ => None,
    });
    let ids: HashSet<&str> = ids.collect();
    match ids.is_empty() || message.role == Role::Assistant {
        true => Ok(ids),
        false => Err("only the assistant uses tools".to_owned()),
    }
}
