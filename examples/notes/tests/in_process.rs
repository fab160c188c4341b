//! The server in process: no port, no file, on several revisions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use notes::db::{Db, Note};
use serde_json::{Value, json};
use tsugite::client::{Change, ChangeFilter, ErrorKind, FormResponse, Subscription};
use tsugite::prelude::*;
use tsugite::protocol::{CreateMessageResult, Reference, Role, SamplingBlock};

type Result<T = ()> = anyhow::Result<T>;

/// Revisions with elicitation, of both eras.
const ASKING: [Revision; 3] = [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];

fn server() -> Result<Server> {
    Ok(notes::server(Db::open(":memory:")?))
}

async fn add(client: &Client, title: &str, tags: &[&str]) -> Result<Note> {
    Ok(client.call("add_note", json!({"title": title, "text": "Measure.", "tags": tags})).await?)
}

#[tokio::test]
async fn notes_are_added_found_and_changed_in_every_revision() -> Result {
    for revision in Revision::ALL {
        let client = Client::in_process(&server()?).revision(revision).await?;
        let note = add(&client, "Shed", &["wood"]).await?;
        assert_eq!((note.id, note.tags.as_slice(), note.author), (1, ["wood".to_owned()].as_slice(), None));
        add(&client, "Boat", &[]).await?;

        let found: Value = client.call("search_notes", json!({"words": "MEASURE", "order": "title"})).await?;
        let titles: Vec<_> = found["notes"].as_array().unwrap().iter().map(|note| &note["title"]).collect();
        assert_eq!(titles, ["Boat", "Shed"], "{revision}");
        let found: Value = client.call("search_notes", json!({"tag": "wood", "limit": 1})).await?;
        assert_eq!((&found["notes"][0]["title"], &found["notes"][1]), (&json!("Shed"), &Value::Null));

        let note: Note = client.call("update_note", json!({"id": 1, "text": "Cut."})).await?;
        assert_eq!((note.title.as_str(), note.text.as_str()), ("Shed", "Cut."));
        let note: Note = client.call("tag_note", json!({"id": 1, "add": ["a"], "remove": ["wood"]})).await?;
        assert_eq!(note.tags, ["a"]);
        let same: Note = client.call("get_note", json!({"id": 1})).await?;
        assert_eq!(note, same);
    }
    Ok(())
}

#[tokio::test]
async fn author_is_the_caller() -> Result {
    let server = server()?;
    let ann = Client::in_process(&server).principal(Principal::new("ann")).await?;
    assert_eq!(add(&ann, "Shed", &[]).await?.author.as_deref(), Some("ann"));
    Ok(())
}

#[tokio::test]
async fn results_match_their_schemas() -> Result {
    let client = Client::in_process(&server()?).await?;
    client.call_checked("add_note", json!({"title": "Shed", "text": ""})).await?;
    let found = client.call_checked("search_notes", ()).await?;
    assert!(found.structured_content.is_some());
    Ok(())
}

#[tokio::test]
async fn schema_shows_rules_and_defaults() -> Result {
    let tools = Client::in_process(&server()?).await?.list_tools().await?;
    assert_eq!(tools.len(), 8);
    let search = tools.iter().find(|tool| tool.name == "search_notes").unwrap();
    let schema = serde_json::to_value(&search.input_schema)?;
    assert_eq!(schema["properties"]["order"]["default"], "newest");
    assert_eq!(schema["properties"]["limit"]["maximum"], 100);
    Ok(())
}

