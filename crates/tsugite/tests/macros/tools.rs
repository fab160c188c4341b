//! `#[tool]`.

use std::io;
use std::thread::{self, ThreadId};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::content::Image;
use tsugite::protocol::{Icon, TaskSupport};
use tsugite::transport::memory;

use crate::{answer, assert_twins, call};

/// Add two numbers.
#[tool]
async fn add(
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
) -> i64 {
    a + b
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

#[tokio::test]
async fn function_becomes_a_tool() {
    let by_hand = Tool::new("add")
        .description("Add two numbers.")
        .handler(|Args(Add { a, b }): Args<Add>| async move { a + b });
    assert_twins(
        Server::new("test", "1").tool(add),
        Server::new("test", "1").tool(by_hand),
        [
            call("add", json!({"a": 1, "b": 2})),
            call("add", json!({"a": 1.0, "b": -2, "more": []})),
            call("add", json!({"a": "one", "b": 2})),
        ],
    )
    .await;
    assert_eq!(add::call(1, 2).await, 3);
}

/// Doubles a count.
#[tool]
async fn count(add: i64) -> i64 {
    let count = add * 2;
    count + add - add
}

#[tokio::test]
async fn names_of_tools_can_be_used_for_variables() {
    let add = add::call(1, 2).await;
    let count = match count::call(add).await {
        count if count < 0 => 0,
        count => count,
    };
    assert_eq!((add, count), (3, 6));
    // What the macro makes is an ordinary builder.
    let renamed = self::add().title("Addition");
    let server = Server::new("test", "1").tool(renamed).tool(self::count);
    assert_eq!(answer(&server, call("count", json!({"add": 4}))).await["result"]["structuredContent"], 8);
}

#[tokio::test]
async fn missing_argument_is_named() {
    let missing = answer(&Server::new("test", "1").tool(add), call("add", json!({"a": 1}))).await;
    assert_eq!(missing["result"]["isError"], true);
    assert_eq!(missing["result"]["content"][0]["text"], "missing argument `b`");
}

const LIMIT: Duration = Duration::from_secs(5);

/// Not this.
#[tool(
    name = "everything",
    title = "Everything",
    description = "Does everything.",
    read_only,
    destructive = false,
    idempotent = true,
    open_world,
    icons = [Icon::new("https://example.com/icon.png")],
    timeout = "30s",
    tags = ["all", "some"],
    task = "optional",
    restartable,
    once,
)]
async fn all_settings() -> &'static str {
    "done"
}

/// Deletes everything.
#[tool(scopes = ["all:read", "all:write"])]
async fn delete() -> &'static str {
    "deleted"
}

#[tokio::test]
async fn scopes_are_needed_for_a_call() {
    let by_hand = Tool::new("delete")
        .description("Deletes everything.")
        .scope("all:read")
        .scope("all:write")
        .handler(|| async { "deleted" });
    let (made, by_hand) = (Server::new("test", "1").tool(delete), Server::new("test", "1").tool(by_hand));
    let refused = answer(&made, call("delete", json!({}))).await;
    assert_eq!(refused["error"]["data"], json!({"scopes": ["all:read", "all:write"]}), "{refused}");
    assert_eq!(refused, answer(&by_hand, call("delete", json!({}))).await);
    assert_twins(made, by_hand, []).await;
}

#[tool(timeout = LIMIT, read_only = false, task = TaskSupport::Forbidden)]
async fn expressions() -> &'static str {
    "done"
}

#[tokio::test]
async fn every_setting_has_a_builder() {
    let everything = Tool::new("everything")
        .title("Everything")
        .description("Does everything.")
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(true)
        .icons([Icon::new("https://example.com/icon.png")])
        .timeout(Duration::from_secs(30))
        .tag("all")
        .tag("some")
        .task(TaskSupport::Optional)
        .restartable(true)
        .once(true)
        .handler(|| async { "done" });
    let expressions_by_hand = Tool::new("expressions")
        .timeout(LIMIT)
        .task(TaskSupport::Forbidden)
        .read_only(false)
        .handler(|| async { "done" });
    // Seen only by its tags.
    let tagged = |server: Server| {
        server.visible(|_, item| item.name == "expressions" || item.has_tag("all") && item.has_tag("some"))
    };
    assert_twins(
        tagged(Server::new("test", "1")).tool(all_settings).tool(expressions),
        tagged(Server::new("test", "1")).tool(everything).tool(expressions_by_hand),
        [call("everything", json!({})), call("expressions", json!({}))],
    )
    .await;
}

