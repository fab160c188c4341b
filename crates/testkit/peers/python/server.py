"""The server of the Python package `mcp`, in every revision. It offers what `../typescript/inventory.mjs` offers.

A run is `server.py --stdio`, `--http PORT` or `--sse PORT`. Over HTTP it listens on 127.0.0.1 (at a free port if that
is 0), says `ready PORT` when it does, and ends with its standard input.
"""

import asyncio
import os
import socket
import sys
import threading
import warnings
from typing import Annotated, get_args

import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel

STATELESS = "2026-07-28"
LEVELS = get_args(types.LoggingLevel)
SLOW = 30
PAGE = 2
RETRY_MS = 50
# Nobody waits longer for what may never happen.
PATIENCE = 5

server = MCPServer("peers", version="1.0.0", instructions="Try everything.", log_level="ERROR")


class Wire:
    """What is known of a session over HTTP beside what the package knows."""

    def __init__(self):
        self.listening = asyncio.Event()
        """The client has opened a stream for what a server says by itself. News that come before are lost."""
        self.back = asyncio.Event()
        """The client has resumed a stream."""
        self.watched = set()
        """What it has subscribed to."""
        self.level = LEVELS[0]
        """The least it wants to hear of."""


wires = {}


def wire_of(context):
    """The wire of a call. Where everything goes over one channel, the client listens from the beginning."""
    request = context.request_context.request if isinstance(context, Context) else context.request
    named = request and (request.headers.get("mcp-session-id") or request.query_params.get("session_id"))
    known = wires.get(named)
    if known is None:
        known = wires[named] = Wire()
    if request is None or "mcp-session-id" not in request.headers:
        known.listening.set()
    return known


class Slow:
    """The last call of `slow` in this process: a session may be gone, or there may be none."""

    cancelled = False
    ended = asyncio.Event()
    ended.set()


class Sum(BaseModel):
    sum: int


class Form(BaseModel):
    name: str
    sure: bool = True


def tool(work):
    # The package would make structured output of every result.
    server.add_tool(work, description=f"The tool {work.__name__}.", structured_output=False)
    return work


@server.tool(description="The tool add.")
async def add(a: int, b: int) -> Annotated[types.CallToolResult, Sum]:
    text = types.TextContent(type="text", text=str(a + b))
    return types.CallToolResult(content=[text], structured_content={"sum": a + b})


@tool
async def steps(n: int, context: Context) -> str:
    for step in range(1, n + 1):
        await context.report_progress(step, n)
    return "done"


def request_for_a_name() -> Elicit[Form]:
    return Elicit("Who is there?", Form)


@tool
async def ask(answer: Annotated[ElicitationResult[Form], Resolve(request_for_a_name)]) -> str:
    if answer.action != "accept":
        raise ToolError(answer.action)
    return f"hello {answer.data.name}"


def request_for_a_word() -> Sample:
    text = types.TextContent(type="text", text="Say a word.")
    return Sample([types.SamplingMessage(role="user", content=text)], max_tokens=10)


@tool
async def sample(answer: Annotated[types.CreateMessageResult, Resolve(request_for_a_word)]) -> str:
    return f"the model says {answer.content.text}"


def request_for_roots() -> ListRoots:
    return ListRoots()


@tool
async def roots(answer: Annotated[types.ListRootsResult, Resolve(request_for_roots)]) -> str:
    return " ".join(str(root.uri) for root in answer.roots)


@tool
async def fail() -> str:
    raise ToolError("this always fails")


@tool
async def slow(context: Context) -> str:
    Slow.cancelled, Slow.ended = False, asyncio.Event()
    try:
        await context.report_progress(0)
        await asyncio.sleep(SLOW)
    except asyncio.CancelledError:
        Slow.cancelled = True
        raise
    finally:
        Slow.ended.set()
    return "slept"


@tool
async def was_cancelled() -> str:
    await soon(Slow.ended)
    return str(Slow.cancelled).lower()


@tool
async def drop(context: Context) -> str:
    """The second step is said while the client is away, the third when it is back."""
    await context.report_progress(1, 3)
    back = wire_of(context).back
    back.clear()
    await lose(context)
    await context.report_progress(2, 3)
    if not await soon(back):
        raise ToolError("nobody came back")
    await context.report_progress(3, 3)
    return "resumed"


async def lose(context):
    # Older revisions do not let a server close a stream on purpose.
    if context.request_context.close_sse_stream:
        return await context.close_sse_stream()
    request = context.request_context.request
    if request is None or "exchange" not in request.scope:
        raise ToolError("there is no stream to lose")
    await request.scope["exchange"].cut()


@tool
async def grow(context: Context) -> str:
    await soon(wire_of(context).listening)
    if not any(known.name == "grown" for known in await server.list_tools()):
        tool(grown)
    if context.protocol_version == STATELESS:
        await context.notify_tools_changed()
    else:
        await context.session.send_tool_list_changed()
    return "grown"


async def grown() -> str:
    return "I am new"


@tool
async def log(level: str, context: Context) -> str:
    wire = wire_of(context)
    await soon(wire.listening)
    # The package leaves it to a server what is too little to be heard of, until 2026-07-28.
    if LEVELS.index(level) >= LEVELS.index(wire.level):
        await context.log(level, f"this is {level}", logger_name="peers")
    return "logged"


