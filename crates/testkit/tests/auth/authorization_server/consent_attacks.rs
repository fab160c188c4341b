//! Attacks on the pages: forged forms, frames, markup in names, addresses on this machine.

use serde_json::json;
use tsugite_auth::authorization_server::AuthorizationServer;

use super::{TwoUsers, Visitor, server};

#[tokio::test]
async fn consent_cannot_be_left_out() {
    let server = server();
    let mut browser = Visitor::new(&server);
    let client = browser.public_client().await;
    let login_page = browser.authorize(&client, &[]).await;
    // The form of the login is no consent, before and after the login.
    assert_eq!(browser.decide(&login_page, "allow").await.status, 400);
    let consent_page = browser.log_in(&login_page, "ann").await;
    assert_eq!(browser.decide(&login_page, "allow").await.status, 400);
    // Neither is the form of another user, or a changed one.
    let mut changed = consent_page.sealed();
    changed.replace_range(60..61, if &changed[60..61] == "A" { "B" } else { "A" });
    let forged = browser.post("/consent", &[("request", &changed), ("action", "allow")]).await;
    assert_eq!((forged.status, forged.header("location")), (400, ""));
    let mut other = Visitor::new(&server);
    let page = other.authorize(&client, &[]).await;
    other.log_in(&page, "bob").await;
    assert_eq!(other.decide(&consent_page, "allow").await.status, 400);
    browser.decide(&consent_page, "allow").await.code();
}

#[tokio::test]
async fn forged_form_of_another_site_is_refused() {
    // P-02, SEC-006
    let server = server();
    let mut victim = Visitor::new(&server);
    let client = victim.public_client().await;
    let page = victim.authorize(&client, &[]).await;
    let own = victim.log_in(&page, "ann").await;
    // The attacker has a page of the same client, in another browser.
    let mut eve = Visitor::new(&server);
    let page = eve.authorize(&client, &[]).await;
    let hers = eve.log_in(&page, "bob").await;
    assert_eq!(victim.decide(&hers, "allow").await.status, 400);
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let answer = victim.clone().header(name, value).decide(&own, "allow").await;
        assert_eq!((answer.status, answer.header("location")), (400, ""), "{name} {value}");
    }
    let twice = victim.clone().header("sec-fetch-site", "same-origin").header("sec-fetch-site", "cross-site");
    assert_eq!({ twice }.decide(&own, "allow").await.status, 400);
    // A login is not forged either.
    let login = Visitor::new(&server).header("origin", "https://evil.example").log_in(&page, "bob").await;
    assert_eq!(login.status, 400);
    victim.header("origin", super::ISSUER).decide(&own, "allow").await.code();
}

#[tokio::test]
async fn pages_cannot_be_framed_or_run_scripts() {
    // P-02, SEC-006
    let mut browser = Visitor::new(&server());
    let client = browser.public_client().await;
    let login = browser.authorize(&client, &[]).await;
    let consent = browser.log_in(&login, "ann").await;
    let error = browser.authorize("unknown", &[]).await;
    let refusal = browser.authorize(&client, &[("scope", "unknown")]).await;
    for page in [login, consent, error, refusal] {
        let policy = page.header("content-security-policy");
        for rule in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"]
        {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{policy}");
        assert_eq!((page.header("x-frame-options"), page.header("cache-control")), ("DENY", "no-store"));
        assert!(!page.body.contains("<script") && !page.body.contains(" on"), "{}", page.body);
    }
}

#[tokio::test]
async fn consent_page_shows_markup_of_a_client_as_text() {
    // P-03, SEC-006, AAS-013
    let mut browser = Visitor::new(&server());
    let name = "<img src=x onerror=alert(1)>\" '\u{202e}&";
    let registered = browser.register(&json!({"client_name": name})).await;
    let client = registered["client_id"].as_str().unwrap();
    let page = browser.authorize(client, &[("state", "<script>")]).await;
    assert!(!page.body.contains("<img") && page.body.contains("&lt;img src=x"), "{}", page.body);
    let page = browser.log_in(&page, "ann").await;
    assert!(!page.body.contains("<img") && !page.body.contains("<script>"), "{}", page.body);
    assert!(page.body.contains("&lt;img src=x onerror=alert(1)&gt;&quot; &#39;&amp;"), "{}", page.body);
    for shown in ["app.example", "not verified", "Read your notes", "notes:write"] {
        assert!(page.body.contains(shown), "{shown}");
    }
}

#[tokio::test]
async fn clients_on_this_machine_always_ask_and_warn() {
    // P-08, AAS-013, AAS-014
    for uri in ["http://127.0.0.1/cb", "http://localhost:1/cb", "http://[::1]/cb", "com.example.app:/cb"] {
        let mut browser = Visitor::new(&server());
        let registered = browser.register(&json!({"redirect_uris": [uri]})).await;
        let client = registered["client_id"].as_str().unwrap();
        let requested = match uri {
            "http://127.0.0.1/cb" => "http://127.0.0.1:49152/cb",
            uri => uri,
        };
        for _ in 0..2 {
            let mut page = browser.authorize(client, &[("redirect_uri", requested)]).await;
            if page.body.contains("name=\"password\"") {
                page = browser.log_in(&page, "ann").await;
            }
            assert!(page.body.contains("class=\"warning\""), "{uri}: {}", page.body);
            let host = ["127.0.0.1", "localhost", "::1", "com.example.app:/cb"].into_iter();
            assert!(host.clone().any(|host| page.body.contains(&format!("<dd>{host}</dd>"))), "{uri}");
            let answer = browser.decide(&page, "allow").await;
            assert!(answer.header("location").starts_with(requested), "{}", answer.header("location"));
        }
    }
}

#[tokio::test]
async fn cookies_are_protected_and_change_at_login() {
    // SEC-007
    let mut browser = Visitor::new(&server());
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[]).await;
    let cookie = page.header("set-cookie");
    for part in ["__Host-tsugite-session=", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Domain"));
    let before = browser.cookies.clone();
    browser.log_in(&page, "ann").await;
    assert_ne!(browser.cookies, before);
    // A cookie that was planted before the login knows no user.
    let mut planted = Visitor { cookies: before, ..browser };
    assert!(planted.authorize(&client, &[]).await.body.contains("name=\"password\""));
    let local = AuthorizationServer::builder("http://127.0.0.1:8808").resource("http://127.0.0.1:8808/mcp");
    let mut browser = Visitor::new(&local.users(TwoUsers).build().unwrap());
    let client = browser.public_client().await;
    let page = browser.authorize(&client, &[("resource", "")]).await;
    assert!(page.header("set-cookie").starts_with("tsugite-session-8808="), "{}", page.header("set-cookie"));
    assert!(!page.header("set-cookie").contains("Secure"));
}
