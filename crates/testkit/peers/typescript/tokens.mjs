// Tokens of oidc-provider at our protected server: signed ones, opaque ones, ones bound to a key, and a rotation of the keys.
//
// A run is `node tokens.mjs PROGRAM`, where PROGRAM is `protected-server`. Each check prints `ok NAME` or `not ok NAME: WHY`.

import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, SignJWT } from 'jose';
import { Provider } from 'oidc-provider';

const [program] = process.argv.slice(2);
const SIGNING = ['RS256', 'PS256', 'ES256', 'EdDSA'];

const issuerServer = createServer();
await new Promise(resolve => issuerServer.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${issuerServer.address().port}`;

async function newKeys() {
  const keys = [];
  for (const alg of SIGNING) {
    const { privateKey } = await generateKeyPair(alg, { extractable: true });
    const jwk = await exportJWK(privateKey);
    keys.push({ ...jwk, alg, use: 'sig', kid: await calculateJwkThumbprint(jwk) });
  }
  return keys;
}

// A provider keeps the keys it starts with, so a rotation is a new provider at the same address.
async function startProvider() {
  const provider = new Provider(issuer, {
    jwks: { keys: await newKeys() },
    clients: [
      { client_id: 'app', client_secret: 'of-app', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
      { client_id: 'server', client_secret: 'of-server', grant_types: [], redirect_uris: [], response_types: [] },
    ],
    features: {
      clientCredentials: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
      dPoP: { enabled: true },
      resourceIndicators: {
        enabled: true,
        // The query of the resource says how its tokens are made; it is no part of the audience.
        getResourceServerInfo: (context, indicator) => {
          const url = new URL(indicator);
          const [alg, ttl] = [url.searchParams.get('alg'), Number(url.searchParams.get('ttl') ?? 60)];
          url.search = '';
          return {
            audience: url.href, scope: 'files:read', accessTokenTTL: ttl,
            ...(alg ? { accessTokenFormat: 'jwt', jwt: { sign: { alg } } } : { accessTokenFormat: 'opaque' }),
          };
        },
      },
    },
    scopes: ['files:read'],
  });
  provider.on('server_error', (context, error) => console.error(error));
  const callback = provider.callback();
  issuerServer.removeAllListeners('request');
  issuerServer.on('request', callback);
}

const form = async (path, fields, headers = {}) => {
  const basic = Buffer.from('app:of-app').toString('base64');
  const response = await fetch(issuer + path, {
    method: 'POST', body: new URLSearchParams(fields), headers: { authorization: `Basic ${basic}`, ...headers },
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return text && JSON.parse(text);
};

const token = async (resource, headers) => {
  const fields = { grant_type: 'client_credentials', scope: 'files:read', resource };
  return (await form('/token', fields, headers)).access_token;
};

async function proof(pair, method, url, accessToken) {
  const claims = { htm: method, htu: url, jti: crypto.randomUUID() };
  if (accessToken) {
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(accessToken));
    claims.ath = Buffer.from(digest).toString('base64url');
  }
  const jwk = await exportJWK(pair.publicKey);
  return new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk }).setIssuedAt().sign(pair.privateKey);
}

const servers = [];
async function startServer(...more) {
  const child = spawn(program, ['--issuer', issuer, ...more], { stdio: ['pipe', 'pipe', 'inherit'] });
  servers.push(child);
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith('ready ')) return `http://127.0.0.1:${line.slice(6)}/mcp`;
  }
  throw new Error('the server has ended');
}

// Calls the tool. Returns the status, the challenge and the text of the result.
async function call(resource, accessToken, { scheme = 'Bearer', dpop } = {}) {
  const params = {
    name: 'whoami', arguments: {},
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {},
    },
  };
  const response = await fetch(resource, {
    method: 'POST',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    headers: {
      'content-type': 'application/json', accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'whoami',
      authorization: `${scheme} ${accessToken}`, ...(dpop && { dpop }),
    },
  });
  const body = await response.text();
  const challenge = response.headers.get('www-authenticate') ?? '';
  return { status: response.status, challenge, text: response.ok ? JSON.parse(body).result.content[0].text : body };
}

function expect(found, status, part) {
  const text = status === 200 ? found.text : found.challenge;
  if (found.status !== status || !text.includes(part)) throw new Error(JSON.stringify(found));
}

async function check(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`not ok ${name}: ${error.message}`);
  }
}

await startProvider();
const signed = await startServer();
const opaque = await startServer('--introspect', 'server', 'of-server');

for (const alg of SIGNING) {
  await check(`a token signed with ${alg} is accepted`, async () => {
    expect(await call(signed, await token(`${signed}?alg=${alg}`)), 200, 'app app files:read');
  });
}
await check('a signed token for another resource is refused', async () => {
  expect(await call(signed, await token(`${signed}2?alg=ES256`)), 401, 'audience');
});
await check('an opaque token is no JWT', async () => {
  expect(await call(signed, await token(signed)), 401, 'invalid_token');
});
await check('a token of the issuer after a rotation of its keys is accepted', async () => {
  const before = await token(`${signed}?alg=ES256`);
  await startProvider();
  expect(await call(signed, await token(`${signed}?alg=ES256`)), 200, 'app');
  expect(await call(signed, before), 401, 'invalid_token');
});
await check('an opaque token is accepted by introspection', async () => {
  expect(await call(opaque, await token(opaque)), 200, 'app files:read');
});
await check('an opaque token for another resource is refused', async () => {
  expect(await call(opaque, await token(signed)), 401, 'audience');
});
await check('a revoked token is refused', async () => {
  const revoked = await token(opaque);
  await form('/token/revocation', { token: revoked });
  expect(await call(opaque, revoked), 401, 'not active');
});
await check('an unknown token is refused', async () => {
  expect(await call(opaque, 'unknown'), 401, 'not active');
});
for (const [name, resource, indicator] of [['signed', signed, `${signed}?alg=ES256`], ['opaque', opaque, opaque]]) {
  await check(`${name}: a token that is bound to a key needs its proof`, async () => {
    const [pair, other] = [await generateKeyPair('ES256'), await generateKeyPair('ES256')];
    const bound = await token(indicator, { dpop: await proof(pair, 'POST', `${issuer}/token`) });
    const own = await proof(pair, 'POST', resource, bound);
    expect(await call(resource, bound, { scheme: 'DPoP', dpop: own }), 200, 'app');
    expect(await call(resource, bound, { scheme: 'DPoP', dpop: own }), 401, 'used before');
    const foreign = await proof(other, 'POST', resource, bound);
    expect(await call(resource, bound, { scheme: 'DPoP', dpop: foreign }), 401, 'another key');
    expect(await call(resource, bound), 401, 'invalid_token');
  });
}
servers.forEach(child => child.stdin.end());
issuerServer.close();
issuerServer.closeAllConnections();
