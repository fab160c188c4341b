//! How the authorization server is found, and which of the documents on the way are refused.

use serde_json::{Value, json};

use super::world::{Changes, Clicks, Reply, Seen, World};

async fn start(change: Changes) -> (World, Result<String, String>) {
    let world = World::start(change).await;
    let outcome = world.try_login(&Clicks::default().login()).await;
    (world, outcome)
}

fn resource(edit: impl Fn(&World, &mut Value) + Send + Sync + 'static) -> Changes {
    Changes { resource: Box::new(edit), ..Changes::default() }
}

fn metadata(edit: impl Fn(&World, &mut Value) + Send + Sync + 'static) -> Changes {
    Changes { metadata: Box::new(edit), ..Changes::default() }
}

fn reply(reply: impl Fn(&World, &Seen) -> Option<Reply> + Send + Sync + 'static) -> Changes {
    Changes { reply: Box::new(reply), ..Changes::default() }
}

/// The paths of the GET requests, the endpoint of the protected server aside.
fn documents(world: &World) -> Vec<String> {
    let all = world.seen().into_iter().filter(|seen| seen.verb == "GET" && seen.path != "/mcp");
    all.map(|seen| seen.path).collect()
}

#[tokio::test]
async fn metadata_of_another_resource_is_refused() {
    // ACL-034, C-08
    for other in ["https://evil.example.com/mcp", "MCP/x", "not a url"] {
        let (world, outcome) = start(resource(move |world, document| {
            document["resource"] = json!(other.replace("MCP", &world.mcp));
        }))
        .await;
        assert!(outcome.unwrap_err().contains("another server"), "{other}");
        assert!(world.seen().iter().all(|seen| !seen.at_issuer), "{other}");
    }
}

#[tokio::test]
async fn parent_path_is_a_valid_resource_and_sent_verbatim() {
    // ACL-032, C-07
    let (world, outcome) =
        start(resource(|world, document| document["resource"] = json!(world.origin()))).await;
    assert_eq!(outcome.unwrap(), "in");
    assert_eq!(world.at("/authorize")[0].query["resource"], world.origin());
    assert_eq!(world.at("/token")[0].form("resource").unwrap(), world.origin());
}

#[tokio::test]
async fn well_known_urls_are_tried_without_a_named_one() {
    // ACL-007, ACL-009, ACL-011
    let (world, outcome) = start(reply(|world, seen| match (seen.at_issuer, seen.path.as_str()) {
        (false, "/mcp") if seen.header("authorization").is_empty() => Some(Reply::challenge(401, "Bearer")),
        (false, "/.well-known/oauth-protected-resource/mcp") => Some(Reply::status(404)),
        (false, "/.well-known/oauth-protected-resource") => {
            Some(Reply::json(200, &json!({"resource": world.mcp, "authorization_servers": [world.issuer]})))
        }
        (true, "/.well-known/oauth-authorization-server") => Some(Reply::status(404)),
        (true, "/.well-known/openid-configuration") => Some(Reply::json(200, &world.metadata())),
        _ => None,
    }))
    .await;
    assert_eq!(outcome.unwrap(), "in");
    let expected = [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ];
    assert_eq!(documents(&world)[..4], expected);
    // ACL-002
    let versions: Vec<String> =
        world.seen().iter().map(|seen| seen.header("mcp-protocol-version").to_owned()).collect();
    assert!(versions[1..5].iter().all(|version| version == "2026-07-28"), "{versions:?}");
}

#[tokio::test]
async fn issuer_with_a_path_has_its_own_documents() {
    // ACL-010, ACL-012
    let (world, outcome) = start(Changes {
        resource: Box::new(|world, document| {
            document["authorization_servers"] = json!([format!("{}/tenant1", world.issuer)]);
        }),
        metadata: Box::new(|world, document| document["issuer"] = json!(format!("{}/tenant1", world.issuer))),
        reply: Box::new(|world, seen| {
            let is_last = seen.path == "/tenant1/.well-known/openid-configuration";
            is_last.then(|| Reply::json(200, &world.metadata()))
        }),
        ..Changes::default()
    })
    .await;
    assert_eq!(outcome.unwrap(), "in");
    let expected = [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server/tenant1",
        "/.well-known/openid-configuration/tenant1",
        "/tenant1/.well-known/openid-configuration",
    ];
    assert_eq!(documents(&world)[..4], expected);
}

