//! What a handler asks of the client: elicitation, sampling and roots.

mod behaviour;
mod requirements;
