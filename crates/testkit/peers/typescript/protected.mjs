// A server of @modelcontextprotocol/server that requires a token of an authorization server, which is oidc-provider. They
// have an address each, and share nothing: the server verifies tokens with the public keys of the issuer.
//
// A run is `node protected.mjs KEYS`, with the folder of the private keys of its clients. It says `ready PORT`, the port of
// the server, and ends with its standard input.

import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler, getOAuthProtectedResourceMetadataUrl, McpServer, OAuthError, OAuthErrorCode, oauthMetadataResponse,
  requireBearerAuth,
} from '@modelcontextprotocol/server';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { Provider } from 'oidc-provider';
import { refuseProof } from './dpop.mjs';
import { endWithInput } from './serving.mjs';

// A client refreshes a token that expires within 10 s, so each of its requests needs a new one.
const TOKEN_SECONDS = 8;

const listen = server =>
  new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${server.address().port}`)));

endWithInput();
const [issuerServer, resourceServer] = [createServer(), createServer()];
const issuer = await listen(issuerServer);
const origin = await listen(resourceServer);
const resource = `${origin}/mcp`;

// Clients that were registered beforehand: with a secret, and with a key for each algorithm.
const KEYS = { ES256: 'p256', ES384: 'p384', EdDSA: 'ed25519', RS256: 'rsa', PS256: 'rsa' };
const jwks = name => ({
  keys: [createPublicKey(readFileSync(join(process.argv[2], `${name}.pem`))).export({ format: 'jwk' })],
});
const otherKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ format: 'jwk' });
const machine = { grant_types: ['client_credentials'], response_types: [], redirect_uris: [], scope: 'files:read' };
const withKey = (client_id, algorithm, jwks) => ({
  client_id, jwks, token_endpoint_auth_method: 'private_key_jwt', token_endpoint_auth_signing_alg: algorithm,
});
const clients = [
  ...['basic', 'post'].map(method => ({
    ...machine, client_id: method, client_secret: 'a secret: 100% & more', token_endpoint_auth_method: `client_secret_${method}`,
  })),
  ...Object.entries(KEYS).map(([algorithm, name]) => ({
    ...machine, ...withKey(`key-${algorithm}`, algorithm, jwks(name)),
  })),
  { ...machine, ...withKey('other-ES256', 'ES256', { keys: [otherKey] }) },
  {
    ...withKey('person', 'ES256', jwks('p256')), application_type: 'native', redirect_uris: ['http://127.0.0.1/callback'],
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
  },
];

const provider = new Provider(issuer, {
  clients,
  enabledJWA: { clientAuthSigningAlgValues: Object.keys(KEYS) },
  features: {
    clientCredentials: { enabled: true },
    revocation: { enabled: true, allowedPolicy: (context, client, token) => token.clientId === client.clientId },
    // Every proof needs a nonce.
    dPoP: { enabled: true, nonceSecret: randomBytes(32), requireNonce: () => true },
    // The login page and the consent page of the package. They accept any name and password.
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (context, indicator) => ({
        audience: indicator, scope: 'files:read', accessTokenTTL: TOKEN_SECONDS, accessTokenFormat: 'jwt',
      }),
    },
  },
  scopes: ['openid', 'offline_access', 'files:read'],
  pkce: { required: () => true },
  rotateRefreshToken: true,
});
for (const event of ['server_error', 'authorization.error', 'grant.error', 'registration_create.error']) {
  provider.on(event, (context, error) => console.error(event, error.message, error.error_description ?? ''));
}
provider.on('authorization.accepted', () => console.log('login'));
provider.on('grant.success', context => console.log('grant', context.oidc.params.grant_type));
issuerServer.on('request', provider.callback());

const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`));
const verifyToken = async token => {
  try {
    const { payload } = await jwtVerify(token, keys, { issuer, audience: resource });
    const scopes = (payload.scope ?? '').split(' ');
    const extra = { user: payload.sub, thumbprint: payload.cnf?.jkt, scheme: payload.cnf ? 'DPoP' : 'Bearer' };
    return { token, clientId: payload.client_id, scopes, expiresAt: payload.exp, extra };
  } catch (error) {
    console.error('token', error.message);
    throw new OAuthError(OAuthErrorCode.InvalidToken, 'the token is not valid');
  }
};
const verifier = {
  verifyAccessToken: async token => {
    const auth = await verifyToken(token);
    if (auth.extra.thumbprint) throw new OAuthError(OAuthErrorCode.InvalidToken, 'the token is bound to a key');
    return auth;
  },
};
// The SDK knows bearer tokens only.
const checkBoundToken = async request => {
  const token = request.headers.get('authorization').slice('DPoP '.length);
  try {
    const auth = await verifyToken(token);
    return await refuseProof(request, resource, token, auth.extra.thumbprint) ?? auth;
  } catch {
    return new Response(null, { status: 401, headers: { 'www-authenticate': 'DPoP error="invalid_token"' } });
  }
};
const resourceServerUrl = new URL(resource);
const gate = requireBearerAuth({
  verifier,
  requiredScopes: ['files:read'],
  resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resourceServerUrl),
});
const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'protected', version: '1.0.0' });
  server.registerTool('whoami', { description: 'Names the user' }, context => ({
    content: [{
      type: 'text', text: `you are ${context.http.authInfo.extra.user} with ${context.http.authInfo.extra.scheme}`,
    }],
  }));
  return server;
});
const oauthMetadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
const options = {
  oauthMetadata, resourceServerUrl, scopesSupported: ['files:read'],
  // The issuer is on plain http, on this machine.
  dangerouslyAllowInsecureIssuerUrl: true,
};
resourceServer.on('request', toNodeHandler({
  fetch: async request => {
    const metadata = oauthMetadataResponse(request, options);
    if (metadata) return metadata;
    const isBound = request.headers.get('authorization')?.startsWith('DPoP ');
    const auth = isBound ? await checkBoundToken(request) : await gate(request);
    return auth instanceof Response ? auth : handler.fetch(request, { authInfo: auth });
  },
}));
console.log(`ready ${resourceServer.address().port}`);
