//! Capabilities and descriptions of client and server, in the handshake and in discover.

use super::super::Revision::*;
use super::super::{Revision, Translate, UnsupportedByRevisionError};
use super::{fit_cache, fit_icons, fit_title};
use crate::protocol::capabilities::TasksCapability;
use crate::protocol::discover::DiscoverResult;
use crate::protocol::lifecycle::{InitializeParams, InitializeResult};
use crate::protocol::meta::ClientMeta;
use crate::protocol::{ClientCapabilities, Implementation, Object, ServerCapabilities, tasks};

impl Translate for Implementation {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_title(&mut self.title, to);
        fit_icons(&mut self.icons, to);
        if to < V2025_11_25 {
            self.description = None;
            self.website_url = None;
        }
        Ok(())
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for ClientCapabilities {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if let Some(roots) = &mut self.roots
            && to.is_stateless()
        {
            roots.list_changed = None;
        }
        if to < V2025_11_25 {
            if let Some(sampling) = &mut self.sampling {
                sampling.tools = None;
                sampling.context = None;
            }
            // A client without forms has no elicitation there.
            self.elicitation.take_if(|elicitation| !to.has_elicitation() || !elicitation.supports_form());
            if let Some(elicitation) = &mut self.elicitation {
                elicitation.form = None;
                elicitation.url = None;
            }
        }
        fit_tasks(&mut self.tasks, &mut self.extensions, to);
        Ok(())
    }

    fn upgrade(&mut self, from: Revision) {
        fit_tasks(&mut self.tasks, &mut self.extensions, from);
    }
}

impl Translate for ServerCapabilities {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if !to.declares_completion() {
            self.completions = None;
        }
        fit_tasks(&mut self.tasks, &mut self.extensions, to);
        Ok(())
    }

    fn upgrade(&mut self, from: Revision) {
        fit_tasks(&mut self.tasks, &mut self.extensions, from);
    }
}

/// Tasks are a capability of 2025-11-25 and an extension of 2026-07-28. Other extensions are used on older revisions
/// too, but this one must not enable tasks there.
fn fit_tasks(tasks: &mut Option<TasksCapability>, extensions: &mut Option<Object>, revision: Revision) {
    if !revision.has_core_tasks() {
        *tasks = None;
    }
    if !revision.is_stateless()
        && let Some(known) = extensions
        && known.shift_remove(tasks::EXTENSION).is_some()
        && known.is_empty()
    {
        *extensions = None;
    }
}

impl Translate for InitializeParams {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        self.client_info.downgrade(to)?;
        self.capabilities.downgrade(to)
    }

    fn upgrade(&mut self, from: Revision) {
        self.capabilities.upgrade(from);
    }
}

impl Translate for InitializeResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        self.server_info.downgrade(to)?;
        self.capabilities.downgrade(to)
    }

    fn upgrade(&mut self, from: Revision) {
        self.capabilities.upgrade(from);
    }
}

impl Translate for DiscoverResult {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        fit_cache(self, to);
        self.capabilities.downgrade(to)
    }

    fn upgrade(&mut self, from: Revision) {
        self.capabilities.upgrade(from);
    }
}

impl ClientMeta {
    /// The description of the client for a request to `revision`, with the capabilities that revision has.
    pub fn for_revision(revision: Revision, mut capabilities: ClientCapabilities) -> Self {
        // Downgrading capabilities cannot fail; unknown ones are dropped.
        let _ = capabilities.downgrade(revision);
        ClientMeta::new(revision.as_str(), capabilities)
    }
}
