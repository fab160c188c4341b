// A server of @modelcontextprotocol/server that requires a token of an authorization server, which is oidc-provider. They
// have an address each, and share nothing: the server verifies tokens with the public keys of the issuer.
//
// A run is `node protected.mjs`. It says `ready PORT`, the port of the server, and ends with its standard input.

import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler, getOAuthProtectedResourceMetadataUrl, McpServer, OAuthError, OAuthErrorCode, oauthMetadataResponse,
  requireBearerAuth,
} from '@modelcontextprotocol/server';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { Provider } from 'oidc-provider';
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

const provider = new Provider(issuer, {
  features: {
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
const verifier = {
  verifyAccessToken: async token => {
    try {
      const { payload } = await jwtVerify(token, keys, { issuer, audience: resource });
      const scopes = (payload.scope ?? '').split(' ');
      return { token, clientId: payload.client_id, scopes, expiresAt: payload.exp, extra: { user: payload.sub } };
    } catch (error) {
      console.error('token', error.message);
      throw new OAuthError(OAuthErrorCode.InvalidToken, 'the token is not valid');
    }
  },
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
    content: [{ type: 'text', text: `you are ${context.http.authInfo.extra.user}` }],
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
    const auth = await gate(request);
    return auth instanceof Response ? auth : handler.fetch(request, { authInfo: auth });
  },
}));
console.log(`ready ${resourceServer.address().port}`);
