"""Tokens that authlib signs, at our protected server: every algorithm that is accepted, and every attack.

A run is `python tokens.py PROGRAM`, where PROGRAM is `protected-server`. Each check prints `ok NAME` or `not ok NAME: WHY`.
"""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

warnings.simplefilter("ignore")
from authlib.jose import JsonWebKey, JsonWebSignature, JsonWebToken  # noqa: E402

RSA = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
ALGORITHMS = [*RSA, "ES256", "ES384", "EdDSA"]


def new_key(algorithm, kid):
    options = {"kid": kid}
    if algorithm in RSA:
        return JsonWebKey.generate_key("RSA", 2048, options, is_private=True)
    if algorithm == "EdDSA":
        return JsonWebKey.generate_key("OKP", "Ed25519", options, is_private=True)
    return JsonWebKey.generate_key("EC", {"ES256": "P-256", "ES384": "P-384"}[algorithm], options, is_private=True)


KEYS = {algorithm: new_key(algorithm, f"key-{algorithm}") for algorithm in ALGORITHMS}
EVIL = {algorithm: new_key(algorithm, f"key-{algorithm}") for algorithm in ["RS256", "ES256", "EdDSA"]}
fetched = []


class Issuer(BaseHTTPRequestHandler):
    """The metadata and the public keys."""

    def do_GET(self):
        fetched.append(self.path)
        documents = {
            "/.well-known/openid-configuration": {"issuer": issuer, "jwks_uri": f"{issuer}/jwks"},
            "/jwks": {"keys": [{**key.as_dict(), "alg": algorithm, "use": "sig"} for algorithm, key in KEYS.items()]},
            "/evil": {"keys": [key.as_dict() for key in EVIL.values()]},
        }
        document = documents.get(self.path)
        body = json.dumps(document or {}).encode()
        self.send_response(200 if document else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


web = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
threading.Thread(target=web.serve_forever, daemon=True).start()
issuer = f"http://127.0.0.1:{web.server_port}"
server = subprocess.Popen(
    [sys.argv[1], "--issuer", issuer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
resource = f"http://127.0.0.1:{server.stdout.readline().split()[1]}/mcp"


def call(token):
    """Returns the status, and the text of the result or the challenge."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "whoami", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "whoami",
        "authorization": f"Bearer {token}",
    }
    request = urllib.request.Request(resource, json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response)["result"]["content"][0]["text"]
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get("www-authenticate", "")


def claims(**changes):
    now = int(time.time())
    usual = {
        "iss": issuer, "aud": resource, "sub": "ann", "client_id": "app", "scope": "a b", "iat": now, "exp": now + 60,
    }
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def issue(algorithm):
    """A token as applications that use authlib make it."""
    header = {"alg": algorithm, "typ": "at+jwt"}
    return JsonWebToken(ALGORITHMS).encode(header, claims(), KEYS[algorithm]).decode()


def sign(algorithm, payload, key=None, **header):
    """A token with exactly these members, which `JsonWebToken` would correct."""
    header = {"alg": algorithm, "typ": "at+jwt", "kid": f"key-{algorithm}", **header}
    header = {name: value for name, value in header.items() if value is not None}
    return sign_text(algorithm, f"{encode(header)}.{encode(payload)}", key or KEYS[algorithm])


def sign_text(algorithm, text, key):
    """Signs what is already encoded."""
    signer = JsonWebSignature.ALGORITHMS_REGISTRY[algorithm]
    return f"{text}.{encode(signer.sign(text.encode(), signer.prepare_key(key)))}"


def encode(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign_hmac(secret, kid):
    """A code of a shared secret instead of a signature. Authlib refuses a public key as a secret."""
    signed = f"{encode({'alg': 'HS256', 'typ': 'at+jwt', 'kid': kid})}.{encode(claims())}"
    code = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{encode(code)}"


def check(name, token, status, part):
    found = call(token)
    right = found[0] == status and part in found[1]
    print(f"ok {name}" if right else f"not ok {name}: {found}", flush=True)


def attacks():
    """Each token, with a part of the reason for which it must be refused."""
    now = int(time.time())
    good = sign("ES256", claims())
    signed, signature = good.rsplit(".", 1)
    public = KEYS["RS256"].as_pem(is_private=False)
    unsigned = f"{encode({'alg': 'none'})}.{encode(claims())}."
    yield "no signature", unsigned, ""
    yield "alg none with a signature", unsigned + signature, "algorithm"
    yield "the public key as a shared secret", sign_hmac(public, "key-RS256"), "algorithm"
    yield "the JWK as a shared secret", sign_hmac(KEYS["ES256"].as_json().encode(), "key-ES256"), "algorithm"
    for algorithm, key in EVIL.items():
        yield f"a foreign key under the id of ours ({algorithm})", sign(algorithm, claims(), key), "signature"
    own = {"jwk": EVIL["ES256"].as_dict()}
    yield "a key in the header", sign("ES256", claims(), EVIL["ES256"], **own), "signature"
    jku = {"jku": f"{issuer}/evil", "x5u": f"{issuer}/evil"}
    yield "a URL of keys in the header", sign("ES256", claims(), EVIL["ES256"], kid="evil", **jku), "key"
    yield "an unknown key id", sign("ES256", claims(), kid="unknown"), "key"
    yield "the algorithm of another key", sign("PS256", claims(), KEYS["RS256"], kid="key-ES256"), "key"
    yield "a critical extension", sign("ES256", claims(), crit=["exp"]), "extension"
    yield "another type", sign("ES256", claims(), typ="logout+jwt"), "type"
    yield "expired", sign("ES256", claims(exp=now - 120)), "expired"
    yield "no expiry", sign("ES256", claims(exp=None)), "expiry"
    yield "not valid yet", sign("ES256", claims(nbf=now + 120)), "not valid yet"
    yield "another issuer", sign("ES256", claims(iss="https://evil.example")), "issuer"
    yield "the issuer with a slash", sign("ES256", claims(iss=f"{issuer}/")), "issuer"
    yield "another audience", sign("ES256", claims(aud="https://other.example/mcp")), "audience"
    yield "an audience with the same prefix", sign("ES256", claims(aud=f"{resource}2")), "audience"
    yield "no audience", sign("ES256", claims(aud=None)), "audience"
    yield "nobody", sign("ES256", claims(sub=None, client_id=None)), "subject"
    yield "bound to a key, without a proof", sign("ES256", claims(cnf={"jkt": "x"})), "proof"
    yield "other claims under the signature", f"{signed.split('.')[0]}.{encode(claims(sub='root'))}.{signature}", "signature"
    twice = json.dumps(claims())[:-1] + ', "sub": "root"}'
    yield "a claim twice", sign("ES256", twice.encode()), "claims"
    yield "no object", sign("ES256", b'["x"]'), ""
    yield "too large", sign("ES256", claims(x="x" * 13000)), "16 KiB"


for algorithm in ALGORITHMS:
    check(f"a token signed with {algorithm} is accepted", issue(algorithm), 200, "ann app a,b")
    check(f"a token without a key id ({algorithm}) is accepted", sign(algorithm, claims(), kid=None), 200, "ann")
for name, token, reason in attacks():
    check(f"refused: {name}", token, 401, reason)
print("ok no key of the header was fetched" if "/evil" not in fetched else "not ok /evil was fetched")
server.stdin.close()
server.wait()
