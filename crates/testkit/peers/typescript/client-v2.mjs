// The client of @modelcontextprotocol/client, in every revision, over HTTP (in the first HTTP+SSE) and stdio.

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { QUICKLY, ROOTS, run, SSE, sseUrl, started } from './features.mjs';

await run('@modelcontextprotocol/client', async (server, revision, wire, heard) => {
  const stateless = revision === '2026-07-28';
  const client = new Client({ name: 'peers', version: '1.0.0' }, {
    capabilities: { elicitation: {}, sampling: {}, roots: {} },
    // It offers the first of these in the handshake.
    supportedProtocolVersions: [revision],
    versionNegotiation: { mode: stateless ? { pin: revision } : 'legacy' },
  });
  client.onerror = error => heard.errors.push(error);
  client.setRequestHandler('elicitation/create', ({ params }) => heard.elicit(params));
  client.setRequestHandler('sampling/createMessage', ({ params }) => heard.sample(params));
  client.setRequestHandler('roots/list', () => ({ roots: ROOTS }));
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => heard.updated(params.uri));
  client.setNotificationHandler('notifications/tools/list_changed', () => heard.changed('tools'));
  client.setNotificationHandler('notifications/resources/list_changed', () => heard.changed('resources'));
  client.setNotificationHandler('notifications/message', ({ params }) => heard.logged(params.data));

  const overHttp = () => revision === SSE
    ? new SSEClientTransport(sseUrl(server), { fetch: wire.fetch })
    : new StreamableHTTPClientTransport(new URL(server), { fetch: wire.fetch, reconnectionOptions: QUICKLY });
  const transport = started(server) ? new StdioClientTransport(started(server)) : overHttp();
  await client.connect(transport);
  const hear = transport.onmessage;
  transport.onmessage = (message, ...more) => {
    heard.message(message);
    return hear(message, ...more);
  };

  // Which logs are wanted is said with each request, from 2026-07-28 on.
  let _meta;
  // Its lists follow cursors by themselves.
  return {
    revision: client.getNegotiatedProtocolVersion(),
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args, _meta }, options),
    resources: async () => (await client.listResources()).resources,
    templates: async () => (await client.listResourceTemplates()).resourceTemplates,
    read: uri => client.readResource({ uri }),
    watch: async uri => {
      if (stateless) {
        const subscription = await client.listen({ resourceSubscriptions: [uri] });
        return () => subscription.close();
      }
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    listen: async list => {
      if (!stateless) return () => {};
      const subscription = await client.listen({ [`${list}ListChanged`]: true });
      return () => subscription.close();
    },
    level: async level => {
      if (stateless) _meta = { 'io.modelcontextprotocol/logLevel': level };
      else await client.setLoggingLevel(level);
    },
    prompts: async () => (await client.listPrompts()).prompts,
    prompt: (name, args) => client.getPrompt({ name, arguments: args }),
    complete: (name, argument, value) =>
      client.complete({ ref: { type: 'ref/prompt', name }, argument: { name: argument, value } }),
    close: async () => {
      // Over HTTP+SSE a session ends with its stream.
      await transport.terminateSession?.();
      await client.close();
    },
  };
});