#[tokio::test]
async fn invalid_arguments_name_the_argument() -> Result {
    let client = Client::in_process(&server()?).await?;
    let cases = [
        ("add_note", json!({"title": "", "text": "x"}), "title"),
        ("add_note", json!({"title": "x", "text": "x", "tags": ["Not A Tag"]}), "tags"),
        ("search_notes", json!({"limit": 101}), "limit"),
        ("search_notes", json!({"order": "oldest"}), "order"),
        ("import_notes", json!({"notes": []}), "notes"),
        ("import_notes", json!({"notes": [{"title": "", "text": "x"}]}), "title"),
        ("import_notes", json!({"notes": [{"title": "x", "text": "x", "tags": ["a b"]}]}), "tags"),
        ("get_note", json!({}), "id"),
    ];
    for (tool, arguments, wrong) in cases {
        let error = client.call::<()>(tool, arguments).await.unwrap_err();
        let text = error.as_tool_failure().unwrap().text();
        assert!(text.contains(wrong), "{tool}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn missing_note_is_told_and_sql_errors_are_not() -> Result {
    let name = "file:missing_note?mode=memory&cache=shared";
    let client = Client::in_process(&notes::server(Db::open(name)?)).await?;
    let error = client.call::<()>("get_note", json!({"id": 7})).await.unwrap_err();
    assert!(error.to_string().contains("there is no note 7"), "{error}");

    rusqlite::Connection::open(name)?.execute_batch("DROP TABLE notes")?;
    let error = client.call::<()>("get_note", json!({"id": 7})).await.unwrap_err();
    assert!(error.to_string().contains("tool failed"), "{error}");
    assert!(!error.to_string().contains("no such table"), "{error}");
    Ok(())
}

#[tokio::test]
async fn deleting_a_tagged_note_asks() -> Result {
    for revision in ASKING {
        for (answer, result) in [
            (FormResponse::accept(json!({"sure": true})), "deleted"),
            (FormResponse::accept(json!({"sure": false})), "kept"),
            (FormResponse::Decline, "kept"),
            (FormResponse::Cancel, "kept"),
        ] {
            let asked = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&asked);
            let client = Client::in_process(&server()?)
                .revision(revision)
                .on_elicit_form(move |form| {
                    seen.lock().unwrap().push(form.message);
                    let answer = answer.clone();
                    async move { answer }
                })
                .await?;
            let tagged = add(&client, "Shed", &["wood"]).await?;
            let plain = add(&client, "Boat", &[]).await?;
            assert_eq!(client.call::<String>("delete_note", json!({"id": plain.id})).await?, "deleted");
            assert_eq!(client.call::<String>("delete_note", json!({"id": tagged.id})).await?, result);
            assert_eq!(*asked.lock().unwrap(), ["“Shed” has 8 characters and the tags [wood]."]);
            assert_eq!(
                client.call::<Note>("get_note", json!({"id": tagged.id})).await.is_ok(),
                result == "kept"
            );
        }
        // A client that cannot ask gets an error, and the note stays.
        let client = Client::in_process(&server()?).revision(revision).await?;
        add(&client, "Shed", &["wood"]).await?;
        assert!(client.call::<String>("delete_note", json!({"id": 1})).await.is_err());
        assert!(client.call::<Note>("get_note", json!({"id": 1})).await.is_ok());
    }
    Ok(())
}

#[tokio::test]
async fn import_reports_progress_and_logs() -> Result {
    for revision in ASKING {
        let (steps, logs) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (step, log) = (Arc::clone(&steps), Arc::clone(&logs));
        let client = Client::in_process(&server()?)
            .revision(revision)
            .on_log(move |message| log.lock().unwrap().push(message.data.to_string()))
            .await?;
        let notes = json!({"notes": [{"title": "Saw", "text": ""}, {"title": "Sand", "text": ""}]});
        let imported: Value = client
            .call("import_notes", notes)
            .on_progress(move |progress| {
                step.lock().unwrap().push((progress.progress, progress.message.unwrap_or_default()));
            })
            .await?;
        assert_eq!(imported["ids"], json!([1, 2]));
        assert_eq!(*steps.lock().unwrap(), [(1.0, "Saw".to_owned()), (2.0, "Sand".to_owned())]);
        assert_eq!(*logs.lock().unwrap(), [r#""imported 2 notes""#], "{revision}");
    }
    Ok(())
}

#[tokio::test]
async fn summary_comes_from_the_model_of_the_client() -> Result {
    for revision in Revision::ALL {
        let client = Client::in_process(&server()?)
            .revision(revision)
            .on_sample(async |request| {
                let text = request.messages.iter().map(|message| message.content.text()).collect::<String>();
                let answer = SamplingBlock::text(format!("short: {text}"));
                Ok(CreateMessageResult::new(Role::Assistant, answer, "test"))
            })
            .await?;
        let error = client.call::<String>("summarize_notes", ()).await.unwrap_err();
        assert!(error.to_string().contains("there are no such notes"), "{error}");
        add(&client, "Shed", &[]).await?;
        let summary: String = client.call("summarize_notes", ()).await?;
        assert_eq!(summary.trim_end(), "short: # Shed\nMeasure.", "{revision}");
    }
    Ok(())
}

#[tokio::test]
async fn resources_are_read_and_completed() -> Result {
    for revision in Revision::ALL {
        let client = Client::in_process(&server()?).revision(revision).await?;
        add(&client, "Shed", &[]).await?;
        assert_eq!(client.read_resource("notes://1").await?.text(), "# Shed\n\nMeasure.\n");
        let list: Value = serde_json::from_str(&client.read_resource("notes://list").await?.text())?;
        assert_eq!(list, json!([{"uri": "notes://1", "title": "Shed"}]));
        let error = client.read_resource("notes://2").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ErrorResponse { .. }), "{error}");

        let ids = client.complete(Reference::resource("notes://{id}"), "id", "").await?;
        assert_eq!(ids.completion.values, ["1"]);
    }
    Ok(())
}

#[tokio::test]
async fn prompt_completes_titles_from_the_database() -> Result {
    for revision in Revision::ALL {
        let client = Client::in_process(&server()?).revision(revision).await?;
        for title in ["Shed", "Sand", "Boat"] {
            add(&client, title, &[]).await?;
        }
        let titles = client.complete(Reference::prompt("plan"), "title", "s").await?;
        assert_eq!(titles.completion.values, ["Sand", "Shed"]);
        let plan = client.get_prompt("plan", json!({"title": "Shed", "days": "2"})).await?;
        let text = plan.messages[0].content.as_text().unwrap();
        assert_eq!(text, "Plan this for 2 days, one line for each day.\n\nMeasure.");
        assert!(client.get_prompt("plan", json!({"title": "House"})).await.is_err());
    }
    Ok(())
}

#[tokio::test]
async fn subscribers_hear_of_changes() -> Result {
    for revision in ASKING {
        let server = server()?;
        let reader = Client::in_process(&server).revision(revision).await?;
        let writer = Client::in_process(&server).revision(revision).await?;
        add(&writer, "Shed", &[]).await?;
        let mut note = reader.listen(ChangeFilter::new().resource("notes://1")).await?;
        let mut list = reader.listen(ChangeFilter::new().resource("notes://list")).await?;
        writer.call::<()>("update_note", json!({"id": 1, "text": "Cut."})).await?;
        assert_eq!(next(&mut note).await?, Change::Resource { uri: "notes://1".into() });
        assert_eq!(next(&mut list).await?, Change::Resource { uri: "notes://list".into() });
    }
    Ok(())
}

/// The next change. Without the limit, a change that is never sent would hang the tests.
async fn next(changes: &mut Subscription) -> Result<Change> {
    let next = tokio::time::timeout(Duration::from_secs(30), changes.next()).await?;
    Ok(next.context("the subscription ended")??)
}
