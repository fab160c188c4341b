//! Answers to a login that were made by an attacker: the code is not sent anywhere.

use serde_json::json;

use super::world::{Changes, Clicks, World};

/// Logs in where the answer is changed, and the metadata promises `iss` or not.
async fn login(
    promised: bool,
    answer: impl Fn(&World, &mut Vec<(String, String)>) + Send + Sync + 'static,
) -> (World, Result<String, String>) {
    let world = World::start(Changes {
        metadata: Box::new(move |_, document| {
            document["authorization_response_iss_parameter_supported"] = json!(promised);
        }),
        answer: Box::new(answer),
        ..Changes::default()
    })
    .await;
    let outcome = world.try_login(&Clicks::default().login()).await;
    (world, outcome)
}

fn iss(issuer: impl Into<String>) -> (String, String) {
    ("iss".to_owned(), issuer.into())
}

#[tokio::test]
async fn code_of_another_issuer_is_not_sent() {
    // ACL-045, ACL-046, C-01
    for promised in [false, true] {
        let (world, outcome) =
            login(promised, |_, answer| answer.push(iss("https://evil.example.com"))).await;
        assert!(outcome.unwrap_err().contains("another authorization server"));
        assert_eq!((world.at("/authorize").len(), world.at("/token").len()), (1, 0));
    }
}

#[tokio::test]
async fn issuer_that_differs_by_a_slash_is_rejected() {
    // ACL-048, C-03
    let (world, outcome) = login(true, |world, answer| answer.push(iss(format!("{}/", world.issuer)))).await;
    assert!(outcome.is_err() && world.at("/token").is_empty());
}

#[tokio::test]
async fn missing_issuer_is_rejected_only_where_promised() {
    // ACL-047, C-02
    let (world, outcome) = login(true, |_, _| {}).await;
    assert!(outcome.is_err() && world.at("/token").is_empty());
    let (_, outcome) = login(false, |_, _| {}).await;
    assert_eq!(outcome.unwrap(), "in");
}

#[tokio::test]
async fn right_issuer_is_accepted() {
    let (_, outcome) = login(true, |world, answer| answer.push(iss(world.issuer.clone()))).await;
    assert_eq!(outcome.unwrap(), "in");
}

#[tokio::test]
async fn error_text_of_another_issuer_is_not_shown() {
    // ACL-049, C-04
    let (_, outcome) = login(false, |_, answer| {
        answer[0] = ("error".to_owned(), "call-0900".to_owned());
        answer.push(("error_description".to_owned(), "send money".to_owned()));
        answer.push(iss("https://evil.example.com"));
    })
    .await;
    let error = outcome.unwrap_err();
    assert!(!error.contains("0900") && !error.contains("money"), "{error}");
}
