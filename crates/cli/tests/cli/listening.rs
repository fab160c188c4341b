//! `tsugite listen`: prints changes until the count is reached or it is interrupted.

use crate::support::{Place, Running, Served, tsugite};

#[test]
fn changes_are_printed_in_both_eras() {
    let served = Served::start();
    for revision in ["2025-11-25", "2026-07-28"] {
        let place = Place::new();
        let listening = Running::start(place.command(["listen", &served.url, "-n", "1", "--rev", revision]));
        listening.wait_for_stderr("listening");
        tsugite(&format!("call {} toggle", served.url)).fine();
        assert_eq!(listening.end().fine(), "tools\n", "{revision}");

        let words = ["listen", &served.url, "demo://counter", "-n", "1", "--json", "--rev", revision];
        let listening = Running::start(place.command(words));
        listening.wait_for_stderr("listening");
        tsugite(&format!("call {} touch", served.url)).fine();
        assert_eq!(
            listening.end().fine(),
            "{\"change\":\"resource\",\"uri\":\"demo://counter\"}\n",
            "{revision}"
        );
    }
}

#[test]
fn only_the_resources_asked_for_are_reported() {
    let served = Served::start();
    for (revision, json, expected) in [
        ("2025-11-25", None, "resource demo://counter\nresource demo://counter\n"),
        ("2026-07-28", None, "resource demo://counter\nresource demo://counter\n"),
        ("2025-11-25", Some("--json"), RESOURCE_TWICE),
        ("2026-07-28", Some("--json"), RESOURCE_TWICE),
    ] {
        let place = Place::new();
        let words = ["listen", &served.url, "demo://counter", "-n", "2", "--rev", revision];
        let listening = Running::start(place.command(words.into_iter().chain(json)));
        listening.wait_for_stderr("listening");
        // The change of the list comes between two changes of the resource.
        for tool in ["touch", "toggle", "touch"] {
            tsugite(&format!("call {} {tool}", served.url)).fine();
        }
        assert_eq!(listening.end().fine(), expected, "{revision}");
    }
}

const RESOURCE_TWICE: &str = "{\"change\":\"resource\",\"uri\":\"demo://counter\"}\n{\"change\":\"resource\",\"uri\":\"demo://counter\"}\n";

#[cfg(unix)]
#[test]
fn interrupt_ends_listen_and_leaves_no_child() {
    for signal in ["-INT", "-TERM"] {
        let place = Place::new();
        // With -v the child has our standard error: it closes only when both have ended.
        let words = ["listen", "-v", "--", crate::support::TSUGITE, "serve", "--stdio"];
        let listening = Running::start(place.command(words));
        listening.wait_for_stderr("listening");
        listening.signal(signal);
        let ran = listening.end();
        assert_eq!((ran.code, ran.out.as_str()), (130, ""), "{ran:?}");
    }
}
