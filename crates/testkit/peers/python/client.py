"""The client of the Python package `mcp`, in every revision, over HTTP (in the first HTTP+SSE) and stdio.

A run is `client.py [--offers NAME] SERVER REVISION FEATURE…`; each feature becomes one line of JSON on standard output.
SERVER is a URL or a command as a list in JSON, and offers what stands under NAME in `../offers.json`, of which
`../typescript/features.mjs` says more.
"""

import asyncio
import json
import logging
import re
import sys
import uuid
import warnings
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx2
import mcp.client.session
import mcp_types as types
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning

# A client that has not done a feature by then hangs.
LIMIT = 20
STATELESS = "2026-07-28"
SSE = "2024-11-05"

# Between two attempts to be heard.
AGAIN = 0.5
OFFERS = json.loads((Path(__file__).parent.parent / "offers.json").read_text())
offers = OFFERS["peers"]


async def main(url, revision, *features):
    """`url` is where the server is, or the command that starts it."""
    # What 2026-07-28 has no longer is called here for the revisions that have it.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    # It looks for a tool only on the first page of the list, and warns of those on the others.
    logging.disable(logging.WARNING)
    # It always offers its newest revision and has no option for another, so what it takes for the newest is replaced.
    mcp.client.session.LATEST_HANDSHAKE_VERSION = revision
    for feature in features:
        try:
            note = await asyncio.wait_for(FEATURES[feature](url, revision), LIMIT)
            said = {"ok": True, "note": note or ""}
        except Exception as error:
            requests = f"requests: {', '.join(Wire.seen[-10:])}"
            said = {"ok": False, "note": "; ".join([in_words(error), requests])}
        print(json.dumps({"peer": "mcp", "revision": revision, "feature": feature, **said}), flush=True)


@asynccontextmanager
async def connected(url, revision, wire, **heard):
    """One connection, which ends its session when it is left."""
    mode = "auto" if revision == STATELESS else "legacy"
    if url.startswith("["):
        command, *args = json.loads(url)
        parameters = StdioServerParameters(command=command, args=args)
        async with Client(stdio_client(parameters), mode=mode, **heard) as client:
            equal(client.protocol_version, revision)
            yield client
        return
    if revision == SSE:
        transport = sse_client(urljoin(url, "/sse"), httpx_client_factory=lambda **_: wire.client())
        async with Client(transport, mode=mode, **heard) as client:
            equal(client.protocol_version, revision)
            yield client
        return
    async with wire.client() as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode, **heard) as client:
            equal(client.protocol_version, revision)
            yield client


class Wire:
    """What lies between a client and the network: takes notes, and can cut the stream of a call."""

    seen = []
    """Each request of any wire, and how it was answered."""

    def __init__(self):
        self.listening = asyncio.Event()
        """The stream for what the server says by itself is open."""
        self.ended = asyncio.Event()
        """The server has ended the stream of `hold`."""
        self.back = asyncio.Event()
        """The client has resumed a stream."""
        self.may_return = asyncio.Event()
        """Whoever wants to resume waits for this."""
        self.resumed = []
        """The Last-Event-ID of each GET that resumes."""
        self.lines = []
        self.holding = None

    def client(self):
        hooks = {"request": [self.asked], "response": [self.answered]}
        # A proxy that the environment names knows nothing of our server.
        return httpx2.AsyncClient(event_hooks=hooks, timeout=httpx2.Timeout(LIMIT), trust_env=False)

    def answers(self, text):
        """How often an answer came that holds this text."""
        return sum(text in line and '"result"' in line for line in self.lines)

    async def cut(self):
        """Closes the connection that carries the stream of `hold`."""
        if not any(line.startswith("id:") for line in self.lines):
            raise AssertionError("there is no stream with an event id to cut")
        await self.holding.aclose()

    async def asked(self, request):
        last = request.headers.get("last-event-id")
        if last is not None:
            self.resumed.append(last)
            await self.may_return.wait()

    async def answered(self, response):
        request = response.request
        self.seen.append(f"{request.method} {response.status_code}")
        if request.method == "GET" and response.status_code == 200:
            (self.back if "last-event-id" in request.headers else self.listening).set()
        ended = None
        if request.method == "POST" and b'"hold"' in request.content:
            self.holding = response.extensions["network_stream"]
            ended = self.ended
        response.stream = Noted(response.stream, self.lines, ended)


class Noted(httpx2.AsyncByteStream):
    """Passes on what it reads, and notes the lines."""

    def __init__(self, stream, lines, ended):
        self.stream, self.lines, self.ended = stream, lines, ended

    async def __aiter__(self):
        rest = ""
        async for chunk in self.stream:
            *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
            self.lines.extend(lines)
            yield chunk
        self.lines.append(rest)
        if self.ended:
            self.ended.set()

    async def aclose(self):
        await self.stream.aclose()


