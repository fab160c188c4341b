//! Tools, resources, prompts and completion: listing, calling, changing, mounting, visibility and layers.

mod behaviour;
mod requirements;
