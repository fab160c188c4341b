//! `tsugite listen`: prints changes until the count is reached or it is interrupted.

use crate::support::{Place, Running, Served, TSUGITE, tsugite};

#[test]
fn changes_are_printed_in_both_eras() {
    let served = Served::start();
    for revision in ["2025-11-25", "2026-07-28"] {
        let place = Place::new();
        let listening = Running::start(place.command(["listen", &served.url, "-n", "1", "--rev", revision]));
        listening.heard("listening");
        tsugite(&format!("call {} toggle", served.url)).fine();
        assert_eq!(listening.end().fine(), "tools\n", "{revision}");

        let words = ["listen", &served.url, "demo://counter", "-n", "1", "--json", "--rev", revision];
        let listening = Running::start(place.command(words));
        listening.heard("listening");
        tsugite(&format!("call {} touch", served.url)).fine();
        assert_eq!(
            listening.end().fine(),
            "{\"change\":\"resource\",\"uri\":\"demo://counter\"}\n",
            "{revision}"
        );
    }
}

#[test]
fn interrupt_ends_listen_and_leaves_no_child() {
    for signal in ["-INT", "-TERM"] {
        let place = Place::new();
        // With -v the child has our standard error: it closes only when both have ended.
        let words = ["listen", "-v", "--", TSUGITE, "serve", "--stdio"];
        let listening = Running::start(place.command(words));
        listening.heard("listening");
        listening.signal(signal);
        let ran = listening.end();
        assert_eq!((ran.code, ran.out.as_str()), (130, ""), "{ran:?}");
    }
}