#[tool(timeout = "20ms")]
async fn endless() {
    std::future::pending::<()>().await;
}

#[tokio::test(start_paused = true)]
async fn timeout_ends_a_call() {
    let answer = answer(&Server::new("test", "1").tool(endless), call("endless", json!({}))).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}

/// Of everything that can be said of a parameter.
#[tool]
async fn parameters(
    /// Where
    /// it is.
    #[arg(header = "Region")]
    region: String,
    #[arg(default = 5)] limit: u32,
    #[arg(default = "tea")] drink: String,
    #[arg(default = -0.5)] factor: f64,
    #[arg(default)] loud: bool,
    #[doc = concat!("Who ", "asks.")] who: Option<String>,
    #[arg(name = "from", description = "Where from.")] origin: Option<String>,
    r#type: Option<i64>,
    mut count: Option<i64>,
    #[cfg(any())] never: Missing,
    #[cfg(test)] always: Option<bool>,
) -> String {
    count = count.map(|count| count + 1);
    format!("{region} {limit} {drink} {factor} {loud} {who:?} {origin:?} {type:?} {count:?} {always:?}", type = r#type)
}

#[derive(Deserialize, JsonSchema)]
struct Parameters {
    /// Where
    /// it is.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
    #[serde(default = "five")]
    limit: u32,
    #[serde(default = "tea")]
    drink: String,
    #[serde(default = "half")]
    factor: f64,
    #[serde(default)]
    loud: bool,
    /// Who asks.
    who: Option<String>,
    /// Where from.
    from: Option<String>,
    r#type: Option<i64>,
    count: Option<i64>,
    always: Option<bool>,
}

fn five() -> u32 {
    5
}

fn tea() -> String {
    "tea".to_owned()
}

fn half() -> f64 {
    -0.5
}

#[tokio::test]
async fn parameter_attributes_appear_in_the_schema() {
    let by_hand = Tool::new("parameters")
        .description("Of everything that can be said of a parameter.")
        .handler(|Args(it): Args<Parameters>| async move {
            parameters::call(
                it.region, it.limit, it.drink, it.factor, it.loud, it.who, it.from, it.r#type, it.count,
                it.always,
            )
            .await
        });
    let everything = json!({
        "region": "eu", "limit": 1, "drink": "milk", "factor": 2, "loud": true, "who": "me", "from": "here",
        "type": 7, "count": 1, "always": true, "never": "never", "origin": "nowhere",
    });
    assert_twins(
        Server::new("test", "1").tool(parameters),
        Server::new("test", "1").tool(by_hand),
        [
            call("parameters", everything),
            call("parameters", json!({"region": "us"})),
            call("parameters", json!({"region": "us", "who": null, "limit": "many"})),
        ],
    )
    .await;
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    #[default]
    Normal,
}

/// Can be read, but not written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Order {
    NewestFirst,
    /// With a doc comment, which moves it to a schema of its own.
    OldestFirst,
}

fn first_page() -> u32 {
    1
}

#[tool]
async fn defaults(
    #[arg(default = Priority::Normal)] chosen: Priority,
    #[arg(default)] of_type: Priority,
    #[arg(default = Order::OldestFirst)] order: Order,
    #[arg(default = vec![1, 2])] list: Vec<i64>,
    #[arg(default = [3])] array: Vec<i64>,
    #[arg(default = first_page())] page: u32,
    #[arg(default = Some(Order::NewestFirst))] nested: Option<Order>,
    #[arg(default)] nothing: Option<String>,
) -> String {
    format!("{chosen:?} {of_type:?} {order:?} {list:?} {array:?} {page} {nested:?} {nothing:?}")
}

#[tokio::test]
async fn defaults_of_any_expression_are_in_the_schema() {
    let server = Server::new("test", "1").tool(defaults);
    let list = answer(&server, ("tools/list", json!({}))).await;
    let schema = &list["result"]["tools"][0]["inputSchema"];
    let default = |name: &str| schema["properties"][name].get("default").cloned();
    assert_eq!(default("chosen"), Some(json!("normal")), "{schema}");
    assert_eq!(default("of_type"), Some(json!("normal")));
    assert_eq!(default("order"), Some(json!("oldest-first")));
    assert_eq!(default("list"), Some(json!([1, 2])));
    assert_eq!(default("array"), Some(json!([3])));
    assert_eq!(default("page"), Some(json!(1)));
    // Neither can be told from the type.
    assert_eq!((default("nested"), default("nothing")), (None, None));
    assert_eq!(schema.get("required"), None);
    let called = answer(&server, call("defaults", json!({}))).await;
    assert_eq!(
        called["result"]["content"][0]["text"],
        r#"Normal Normal OldestFirst [1, 2] [3] 1 Some(NewestFirst) None"#
    );
}