@tool
async def touch(uri: str, context: Context) -> str:
    wire = wire_of(context)
    await soon(wire.listening)
    if context.protocol_version == STATELESS:
        await context.notify_resource_updated(uri)
    elif uri in wire.watched:
        await context.session.send_resource_updated(uri)
    return "touched"


@server.resource("memo://one", name="one", mime_type="text/plain")
def one() -> str:
    return "the first memo"


@server.resource("memo://two", name="two", mime_type="text/plain")
def two() -> str:
    return "the second memo"


@server.resource("memo://bytes", name="bytes", mime_type="application/octet-stream")
def some_bytes() -> bytes:
    return bytes([0, 1, 254, 255])


@server.resource("memo://{id}", name="memo", mime_type="text/plain")
def memo(id: str) -> str:
    return f"memo {id}"


@server.prompt(description="Greets somebody.")
def greet(who: str) -> str:
    return f"Greet {who}."


@server.completion()
async def complete(reference, argument, context):
    names = [name for name in ("Ada", "Alan", "Grace") if name.startswith(argument.value)]
    return types.Completion(values=names, total=len(names), has_more=False)


async def list_resources(context, params):
    """The package puts everything on one page; this takes the place of what it would answer."""
    everything = await server.list_resources()
    start = int(params.cursor or 0)
    end = start + PAGE
    more = str(end) if end < len(everything) else None
    return types.ListResourcesResult(resources=everything[start:end], next_cursor=more)


async def subscribe(context, params):
    wire_of(context).watched.add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(context, params):
    wire_of(context).watched.discard(str(params.uri))
    return types.EmptyResult()


async def set_level(context, params):
    wire_of(context).level = params.level
    return types.EmptyResult()


def add_what_has_no_decorator():
    below = server._lowlevel_server
    below.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    below.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
    below.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
    below.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    # Nobody else can say that tools may change.
    options, changes = below.create_initialization_options, NotificationOptions(tools_changed=True)
    below.create_initialization_options = lambda: options(changes)


class Events(EventStore):
    """What was sent on each stream, for whoever comes back. The ids count, so that the order is that of sending."""

    def __init__(self):
        self.events = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        last = int(last_event_id)
        stream = self.events[last - 1][0]
        for number, (other, message) in enumerate(self.events[last:], last + 1):
            if other == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Exchange:
    """A request over HTTP and its answer."""

    def __init__(self, receive, send):
        self.inner_receive, self.inner_send = receive, send
        self.written, self.lost = asyncio.Event(), asyncio.Event()

    async def cut(self):
        """Cuts it as if the network had failed, after its first event has left."""
        await self.written.wait()
        self.lost.set()

    async def receive(self):
        received, lost = asyncio.ensure_future(self.inner_receive()), asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait([received, lost], return_when=asyncio.FIRST_COMPLETED)
            return {"type": "http.disconnect"} if lost.done() else received.result()
        finally:
            received.cancel()
            lost.cancel()

    async def send(self, message):
        await self.inner_send(message)
        if message["type"] == "http.response.body" and message.get("body"):
            self.written.set()


def watched(app):
    """Notes what clients of sessions do."""

    async def serve(scope, receive, send):
        headers = dict(scope.get("headers", ()))
        session = headers.get(b"mcp-session-id")
        if scope["type"] != "http" or session is None:
            return await app(scope, receive, send)
        if scope["method"] == "POST":
            exchange = scope["exchange"] = Exchange(receive, send)
            return await app(scope, exchange.receive, exchange.send)
        wire = wires.setdefault(session.decode(), Wire())
        seen = wire.back if b"last-event-id" in headers else wire.listening

        async def noting(message):
            await send(message)
            if message["type"] == "http.response.start" and message["status"] == 200:
                # The stream is there a moment after its headers, and the package tells nobody when.
                asyncio.get_running_loop().call_later(0.1, seen.set)

        await app(scope, receive, noting)

    return serve


async def soon(event):
    """Whether something has happened in time."""
    try:
        await asyncio.wait_for(event.wait(), PATIENCE)
    except TimeoutError:
        return False
    return True


def serve_http(app, port):
    threading.Thread(target=end_with_input, daemon=True).start()
    with socket.create_server(("127.0.0.1", port)) as listener:
        print("ready", listener.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_level="error")
        uvicorn.Server(config).run(sockets=[listener])


def end_with_input():
    """Whoever started this process holds the other end, and has gone when it closes."""
    sys.stdin.buffer.read()
    os._exit(0)


def main(*arguments):
    # What 2026-07-28 has no longer is called here for the revisions that have it.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    add_what_has_no_decorator()
    match arguments:
        case ["--stdio"]:
            server.run("stdio")
        case ["--http", port]:
            app = server.streamable_http_app(event_store=Events(), retry_interval=RETRY_MS)
            serve_http(watched(app), int(port))
        case ["--sse", port]:
            serve_http(server.sse_app(), int(port))
        case _:
            sys.exit("usage: --stdio | --http PORT | --sse PORT")


if __name__ == "__main__":
    main(*sys.argv[1:])
