//! `tools/list` and `tools/call`.

use tsugite_core::jsonrpc::Raw;
use tsugite_core::protocol::Method;
use tsugite_core::protocol::tools::{Call, List};
use tsugite_core::revision::{Refusal, read_params};

use super::context::Context;
use super::link::{Asked, Link, Step};
use super::tool_fn::CallParts;

/// Answers with the list as it was written before.
pub(crate) fn list(link: &Link, asked: Asked<'_>) -> Result<Step, Refusal> {
    read_params::<List>(asked.request.params(), asked.revision)?;
    let list = link.server.shared.registry(|registry| registry.tool_list(asked.revision, &link.config.stamp));
    asked.reply.raw_result(&asked.request.id, &list);
    Ok(Step::Answered)
}

/// Begins a call: the tool is looked up and its arguments are read, both from what was looked at already.
pub(crate) fn call(link: &Link, asked: Asked<'_>, context: &Context) -> Result<Step, Refusal> {
    let Some(Some(name)) = asked.peek.name(Call::NAME) else {
        // The careful reading says what is wrong with it.
        read_params::<Call>(asked.request.params(), asked.revision)?;
        return Err(Refusal::Internal);
    };
    let arguments = match asked.peek.arguments() {
        None => Raw::empty_object(),
        Some(arguments) if arguments.is_object() => arguments,
        Some(_) => {
            return Err(Refusal::InvalidParams("Invalid params: `arguments` must be an object".into()));
        }
    };
    let handler =
        link.server.shared.registry(|registry| registry.tool(name).map(|entry| entry.handler.clone()));
    let handler = handler.ok_or_else(|| Refusal::UnknownTool { name: name.to_owned() })?;
    Ok(Step::Call(handler.call(&CallParts { arguments, context, states: &link.config.states })))
}
