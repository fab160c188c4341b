"""A client of the package mcp logs in to a protected server, and authlib verifies the token it gets.

A run is `python login.py URL NAME`, where NAME is how the client calls itself. It prints `open ADDRESS` for the browser,
and then `ok TEXT`, the result of a call and the user in the token, or `denied ERROR`.
"""

import asyncio
import json
import sys
import threading
import urllib.request
import warnings
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlparse

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

warnings.simplefilter("ignore")
from authlib.jose import JsonWebKey, JsonWebToken  # noqa: E402

url, name = sys.argv[1:]
answers = asyncio.Queue()


class Callback(BaseHTTPRequestHandler):
    def do_GET(self):
        parts = urlparse(self.path)
        found = parts.path == "/callback"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(b"You are logged in" if found else b"")
        if found:
            loop.call_soon_threadsafe(answers.put_nowait, {key: values[0] for key, values in parse_qs(parts.query).items()})

    def log_message(self, *_):
        pass


class Kept:
    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


async def show(address):
    print(f"open {address}", flush=True)


async def answer():
    params = await answers.get()
    if "error" in params:
        print(f"denied {params['error']}", flush=True)
        sys.stdout.flush()
        import os

        os._exit(0)
    return AuthorizationCodeResult(code=params["code"], state=params.get("state"), iss=params.get("iss"))


def verify(token):
    """What authlib says about a token, with the keys of its issuer."""
    origin = url.removesuffix("/mcp")
    with urllib.request.urlopen(f"{origin}/.well-known/oauth-authorization-server") as response:
        metadata = json.load(response)
    with urllib.request.urlopen(metadata["jwks_uri"]) as response:
        keys = JsonWebKey.import_key_set(json.load(response))
    options = {
        "iss": {"essential": True, "value": metadata["issuer"]},
        "aud": {"essential": True, "value": url},
        "exp": {"essential": True},
        "iat": {"essential": True},
        "jti": {"essential": True},
        "client_id": {"essential": True},
    }
    claims = JsonWebToken(["ES256"]).decode(token, keys, claims_options=options)
    claims.validate()
    assert claims.header["typ"] == "at+jwt", claims.header
    return claims["sub"]


async def main():
    global loop
    loop = asyncio.get_running_loop()
    web = HTTPServer(("127.0.0.1", 0), Callback)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    callback = f"http://127.0.0.1:{web.server_port}/callback"
    metadata = OAuthClientMetadata(
        client_name=name,
        redirect_uris=[callback],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    kept = Kept()
    auth = OAuthClientProvider(url, metadata, kept, redirect_handler=show, callback_handler=answer)
    async with httpx2.AsyncClient(auth=auth, timeout=httpx2.Timeout(60), trust_env=False) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})
    print(f"ok {result.content[0].text} {verify(kept.tokens.access_token)}", flush=True)


asyncio.run(main())
