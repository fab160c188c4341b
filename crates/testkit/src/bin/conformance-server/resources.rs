//! Resources: text, bytes, a family by template, one to subscribe to.

use serde::Serialize;
use tsugite::prelude::*;
use tsugite::protocol::content::ResourceContents;

use crate::RED_DOT_PNG;

pub(crate) fn register(server: Server) -> Server {
    let text = "This is the content of the static text resource.";
    server
        .resource(Resource::text("test://static-text", text).mime_type("text/plain"))
        .resource(static_binary)
        .resource(template_data)
        .resource(
            Resource::text("test://watched-resource", "Nothing has happened yet.").mime_type("text/plain"),
        )
}

/// A picture.
#[resource("test://static-binary", mime_type = "image/png")]
async fn static_binary() -> ResourceContents {
    ResourceContents::blob("test://static-binary", RED_DOT_PNG)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    id: String,
    template_test: bool,
    data: String,
}

/// Data by its id.
#[resource("test://template/{id}/data", mime_type = "application/json")]
async fn template_data(id: String) -> Json<Data> {
    let data = format!("Data for ID: {id}");
    Json(Data { id, template_test: true, data })
}