#[tokio::test]
async fn metadata_of_another_issuer_is_not_used() {
    // ACL-014, C-05
    for other in ["https://evil.example.com", "ISSUER/", "ISSUER%2F"] {
        let (world, outcome) = start(metadata(move |world, document| {
            document["issuer"] = json!(other.replace("ISSUER", &world.issuer));
        }))
        .await;
        assert!(outcome.unwrap_err().contains("another issuer"), "{other}");
        for endpoint in ["/register", "/authorize", "/token"] {
            assert!(world.at(endpoint).is_empty(), "{other}");
        }
    }
}

#[tokio::test]
async fn login_without_s256_is_refused() {
    // C-09
    for methods in [json!(["plain"]), json!([])] {
        let (world, outcome) = start(metadata({
            let methods = methods.clone();
            move |_, document| document["code_challenge_methods_supported"] = methods.clone()
        }))
        .await;
        assert!(outcome.unwrap_err().contains("PKCE"), "{methods}");
        assert!(world.at("/register").is_empty() && world.at("/authorize").is_empty());
    }
}

#[tokio::test]
async fn metadata_must_list_pkce_where_the_application_requires_it() {
    // ACL-041, C-09
    let silent = || {
        metadata(|_, document| {
            document.as_object_mut().unwrap().remove("code_challenge_methods_supported");
        })
    };
    let world = World::start(silent()).await;
    let error = world.try_login(&Clicks::default().login().require_pkce_metadata()).await.unwrap_err();
    assert!(error.contains("PKCE"), "{error}");
    assert!(world.at("/register").is_empty() && world.at("/authorize").is_empty());
    // Elsewhere the login goes on, and with PKCE: the token endpoint of the test refuses a code without its verifier.
    let (world, outcome) = start(silent()).await;
    assert_eq!(outcome.unwrap(), "in");
    assert_eq!(world.at("/authorize")[0].query["code_challenge_method"], "S256");
}

#[tokio::test]
async fn authorization_page_with_another_scheme_is_not_opened() {
    // C-12, SEC-023, SEC-025
    for endpoint in [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "http://as.example.com/",
    ] {
        let world =
            World::start(metadata(move |_, document| document["authorization_endpoint"] = json!(endpoint)))
                .await;
        let clicks = Clicks::default();
        let error = world.try_login(&clicks.login()).await.unwrap_err();
        assert!(error.contains("refused the URL"), "{endpoint}: {error}");
        assert!(clicks.pages().is_empty());
    }
}

/// A server of 2025-03-26: without metadata of its own, and an authorization server at its root or default endpoints.
fn old_server(has_metadata: bool) -> Changes {
    reply(move |world, seen| {
        if seen.at_issuer {
            return None;
        }
        let origin = world.origin();
        let to_issuer = |path: &str| {
            // The same answers as those of the authorization server.
            Some(Seen { at_issuer: true, path: path.to_owned(), ..seen.clone() })
        };
        let at = match seen.path.as_str() {
            "/mcp" if seen.header("authorization").is_empty() => {
                return Some(Reply::challenge(401, "Bearer"));
            }
            "/mcp" => return None,
            "/.well-known/oauth-authorization-server" if has_metadata => {
                return Some(Reply::json(
                    200,
                    &json!({
                        "issuer": origin,
                        "authorization_endpoint": format!("{origin}/oauth/authorize"),
                        "token_endpoint": format!("{origin}/oauth/token"),
                        "registration_endpoint": format!("{origin}/oauth/register"),
                        "code_challenge_methods_supported": ["S256"],
                    }),
                ));
            }
            "/authorize" | "/oauth/authorize" => to_issuer("/authorize"),
            "/token" | "/oauth/token" => to_issuer("/token"),
            "/register" | "/oauth/register" => to_issuer("/register"),
            _ => return Some(Reply::status(404)),
        };
        at.map(|seen| world.answer_as_issuer(&seen))
    })
}

#[tokio::test]
async fn old_server_has_its_metadata_at_the_root() {
    // ACL-001, ACL-003
    let (world, outcome) = start(old_server(true)).await;
    assert_eq!(outcome.unwrap(), "in");
    let posts: Vec<String> = world
        .seen()
        .into_iter()
        .filter(|seen| seen.verb == "POST" && seen.path != "/mcp")
        .map(|seen| seen.path)
        .collect();
    assert_eq!(posts, ["/oauth/register", "/oauth/token"]);
}

#[tokio::test]
async fn old_server_without_metadata_has_default_endpoints_at_the_root() {
    // ACL-003, C-25
    let (world, outcome) = start(old_server(false)).await;
    assert_eq!(outcome.unwrap(), "in");
    let used: Vec<String> =
        world.seen().into_iter().map(|seen| seen.path).filter(|path| !path.contains("well-known")).collect();
    assert_eq!(used, ["/mcp", "/register", "/authorize", "/token", "/mcp"]);
}
