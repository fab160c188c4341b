//! Tools that ask: the user, the client's model, for its directories. In one round, in several, under given keys.

use tsugite::prelude::*;
use tsugite::protocol::Role;
use tsugite::protocol::content::SamplingBlock;
use tsugite::protocol::form::{ChoiceOptions, Field, FormSchema, TitledOption};
use tsugite::protocol::roots::Root;
use tsugite::protocol::sampling::{CreateMessageParams, CreateMessageResult, SamplingMessage};

pub(crate) fn register(server: Server) -> Server {
    server
        .tool(test_sampling)
        .tool(test_elicitation)
        .tool(test_elicitation_sep1034_defaults)
        .tool(test_elicitation_sep1330_enums)
        .tool(test_missing_capability)
        .tool(test_streaming_elicitation)
        .tool(test_input_required_result_elicitation)
        .tool(test_input_required_result_sampling)
        .tool(test_input_required_result_list_roots)
        .tool(test_input_required_result_request_state)
        .tool(test_input_required_result_multiple_inputs)
        .tool(test_input_required_result_multi_round)
        .tool(test_input_required_result_tampered_state)
        .tool(test_input_required_result_capabilities)
}

/// Hands a text to the client's model.
#[tool]
async fn test_sampling(prompt: String, cx: Context) -> Result<String, HandlerError> {
    let answer = cx.sample(sampling_request(prompt)).await?;
    Ok(format!("LLM response: {}", response_text(answer)))
}

#[derive(Form)]
struct User {
    /// The user's name.
    username: String,
    /// The user's e-mail address.
    email: String,
}

/// Asks the user who they are.
#[tool]
async fn test_elicitation(message: String, cx: Context) -> Result<String, HandlerError> {
    let User { username, email } = cx.ask(message).await?;
    Ok(format!("User response: {username}, {email}"))
}

#[derive(Debug, Form)]
enum Status {
    Active,
    Inactive,
    Pending,
}

#[derive(Form)]
struct Account {
    #[form(default = "John Doe")]
    name: String,
    #[form(default = 30)]
    age: u32,
    #[form(default = 95.5)]
    score: f64,
    #[form(default = Status::Active)]
    status: Status,
    #[form(default = true)]
    verified: bool,
}

/// Asks with a form that is filled in already.
#[tool]
async fn test_elicitation_sep1034_defaults(cx: Context) -> Result<String, HandlerError> {
    let Account { name, age, score, status, verified } = cx.ask("Please review the account.").await?;
    Ok(format!("Elicitation completed: {name}, {age}, {score}, {status:?}, {verified}"))
}

/// Asks for choices in every way to write them.
#[tool]
async fn test_elicitation_sep1330_enums(cx: Context) -> Result<String, HandlerError> {
    let options = || ChoiceOptions::Plain(["option1", "option2", "option3"].map(String::from).into());
    let titled = |titles: [&str; 3]| {
        let option = |(value, title): (&str, &str)| TitledOption { value: value.into(), title: title.into() };
        ChoiceOptions::Titled(["value1", "value2", "value3"].into_iter().zip(titles).map(option).collect())
    };
    let named = ChoiceOptions::EnumNames {
        values: ["opt1", "opt2", "opt3"].map(String::from).into(),
        names: ["Option One", "Option Two", "Option Three"].map(String::from).into(),
    };
    // By hand, since a derived form never writes titles the old way.
    let form = FormSchema::new()
        .field("untitledSingle", Field::choice(options()))
        .field("titledSingle", Field::choice(titled(["First Option", "Second Option", "Third Option"])))
        .field("legacyEnum", Field::choice(named))
        .field("untitledMulti", Field::multiple_choice(options()))
        .field(
            "titledMulti",
            Field::multiple_choice(titled(["First Choice", "Second Choice", "Third Choice"])),
        );
    let chosen = cx.ask_form(form, "Please choose.").await?;
    Ok(format!("Elicitation completed: {chosen:?}"))
}

/// Needs the client's model.
#[tool]
async fn test_missing_capability(cx: Context) -> Result<String, HandlerError> {
    Ok(response_text(cx.sample(sampling_request("What can you do?")).await?))
}

