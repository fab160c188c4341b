// A client of @modelcontextprotocol/client logs in to a protected server: registration, browser, tokens, refresh.
//
// A run is `node login.mjs URL NAME`, where NAME is how the client calls itself. It prints `open ADDRESS` for the browser,
// and then `ok TEXT`, the result of a call, or `denied ERROR`.

import { createServer } from 'node:http';
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';

const [url, name] = process.argv.slice(2);
let arrived;
const answer = new Promise(resolve => { arrived = resolve; });
const listener = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://127.0.0.1');
  if (pathname !== '/callback') return response.writeHead(404).end();
  response.end('You are logged in');
  arrived(searchParams);
});
await new Promise(resolve => listener.listen(0, '127.0.0.1', resolve));

const kept = {};
const state = crypto.randomUUID();
const provider = {
  redirectUrl: `http://127.0.0.1:${listener.address().port}/callback`,
  clientMetadata: {
    client_name: name,
    redirect_uris: [`http://127.0.0.1:${listener.address().port}/callback`],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
  },
  state: () => state,
  clientInformation: () => kept.client,
  saveClientInformation: client => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: tokens => { kept.tokens = tokens; },
  redirectToAuthorization: address => console.log(`open ${address}`),
  saveCodeVerifier: verifier => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
};

const call = async () => {
  const client = new Client({ name, version: '1.0.0' });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }));
  const result = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } });
  await client.close();
  return result.content[0].text;
};

try {
  await call();
  throw new Error('the call needed no login');
} catch (error) {
  if (!(error instanceof UnauthorizedError)) throw error;
}
const params = await answer;
listener.close();
if (params.get('state') !== state) throw new Error('the answer has another state');
if (params.get('error')) {
  console.log(`denied ${params.get('error')}`);
  process.exit(0);
}
const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
await transport.finishAuth(params);
const text = await call();
// The second token comes from the refresh token.
const first = kept.tokens.access_token;
kept.tokens = { ...kept.tokens, access_token: 'expired' };
const again = await call();
if (kept.tokens.access_token === first || kept.tokens.access_token === 'expired') throw new Error('no refresh');
console.log(`ok ${text} ${again}`);
process.exit(0);
