//! Content blocks: audio came with 2025-03-26, links to resources with 2025-06-18.

use super::super::Revision::*;
use super::super::{Revision, Translate, UnsupportedByRevisionError};
use super::{fit_annotations, fit_icons, fit_inner_meta};
use crate::protocol::content::{
    Audio, ContentBlock, EmbeddedResource, ResourceContents, ResourceLink, SamplingBlock, Text,
};

impl Translate for ContentBlock {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        match self {
            ContentBlock::Audio(audio) if to < V2025_03_26 => {
                *self = ContentBlock::Resource(audio_as_resource(audio))
            }
            ContentBlock::ResourceLink(link) if to < V2025_06_18 => {
                *self = ContentBlock::Text(link_as_text(link))
            }
            _ => {}
        }
        match self {
            ContentBlock::Text(text) => fit_text(text, to),
            ContentBlock::Image(image) => {
                fit_annotations(&mut image.annotations, to);
                fit_inner_meta(&mut image.meta, to);
            }
            ContentBlock::Audio(audio) => fit_audio(audio, to),
            ContentBlock::ResourceLink(link) => fit_icons(&mut link.icons, to),
            ContentBlock::Resource(embedded) => {
                fit_annotations(&mut embedded.annotations, to);
                fit_inner_meta(&mut embedded.meta, to);
                embedded.resource.downgrade(to)?;
            }
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for ResourceContents {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_inner_meta(&mut self.meta, to);
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for SamplingBlock {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        match self {
            // Sampling messages have no embedded resources to hold the audio; a text tells the model that it is
            // missing.
            SamplingBlock::Audio(audio) if to < V2025_03_26 => {
                let note =
                    format!("[audio of type {} left out: the protocol in use has no audio]", audio.mime_type);
                *self = SamplingBlock::text(note);
            }
            SamplingBlock::ToolUse(_) | SamplingBlock::ToolResult(_) if !to.has_sampling_tools() => {
                return Err(UnsupportedByRevisionError::SamplingTools);
            }
            _ => {}
        }
        match self {
            SamplingBlock::Text(text) => fit_text(text, to),
            SamplingBlock::Image(image) => {
                fit_annotations(&mut image.annotations, to);
                fit_inner_meta(&mut image.meta, to);
            }
            SamplingBlock::Audio(audio) => fit_audio(audio, to),
            SamplingBlock::ToolUse(_) => {}
            SamplingBlock::ToolResult(result) => {
                super::tools::fit_structured(&mut result.structured_content, &mut result.content, to);
                result.content.iter_mut().try_for_each(|block| block.downgrade(to))?;
            }
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

fn fit_text(text: &mut Text, to: Revision) {
    fit_annotations(&mut text.annotations, to);
    fit_inner_meta(&mut text.meta, to);
}

fn fit_audio(audio: &mut Audio, to: Revision) {
    fit_annotations(&mut audio.annotations, to);
    fit_inner_meta(&mut audio.meta, to);
}

/// Embeds audio as a resource with a made-up URI.
fn audio_as_resource(audio: &Audio) -> EmbeddedResource {
    let contents =
        ResourceContents::blob("attachment:audio", audio.data.as_str()).mime_type(audio.mime_type.as_str());
    let mut embedded = EmbeddedResource::new(contents);
    embedded.annotations.clone_from(&audio.annotations);
    embedded
}

fn link_as_text(link: &ResourceLink) -> Text {
    let name = link.title.as_deref().unwrap_or(&link.name);
    let mut words = format!("{name}: {}", link.uri);
    if let Some(description) = &link.description {
        words.push('\n');
        words.push_str(description);
    }
    let mut text = Text::new(words);
    text.annotations.clone_from(&link.annotations);
    text
}