async def list_tools(url, revision):
    async with connected(url, revision, Wire()) as client:
        tools = await pages(client.list_tools, "tools")
        begins([tool.name for tool in tools], offers["tools"])
        equal(tools[0].input_schema["required"], offers["required"])


async def call(url, revision):
    add = offers["add"]
    async with connected(url, revision, Wire()) as client:
        answers = await asyncio.gather(*(client.call_tool(add["tool"], {"a": 40, "b": b}) for b in (1, 2, 3)))
        equal([text(answer) for answer in answers], add["says"])


async def progress(url, revision):
    steps = []

    async def step(done, total, message):
        steps.append((done, total))

    async with connected(url, revision, Wire()) as client:
        answer = await client.call_tool(*offers["progress"]["call"], progress_callback=step)
        fits(text(answer), offers["progress"]["says"])
        equal(steps, [(1, 3), (2, 3), (3, 3)])


async def elicitation(url, revision):
    asked, elicitation = [], offers["elicitation"]

    async def elicit(context, question):
        asked.append(question)
        return types.ElicitResult(action="accept", content=elicitation["answer"])

    async with connected(url, revision, Wire(), elicitation_callback=elicit) as client:
        fits(text(await client.call_tool(*elicitation["call"])), elicitation["says"])
        equal([question.message for question in asked], [elicitation["asks"]])
        equal(list(asked[0].requested_schema["properties"]), list(elicitation["answer"]))


async def sampling(url, revision):
    asked, sampling = [], offers["sampling"]

    async def sample(context, question):
        asked.append([message.content.text for message in question.messages])
        word = types.TextContent(type="text", text="four")
        return types.CreateMessageResult(role="assistant", content=word, model="a model")

    async with connected(url, revision, Wire(), sampling_callback=sample) as client:
        fits(text(await client.call_tool(*sampling["call"])), sampling["says"])
        equal(asked, [[sampling["asks"]]])


async def roots(url, revision):
    async def listed(context):
        uris = "file:///srv/one", "file:///srv/two"
        return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in uris])

    async with connected(url, revision, Wire(), list_roots_callback=listed) as client:
        fits(text(await client.call_tool(*offers["roots"]["call"])), offers["roots"]["says"])


async def cancellation(url, revision):
    cancellation, begun = offers["cancellation"], asyncio.Event()

    async def step(done, total, message):
        begun.set()

    async with connected(url, revision, Wire()) as client:
        slow = asyncio.create_task(client.call_tool(*cancellation["call"], progress_callback=step))
        await before(begun.wait(), slow)
        slow.cancel()
        await asyncio.wait([slow])
        # What cancels a call may arrive behind the next one.
        while text(await client.call_tool(*cancellation["seen"])) != cancellation["says"]:
            pass


async def changes(url, revision):
    changes, wire, change = offers["changes"], Wire(), asyncio.Event()
    kind = changes["list"]

    async def hear(message):
        if getattr(message, "method", None) == f"notifications/{kind}/list_changed":
            change.set()

    async with connected(url, revision, wire, message_handler=hear) as client:

        async def news():
            found = await pages(getattr(client, f"list_{kind}"), kind)
            return any(one.name == changes["new"] for one in found)

        assert not await news(), "it was there before"
        if revision == STATELESS:
            async with client.listen(**{f"{kind}_list_changed": True}):
                await called_until(change, client, changes)
        else:
            await listening(url, wire)
            await called_until(change, client, changes)
        assert await news(), "the list is as before"


async def logs(url, revision):
    wanted, wire, log, said = offers["logging"], Wire(), asyncio.Event(), []

    async def logged(message):
        said.append(message.data)
        if re.fullmatch(pattern(wanted["says"]), message.data, re.DOTALL):
            log.set()

    level = wanted["level"]
    async with connected(url, revision, wire, logging_callback=logged, log_level=level) as client:
        if revision != STATELESS:
            await listening(url, wire)
            await client.set_logging_level(level)
        if "silent" in wanted:
            await client.call_tool(*wanted["silent"])
        await called_until(log, client, wanted)
        if "silent" in wanted:
            equal(said, [wanted["says"]])


async def resources(url, revision):
    wire = Wire()
    updates, update = [], asyncio.Event()
    uri, touch = offers["update"]["uri"], offers["update"]["call"]

    async def hear(message):
        if getattr(message, "method", None) == "notifications/resources/updated":
            updates.append(str(message.params.uri))
            update.set()

    async with connected(url, revision, wire, message_handler=hear) as client:
        equal([str(one.uri) for one in await pages(client.list_resources, "resources")], offers["resources"])
        templates = await pages(client.list_resource_templates, "resource_templates")
        equal([one.uri_template for one in templates], offers["templates"])
        for read, says in offers["texts"].items():
            fits((await client.read_resource(read)).contents[0].text, says)
        if revision == STATELESS:
            async with client.listen(resource_subscriptions=[uri]) as news:
                await called_until(update, client, offers["update"])
                equal(str((await anext(news)).uri), uri)
            equal(updates, [uri])
            return
        await listening(url, wire)
        await client.subscribe_resource(uri)
        await called_until(update, client, offers["update"])
        await client.unsubscribe_resource(uri)
        await client.call_tool(*touch)
        equal(updates, [uri])


