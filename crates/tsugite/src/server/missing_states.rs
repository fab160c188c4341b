//! Finds handlers that need a state which the server does not have.

use super::registry::{Registration, Registry};
use super::state::{StateMap, StateType};
use super::{Server, ServerShared};

impl Server {
    /// Describes each item that needs a missing state, mounted servers included.
    pub(super) fn missing_states(&self) -> Vec<String> {
        self.shared.missing_states()
    }
}

impl ServerShared {
    fn missing_states(&self) -> Vec<String> {
        let (registry, config) = (self.registry(), self.config());
        let mut errors = registry.missing_states(&config.states);
        for mount in &registry.mounts {
            let inner = mount.shared.missing_states().into_iter();
            errors.extend(inner.map(|error| format!("in the server mounted as {:?}: {error}", mount.prefix)));
        }
        errors
    }
}

impl Registry {
    fn missing_states(&self, states: &StateMap) -> Vec<String> {
        let tools = self.tools.iter().map(|(name, entry)| ("tool", name, entry.tool.required_states()));
        let prompts = self.prompts.iter().map(|(name, prompt)| ("prompt", name, prompt.required_states()));
        let resources = self.resources.iter().chain(self.templates.iter());
        let resources = resources.map(|(name, resource)| ("resource", name, resource.required_states()));
        let items = tools.chain(prompts).chain(resources);
        items.flat_map(|(kind, name, required)| errors(kind, name, &required, states)).collect()
    }
}

impl Registration {
    /// Describes each state that the item needs and that is missing.
    pub(super) fn missing_states(&self, states: &StateMap) -> Vec<String> {
        match self {
            Registration::Tool(tool) => {
                errors("tool", &tool.definition.name, &tool.required_states(), states)
            }
            Registration::Prompt(prompt) => {
                errors("prompt", &prompt.definition.name, &prompt.required_states(), states)
            }
            Registration::Resource(resource) => {
                errors("resource", &resource.definition.name, &resource.required_states(), states)
            }
        }
    }
}

fn errors(kind: &str, name: &str, required: &[StateType], states: &StateMap) -> Vec<String> {
    let missing = required.iter().filter(|state| !states.contains(**state));
    let error = |state: &StateType| {
        format!("{kind} `{name}` needs a state of type `{}`; add it with `Server::state`", state.name())
    };
    missing.map(error).collect()
}
