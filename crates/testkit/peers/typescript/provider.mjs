// An OpenID provider: oidc-provider with its login and consent pages, which accept any name and password.
//
// A run is `node provider.mjs CALLBACK`, where CALLBACK is the redirect URI of its only client. It says `ready PORT` and ends
// with its standard input. It says `visit` for each request that reaches its authorization endpoint.

import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';
import { endWithInput } from './serving.mjs';

endWithInput();
const server = createServer();
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: 'tsugite', client_secret: 'a secret of the test', redirect_uris: [process.argv[2]] }],
  features: { devInteractions: { enabled: true } },
  pkce: { required: () => true },
  // An account is known by the name of its login.
  findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
});
for (const event of ['server_error', 'authorization.error', 'grant.error']) {
  provider.on(event, (context, error) => console.error(event, error.message, error.error_description ?? ''));
}
const answer = provider.callback();
server.on('request', (request, response) => {
  if (request.url.startsWith('/auth?')) console.log('visit');
  answer(request, response);
});
console.log(`ready ${server.address().port}`);