async def prompts(url, revision):
    prompt, completion = offers["prompt"], offers["completion"]
    async with connected(url, revision, Wire()) as client:
        found = await pages(client.list_prompts, "prompts")
        equal([one.name for one in found], offers["prompts"])
        [arguments] = [one.arguments for one in found if one.name == prompt["get"][0]]
        equal([bool(argument.required) for argument in arguments], prompt["required"])
        answer = await client.get_prompt(*prompt["get"])
        equal(answer.messages[0].content.text, prompt["says"])
        name, argument, value = completion["of"]
        reference = types.PromptReference(type="ref/prompt", name=name)
        answer = await client.complete(reference, {"name": argument, "value": value})
        equal(answer.completion.values, completion["values"])


async def resumption(url, revision):
    """The stream of a call is lost before its answer. Each way is one call."""
    ways = ["cut, answered while away", "cut, answered when back"]
    # Older revisions do not let a server close a stream on purpose.
    if revision == "2025-11-25":
        ways.append("closed by the server, answered while away")
    for way in ways:
        try:
            await resume(url, revision, way)
        except Exception as error:
            raise AssertionError(f"{way}: {in_words(error)}") from error
    return "; ".join(ways)


async def resume(url, revision, way):
    wire, key, steps, begun = Wire(), str(uuid.uuid4()), [], asyncio.Event()
    closes = way.startswith("closed")

    async def step(done, total, message):
        steps.append(done)
        begun.set()

    async with connected(url, revision, wire) as client:
        holding = client.call_tool("hold", {"key": key, "closes": closes}, progress_callback=step)
        holding = asyncio.create_task(holding)
        # If something fails before it is awaited, that is what shall be said, and not that nobody awaited it.
        holding.add_done_callback(lambda call: call.cancelled() or call.exception())
        await before(begun.wait(), holding)
        if closes:
            await before(wire.ended.wait(), holding)
        else:
            await wire.cut()
        # The client comes back by itself, but not before it may.
        if way.endswith("when back"):
            wire.may_return.set()
            await before(wire.back.wait(), holding)
        await client.call_tool("release", {"key": key})
        wire.may_return.set()
        equal(text(await holding), f"{key}: run 1")
        assert len(steps) == 1, f"progress came {len(steps)} times"
        assert wire.answers(key) == 1, f"the answer came {wire.answers(key)} times"
        assert wire.resumed, "there was no GET with Last-Event-ID"


async def before(event, call):
    """Waits for an event that must come before a call is answered."""
    event = asyncio.ensure_future(event)
    await asyncio.wait([event, call], return_when=asyncio.FIRST_COMPLETED)
    if call.done():
        event.cancel()
        raise AssertionError(f"the call ended too early: {call.exception() or call.result()}")


async def listening(url, wire):
    """News come on a stream of their own, which this client opens without waiting for it."""
    if not url.startswith("["):
        await wire.listening.wait()


async def called_until(event, client, feature):
    """Calls a tool until something is heard of it; again only where the server does not wait until somebody listens."""
    while not event.is_set():
        await client.call_tool(*feature["call"])
        try:
            await asyncio.wait_for(event.wait(), AGAIN if feature.get("again") else None)
        except TimeoutError:
            pass


async def pages(fetch, key):
    everything, cursor = [], None
    while True:
        page = await fetch(cursor=cursor)
        everything += getattr(page, key)
        cursor = page.next_cursor
        if cursor is None:
            return everything


def text(answer):
    assert not answer.is_error, f"the tool failed: {answer.content}"
    return "\n".join(block.text for block in answer.content)


def fits(seen, expected):
    assert re.fullmatch(pattern(expected), seen, re.DOTALL), f"{seen!r} is not {expected!r}"


def pattern(expected):
    return ".*".join(re.escape(part) for part in expected.split("…"))


def begins(seen, expected):
    *first, last = expected
    equal(seen[: len(first)] if last == "…" else seen, first if last == "…" else expected)


def equal(left, right):
    assert left == right, f"{left!r} is not {right!r}"


def in_words(error):
    """What went wrong, without the groups that tasks wrap around it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(in_words(one) for one in error.exceptions)
    if isinstance(error, TimeoutError):
        return f"this was not done in {LIMIT} s"
    return str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"


FEATURES = {
    "list": list_tools,
    "call": call,
    "progress": progress,
    "elicitation": elicitation,
    "sampling": sampling,
    "roots": roots,
    "cancellation": cancellation,
    "changes": changes,
    "logging": logs,
    "resources": resources,
    "prompts": prompts,
    "resumption": resumption,
}

if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "--offers":
        _, name, *words = words
        offers = OFFERS[name]
    asyncio.run(main(*words))