#[tool]
async fn rules(
    /// Not empty.
    #[schemars(length(min = 1, max = 9))]
    title: String,
    #[arg(default = 3)]
    #[schemars(range(min = 1, max = 10))]
    count: u32,
    #[schemars(inner(length(max = 2)))] tags: Option<Vec<String>>,
) -> String {
    format!("{title} {count} {tags:?}")
}

#[derive(Deserialize, JsonSchema)]
struct Rules {
    /// Not empty.
    #[schemars(length(min = 1, max = 9))]
    title: String,
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 10))]
    count: u32,
    #[schemars(inner(length(max = 2)))]
    tags: Option<Vec<String>>,
}

fn three() -> u32 {
    3
}

#[tokio::test]
async fn rules_of_a_parameter_are_enforced() {
    let by_hand = Tool::new("rules")
        .handler(|Args(it): Args<Rules>| async move { rules::call(it.title, it.count, it.tags).await });
    let server = Server::new("test", "1").tool(rules);
    let refused = answer(&server, call("rules", json!({"title": "", "count": 11, "tags": ["abc"]}))).await;
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    for expected in ["title", "shorter than 1", "count", "greater than the maximum of 10", "tags[0]"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_twins(
        server,
        Server::new("test", "1").tool(by_hand),
        [call("rules", json!({"title": "a"})), call("rules", json!({"title": "", "count": 0}))],
    )
    .await;
}

/// Finds a book.
#[tool]
async fn find(
    #[schemars(regex(pattern = r"^\d{13}$"))] isbn: String,
    #[schemars(inner(regex(pattern = "^[a-z]+$")))] tags: Option<Vec<String>>,
) -> String {
    format!("{isbn}{}", tags.unwrap_or_default().join(""))
}

/// Tags a book.
#[tool]
async fn tag_book(#[schemars(inner(regex(pattern = "^[a-z]+$")))] tags: Vec<String>) -> String {
    tags.join(" ")
}

#[tokio::test]
async fn pattern_of_a_parameter_is_enforced() {
    let server = Server::new("test", "1").tool(find);
    let list = answer(&server, ("tools/list", json!({}))).await;
    assert_eq!(
        list["result"]["tools"][0]["inputSchema"]["properties"]["isbn"],
        json!({"type": "string", "pattern": r"^\d{13}$"})
    );
    let refused = answer(&server, call("find", json!({"isbn": "12"}))).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let found = answer(&server, call("find", json!({"isbn": "9780140449136"}))).await;
    assert_eq!(found["result"]["content"][0]["text"], "9780140449136");
    let server = Server::new("test", "1").tool(tag_book);
    let refused = answer(&server, call("tag_book", json!({"tags": ["ok", "NO"]}))).await;
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}

#[derive(Clone)]
struct Db(&'static str);
type Cx = Context;
type Held = State<Db>;
type Whole = i64;
type Outcome = std::result::Result<Whole, HandlerError>;

#[tool]
async fn aliases(cx: Cx, State(db): Held, who: Option<Principal>, n: Whole) -> Outcome {
    cx.progress(1).await;
    Ok(n + db.0.len() as i64 + i64::from(who.is_some()))
}

#[derive(Deserialize, JsonSchema)]
struct N {
    n: i64,
}

#[tokio::test]
async fn extractors_are_recognized_by_type_not_by_name() {
    let by_hand = Tool::new("aliases").handler(
        |cx: Context, State(db): State<Db>, who: Option<Principal>, Args(N { n }): Args<N>| async move {
            cx.progress(1).await;
            n + db.0.len() as i64 + i64::from(who.is_some())
        },
    );
    let server = || Server::new("test", "1").state(Db("four"));
    assert_twins(server().tool(aliases), server().tool(by_hand), [call("aliases", json!({"n": 1, "cx": 3}))])
        .await;
}

#[tool]
async fn in_a_struct(Args(Add { a, b }): Args<Add>, unit: Option<String>) -> String {
    format!("{} {}", a + b, unit.unwrap_or_default())
}

#[derive(Deserialize, JsonSchema)]
struct AddUnit {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
    unit: Option<String>,
}

#[tokio::test]
async fn arguments_may_be_one_struct() {
    let by_hand = Tool::new("in_a_struct").handler(|Args(it): Args<AddUnit>| async move {
        format!("{} {}", it.a + it.b, it.unit.unwrap_or_default())
    });
    assert_twins(
        Server::new("test", "1").tool(in_a_struct),
        Server::new("test", "1").tool(by_hand),
        [
            call("in_a_struct", json!({"a": 1, "b": 2, "unit": "m"})),
            call("in_a_struct", json!({"a": 1, "b": 2})),
        ],
    )
    .await;
}

/// A tree.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Tree {
    value: i64,
    children: Vec<Tree>,
}

#[tool]
async fn sum(tree: Tree, other: Option<Tree>) -> i64 {
    fn sum(tree: &Tree) -> i64 {
        tree.value + tree.children.iter().map(sum).sum::<i64>()
    }
    sum(&tree) + other.as_ref().map_or(0, sum)
}

#[derive(Deserialize, JsonSchema)]
struct Sum {
    tree: Tree,
    other: Option<Tree>,
}

#[tokio::test]
async fn recursive_struct_is_defined_at_the_root() {
    let by_hand = Tool::new("sum")
        .handler(|Args(Sum { tree, other }): Args<Sum>| async move { sum::call(tree, other).await });
    let tree = json!({"value": 1, "children": [{"value": 2, "children": []}]});
    let server = Server::new("test", "1").tool(sum);
    let schema = &answer(&server, ("tools/list", json!({}))).await["result"]["tools"][0]["inputSchema"];
    assert_eq!(
        schema["$defs"]["Tree"]["properties"]["children"]["items"]["$ref"], "#/$defs/Tree",
        "{schema}"
    );
    let requests = [call("sum", json!({"tree": tree})), call("sum", json!({"tree": tree, "other": tree}))];
    assert_twins(server, Server::new("test", "1").tool(by_hand), requests).await;
}

#[derive(Serialize, JsonSchema)]
struct Weather {
    /// In degrees.
    temperature: f64,
    windy: bool,
}

fn weather() -> Weather {
    Weather { temperature: 21.5, windy: true }
}

#[tool]
async fn gives_text() -> String {
    "text".to_owned()
}

#[tool]
async fn gives_number() -> i64 {
    7
}

#[tool]
async fn gives_struct() -> Weather {
    weather()
}

#[tool]
async fn gives_list() -> Vec<Weather> {
    vec![weather()]
}

#[tool]
async fn gives_option() -> Option<Weather> {
    None
}

#[tool]
async fn gives_result(#[arg(default)] fails: bool) -> io::Result<Weather> {
    if fails { Err(io::Error::other("secret")) } else { Ok(weather()) }
}

#[tool]
async fn gives_handler_result(#[arg(default)] fails: bool) -> Result<String, HandlerError> {
    if fails { Err(HandlerError::new("failed")) } else { Ok("fine".to_owned()) }
}

#[tool]
async fn gives_image() -> Image {
    Image::from_bytes(b"png", "image/png")
}

#[tool]
async fn gives_nothing() {}

#[tool]
async fn gives_result_of_call() -> CallResult {
    CallResult::error("no")
}

#[derive(Deserialize, JsonSchema)]
struct Fails {
    #[serde(default)]
    fails: bool,
}

#[tokio::test]
async fn return_types_match_the_builders() {
    let made = Server::new("test", "1")
        .tool(gives_text)
        .tool(gives_number)
        .tool(gives_struct)
        .tool(gives_list)
        .tool(gives_option)
        .tool(gives_result)
        .tool(gives_handler_result)
        .tool(gives_image)
        .tool(gives_nothing)
        .tool(gives_result_of_call);
    let by_hand = Server::new("test", "1")
        .tool(Tool::new("gives_text").handler(|| async { "text".to_owned() }))
        .tool(Tool::new("gives_number").handler(|| async { 7_i64 }))
        .tool(Tool::new("gives_struct").handler(|| async { Json(weather()) }))
        .tool(Tool::new("gives_list").handler(|| async { Json(vec![weather()]) }))
        .tool(Tool::new("gives_option").handler(|| async { Json(None::<Weather>) }))
        .tool(Tool::new("gives_result").handler(|Args(Fails { fails }): Args<Fails>| async move {
            gives_result::call(fails).await.map(Json)
        }))
        .tool(Tool::new("gives_handler_result").handler(|Args(Fails { fails }): Args<Fails>| async move {
            gives_handler_result::call(fails).await
        }))
        .tool(Tool::new("gives_image").handler(|| async { Image::from_bytes(b"png", "image/png") }))
        .tool(Tool::new("gives_nothing").handler(|| async {}))
        .tool(Tool::new("gives_result_of_call").handler(|| async { CallResult::error("no") }));
    let fails = answer(&made, call("gives_result", json!({"fails": true}))).await;
    let text = fails["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("tool failed (number "), "{text}");
    let names = [
        "text",
        "number",
        "struct",
        "list",
        "option",
        "result",
        "handler_result",
        "image",
        "nothing",
        "result_of_call",
    ];
    let calls = names.map(|name| call(&format!("gives_{name}"), json!({})));
    let failing = call("gives_handler_result", json!({"fails": true}));
    assert_twins(made, by_hand, calls.into_iter().chain([failing])).await;
}

#[tool]
fn where_it_runs() -> String {
    format!("{:?}", thread::current().id())
}

#[tool]
fn blocking(State(served_by): State<ThreadId>, n: i64) -> Result<i64, HandlerError> {
    assert_ne!(served_by, thread::current().id());
    Ok(n * 2)
}

#[tokio::test]
async fn blocking_function_runs_on_a_blocking_thread() {
    let here = thread::current().id();
    let server = Server::new("test", "1").state(here).tool(where_it_runs).tool(blocking);
    let elsewhere = answer(&server, call("where_it_runs", json!({}))).await;
    assert_ne!(elsewhere["result"]["content"][0]["text"], json!(format!("{here:?}")));
    assert_ne!(elsewhere["result"]["content"][0]["text"], Value::Null);

    let by_hand =
        Tool::new("blocking").blocking_handler(|State(_): State<ThreadId>, Args(N { n }): Args<N>| n * 2);
    assert_twins(
        Server::new("test", "1").state(here).tool(blocking),
        Server::new("test", "1").state(here).tool(by_hand),
        [call("blocking", json!({"n": 2}))],
    )
    .await;
}

/// A parameter, and a variable, may be called as the tool is.
#[tool]
async fn echo(echo: String) -> String {
    let echo = format!("{echo} {echo}");
    echo
}

mod inner {
    //! A tool elsewhere.

    /// Documented.
    #[tsugite::tool]
    #[must_use]
    pub(crate) async fn public(n: i64) -> i64 {
        n
    }
}

#[tokio::test]
async fn tool_can_be_in_a_module_and_added_later() {
    /// Inside.
    #[tool]
    async fn local() -> &'static str {
        "here"
    }
    let server = Server::new("test", "1").tool(local).tool(inner::public);
    server.add(echo).unwrap();
    for (name, arguments, text) in [
        ("local", json!({}), "here"),
        ("public", json!({"n": 1}), "1"),
        ("echo", json!({"echo": "o"}), "o o"),
    ] {
        let answer = answer(&server, call(name, arguments)).await;
        assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Bounds {
    #[schemars(range(min = 1, max = 10))]
    count: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Pattern {
    #[schemars(regex(pattern = r"^[a-z]+$"))]
    word: String,
}

#[tool]
async fn bounded(bounds: Bounds) -> u8 {
    bounds.count
}

#[tool]
async fn patterned(Args(pattern): Args<Pattern>) -> String {
    pattern.word
}

#[tool(validated)]
async fn validated(Args(pattern): Args<Pattern>) -> String {
    pattern.word
}

#[tokio::test]
async fn attribute_rules_are_enforced_or_refused() {
    let server = Server::new("test", "1").tool(bounded).tool(validated);
    for (name, arguments, said) in [
        ("bounded", json!({"bounds": {"count": 10}}), "10"),
        (
            "bounded",
            json!({"bounds": {"count": 11}}),
            "invalid argument `bounds.count`: 11 is greater than the maximum of 10",
        ),
        ("validated", json!({"word": "abc"}), "abc"),
        ("validated", json!({"word": "ABC"}), "invalid argument `word`: \"ABC\" does not match \"^[a-z]+$\""),
    ] {
        let answer = answer(&server, call(name, arguments)).await;
        assert_eq!(answer["result"]["content"][0]["text"], said);
    }
    let error = memory::connect(&Server::new("test", "1").tool(patterned)).err().unwrap().to_string();
    assert!(error.contains("`pattern` at `#/properties/word`"), "{error}");
    assert!(error.contains("add `#[tool(validated)]`"), "{error}");
}
