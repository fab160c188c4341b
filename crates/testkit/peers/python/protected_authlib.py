"""A server of FastMCP behind an authorization server whose signatures are made and verified by authlib.

Clients authenticate with signed assertions (`private_key_jwt`), and tokens may be bound to a key (DPoP). `/signed` lists
tokens that authlib has signed, for the client to verify.

A run is `python protected_authlib.py KEYS`, with the folder of the private keys of its clients. It says `ready PORT` and ends
with its standard input.
"""

import asyncio
import base64
import hashlib
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

import uvicorn
from authlib.jose import JsonWebKey, JsonWebToken
from authlib.jose.errors import JoseError
from authlib.oauth2.rfc6749 import OAuth2Error
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_http_request
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

KEYS = {"ES256": "p256", "ES384": "p384", "EdDSA": "ed25519", "RS256": "rsa", "PS256": "rsa"}
ISSUER_KEYS = {
    "EC": ("P-256", ["ES256"]),
    "EC-384": ("P-384", ["ES384"]),
    "OKP": ("Ed25519", ["EdDSA"]),
    "RSA": (2048, ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
}


class Assertion(JWTBearerClientAssertion):
    """The checks of authlib for the claims of an assertion."""

    def __init__(self, issuer):
        super().__init__()
        self.issuer, self.used = issuer, set()

    def get_audiences(self):
        return [self.issuer]

    def validate_jti(self, claims, jti):
        is_new = jti not in self.used
        self.used.add(jti)
        return is_new


class Issuer:
    def __init__(self, origin, keys):
        self.origin, self.resource = origin, f"{origin}/mcp"
        self.assertion, self.proofs = Assertion(origin), set()
        self.key = JsonWebKey.generate_key("EC", "P-256", is_private=True)
        self.clients = {
            f"key-{algorithm}": (algorithm, JsonWebKey.import_key((keys / f"{name}.pem").read_text()))
            for algorithm, name in KEYS.items()
        }
        self.clients["other-ES256"] = ("ES256", JsonWebKey.generate_key("EC", "P-256", is_private=True))

    def metadata(self, _):
        return JSONResponse({
            "issuer": self.origin,
            "token_endpoint": f"{self.origin}/token",
            "token_endpoint_auth_methods_supported": ["private_key_jwt"],
            "grant_types_supported": ["client_credentials"],
        })

    def resource_metadata(self, _):
        return JSONResponse({"resource": self.resource, "authorization_servers": [self.origin]})

    async def token(self, request):
        form = await request.form()
        try:
            algorithm, key = self.clients[form["client_id"]]
            claims = JsonWebToken([algorithm]).decode(form["client_assertion"], key)
            if claims["sub"] != form["client_id"]:
                raise ValueError("the assertion is about another client")
            self.assertion.verify_claims(claims)
        except (JoseError, OAuth2Error, KeyError, ValueError) as error:
            print("assertion", repr(error), flush=True)
            return JSONResponse({"error": "invalid_client"}, 401)
        claims = {"iss": self.origin, "aud": self.resource, "sub": form["client_id"], "exp": int(time.time()) + 60}
        kind = "Bearer"
        if proof := request.headers.get("dpop"):
            try:
                claims["cnf"] = {"jkt": self.check_proof(proof, f"{self.origin}/token", None)}
                kind = "DPoP"
            except (JoseError, KeyError, ValueError) as error:
                print("proof", repr(error), flush=True)
                return JSONResponse({"error": "invalid_dpop_proof"}, 400)
        token = JsonWebToken(["ES256"]).encode({"alg": "ES256"}, claims, self.key).decode()
        return JSONResponse({"access_token": token, "token_type": kind, "expires_in": 60})

    def check_proof(self, proof, url, token):
        """Returns the thumbprint of the key of a proof."""
        header = json.loads(decode(proof.split(".")[0]))
        if header["typ"] != "dpop+jwt" or header["jwk"].keys() & {"d", "p", "q", "k"}:
            raise ValueError("the header is wrong")
        key = JsonWebKey.import_key(header["jwk"])
        claims = JsonWebToken(["ES256"]).decode(proof, key)
        expected = {"htm": "POST", "htu": url}
        if token:
            expected["ath"] = encode(hashlib.sha256(token.encode()).digest())
        for name, value in expected.items():
            if claims[name] != value:
                raise ValueError(f"{name} is {claims[name]}")
        if abs(claims["iat"] - time.time()) > 60 or claims["jti"] in self.proofs:
            raise ValueError("the proof is old or was used before")
        self.proofs.add(claims["jti"])
        return key.thumbprint()

    def check_request(self, request):
        """Returns the client of a request and the scheme of its token."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        claims = JsonWebToken(["ES256"]).decode(token, self.key)
        claims.validate()
        bound = claims.get("cnf", {}).get("jkt")
        if scheme != ("DPoP" if bound else "Bearer") or claims["aud"] != self.resource:
            raise ValueError("the token is of another kind")
        if bound and self.check_proof(request.headers["dpop"], self.resource, token) != bound:
            raise ValueError("the token is bound to another key")
        return claims["sub"], scheme

    def signed(self, _):
        """Tokens of every algorithm, each also with the signature of another token and of another key."""
        tokens = []
        for kind, (size, algorithms) in ISSUER_KEYS.items():
            key, other = (
                JsonWebKey.generate_key(kind.split("-")[0], size, is_private=True, options={"kid": "k"})
                for _ in range(2)
            )
            for algorithm in algorithms:
                sign = lambda key, name: (
                    JsonWebToken([algorithm]).encode({"alg": algorithm, "kid": "k"}, {"sub": name}, key).decode()
                )
                good, second = sign(key, "x"), sign(key, "y")
                forged = [sign(other, "x"), good.rpartition(".")[0] + "." + second.rpartition(".")[2]]
                public = key.as_dict(is_private=False)
                for token, is_valid in [(good, True), *((token, False) for token in forged)]:
                    tokens.append({"algorithm": algorithm, "jwk": public, "token": token, "valid": is_valid})
        return JSONResponse(tokens)


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def protect(app, issuer):
    """Lets requests to `app` through that carry a token."""

    async def check(scope, receive, send):
        if scope["type"] == "http":
            request = Request(scope)
            try:
                scope["caller"] = issuer.check_request(request)
            except (JoseError, KeyError, ValueError) as error:
                if "authorization" in request.headers:
                    print("token", repr(error), flush=True)
                metadata = f"{issuer.origin}/.well-known/oauth-protected-resource/mcp"
                headers = {"www-authenticate": f'Bearer resource_metadata="{metadata}"'}
                return await Response(status_code=401, headers=headers)(scope, receive, send)
        await app(scope, receive, send)

    return check


def end_with_input():
    sys.stdin.buffer.read()
    os._exit(0)


async def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    issuer = Issuer(f"http://127.0.0.1:{port}", Path(sys.argv[1]))
    server = FastMCP("protected")

    @server.tool
    def whoami() -> str:
        """Names the client"""
        name, scheme = get_http_request().scope["caller"]
        return f"you are {name} with {scheme}"

    inner = server.http_app(path="/mcp")
    app = Starlette(
        routes=[
            Route("/.well-known/oauth-protected-resource/mcp", issuer.resource_metadata),
            Route("/.well-known/oauth-authorization-server", issuer.metadata),
            Route("/token", issuer.token, methods=["POST"]),
            Route("/signed", issuer.signed),
        ],
        lifespan=inner.router.lifespan_context,
    )
    app.mount("/", protect(inner, issuer))
    web = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    running = asyncio.create_task(web.serve(sockets=[listener]))
    while not web.started:
        await asyncio.sleep(0.01)
    print(f"ready {port}", flush=True)
    await running


threading.Thread(target=end_with_input, daemon=True).start()
asyncio.run(main())