/// Asks the user, and says nothing else meanwhile.
#[tool]
async fn test_streaming_elicitation(cx: Context) -> Result<String, HandlerError> {
    Ok(greeting(cx.ask(NAME_QUESTION).await?))
}

#[derive(Form)]
struct Name {
    name: String,
}

/// Asks the user for a name.
#[tool]
async fn test_input_required_result_elicitation(cx: Context) -> Result<String, HandlerError> {
    Ok(greeting(cx.ask(NAME_QUESTION).key("user_name").await?))
}

/// Asks the client's model for a capital.
#[tool]
async fn test_input_required_result_sampling(cx: Context) -> Result<String, HandlerError> {
    Ok(response_text(
        cx.sample(sampling_request("What is the capital of France?")).key("capital_question").await?,
    ))
}

/// Asks the client for its directories.
#[tool]
async fn test_input_required_result_list_roots(cx: Context) -> Result<String, HandlerError> {
    Ok(root_list(&cx.roots().key("client_roots").await?))
}

#[derive(Form)]
struct Confirm {
    ok: bool,
}

/// Asks the user to confirm, and wants its state back.
#[tool]
async fn test_input_required_result_request_state(cx: Context) -> Result<String, HandlerError> {
    ask_confirmation(cx).await
}

/// Asks the user to confirm, and notices when its state was altered.
#[tool]
async fn test_input_required_result_tampered_state(cx: Context) -> Result<String, HandlerError> {
    ask_confirmation(cx).await
}

/// Every question has a state, and every state is sealed.
async fn ask_confirmation(cx: Context) -> Result<String, HandlerError> {
    let Confirm { ok } = cx.ask("Please confirm").key("confirm").await?;
    Ok(format!("state-ok, confirmed: {ok}"))
}

/// Asks the user, the model and for directories at once.
#[tool]
async fn test_input_required_result_multiple_inputs(cx: Context) -> Result<String, HandlerError> {
    let (name, answer, roots) = tokio::join!(
        cx.ask::<Name>(NAME_QUESTION).key("user_name"),
        cx.sample(sampling_request("Generate a greeting")).key("greeting"),
        cx.roots().key("client_roots"),
    );
    Ok(format!("{} {} {}", greeting(name?), response_text(answer?), root_list(&roots?)))
}

#[derive(Form)]
struct Color {
    color: String,
}

/// Asks one question after the other.
#[tool]
async fn test_input_required_result_multi_round(cx: Context) -> Result<String, HandlerError> {
    let Name { name } = cx.ask("Step 1: What is your name?").key("step1").await?;
    let Color { color } = cx.ask("Step 2: What is your favorite color?").key("step2").await?;
    Ok(format!("{name} likes {color}"))
}

/// Asks only what the client has declared. One that has declared nothing is refused.
#[tool]
async fn test_input_required_result_capabilities(cx: Context) -> Result<String, HandlerError> {
    let can = cx.client_capabilities();
    if can.sampling.is_some() {
        Ok(response_text(cx.sample(sampling_request("Generate a greeting")).key("greeting").await?))
    } else if can.roots.is_some() {
        Ok(root_list(&cx.roots().key("client_roots").await?))
    } else {
        Ok(greeting(cx.ask(NAME_QUESTION).key("user_name").await?))
    }
}

const NAME_QUESTION: &str = "What is your name?";

fn greeting(Name { name }: Name) -> String {
    format!("Hello, {name}!")
}

fn sampling_request(text: impl Into<String>) -> CreateMessageParams {
    CreateMessageParams::new([SamplingMessage::new(Role::User, SamplingBlock::text(text))], 100_u64)
}

fn response_text(answer: CreateMessageResult) -> String {
    let words = answer.content.into_vec().into_iter().filter_map(|block| match block {
        SamplingBlock::Text(text) => Some(text.text),
        _ => None,
    });
    words.collect()
}

fn root_list(roots: &[Root]) -> String {
    let uris: Vec<&str> = roots.iter().map(|root| root.uri.as_str()).collect();
    format!("Roots: {}", uris.join(", "))
}
