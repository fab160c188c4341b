"""A server of FastMCP that requires a token, with the OAuth provider of FastMCP at the same address.

A run is `python protected.py`. It says `ready PORT` and ends with its standard input.
"""

import asyncio
import os
import socket
import sys
import threading

import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider


class Provider(InMemoryOAuthProvider):
    """The provider of the package, which says what it does."""

    async def authorize(self, client, params):
        print("login", flush=True)
        return await super().authorize(client, params)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        print("grant refresh_token", flush=True)
        return await super().exchange_refresh_token(client, refresh_token, scopes)


def end_with_input():
    sys.stdin.buffer.read()
    os._exit(0)


async def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    registration = ClientRegistrationOptions(enabled=True, valid_scopes=["files:read"])
    auth = Provider(
        base_url=f"http://127.0.0.1:{port}",
        client_registration_options=registration,
        required_scopes=["files:read"],
    )
    server = FastMCP("protected", auth=auth)

    @server.tool
    def whoami() -> str:
        """Names the user"""
        return "you are logged in"

    app = server.http_app(path="/mcp")
    web = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    running = asyncio.create_task(web.serve(sockets=[listener]))
    while not web.started:
        await asyncio.sleep(0.01)
    print(f"ready {port}", flush=True)
    await running


threading.Thread(target=end_with_input, daemon=True).start()
asyncio.run(main())
