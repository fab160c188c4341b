//! Sampling: arrays of blocks, tools and `_meta` on messages came with 2025-11-25.

use super::super::Revision::*;
use super::super::{Revision, Translate, UnsupportedByRevisionError};
use crate::protocol::content::SamplingBlock;
use crate::protocol::sampling::{CreateMessageParams, CreateMessageResult, SamplingContent, SamplingMessage};

impl Translate for CreateMessageParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if to < V2025_11_25 {
            if self.tools.take().is_some_and(|tools| !tools.is_empty()) {
                return Err(UnsupportedByRevisionError::SamplingTools);
            }
            self.tool_choice = None;
            self.messages = std::mem::take(&mut self.messages).into_iter().flat_map(split_blocks).collect();
        }
        if !to.has_core_tasks() {
            self.task = None;
        }
        // Inside a result there is no request that `_meta` could belong to.
        if to.is_stateless() {
            self.meta = None;
        }
        for tool in self.tools.iter_mut().flatten() {
            tool.downgrade(to)?;
        }
        self.messages.iter_mut().try_for_each(|message| fit_blocks(&mut message.content, to))
    }

    fn upgrade(&mut self, from: Revision) {
        for tool in self.tools.iter_mut().flatten() {
            tool.upgrade(from);
        }
    }
}

fn split_blocks(message: SamplingMessage) -> impl Iterator<Item = SamplingMessage> {
    let role = message.role;
    message.content.into_vec().into_iter().map(move |block| SamplingMessage::new(role, block))
}

impl Translate for CreateMessageResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_blocks(&mut self.content, to)?;
        if to < V2025_11_25 {
            let blocks =
                std::mem::replace(&mut self.content, SamplingContent::Multiple(Vec::new())).into_vec();
            self.content = SamplingContent::Single(merge_blocks(blocks));
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

/// Merges blocks where only one is allowed: all texts joined, or the first block if there is no text.
fn merge_blocks(blocks: Vec<SamplingBlock>) -> SamplingBlock {
    if blocks.len() == 1 || !blocks.iter().any(|block| matches!(block, SamplingBlock::Text(_))) {
        return blocks.into_iter().next().unwrap_or_else(|| SamplingBlock::text(""));
    }
    let words: Vec<_> = blocks
        .iter()
        .filter_map(|block| match block {
            SamplingBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    SamplingBlock::text(words.join("\n"))
}

fn fit_blocks(blocks: &mut SamplingContent, to: Revision) -> Result<(), UnsupportedByRevisionError> {
    match blocks {
        SamplingContent::Single(block) => block.downgrade(to),
        SamplingContent::Multiple(blocks) => blocks.iter_mut().try_for_each(|block| block.downgrade(to)),
    }
}
