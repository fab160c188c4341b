// The client of @modelcontextprotocol/sdk, in the revisions of the handshake; in the first of them over HTTP+SSE.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { QUICKLY, run, SSE, sseUrl } from './features.mjs';

await run('@modelcontextprotocol/sdk', async (url, revision, wire, heard) => {
  const client = new Client({ name: 'peers', version: '1.0.0' }, { capabilities: { elicitation: {} } });
  client.onerror = error => heard.errors.push(error);
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => heard.elicit(params));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => heard.updated(params.uri));

  const transport = revision === SSE
    ? new SSEClientTransport(sseUrl(url), { fetch: wire.fetch })
    : new StreamableHTTPClientTransport(new URL(url), { fetch: wire.fetch, reconnectionOptions: QUICKLY });
  // It always offers its newest revision and has no option for another, so the offer is rewritten on its way.
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === 'initialize') message.params.protocolVersion = revision;
    return send(message, options);
  };
  // Only one of the two transports says what was agreed on.
  let agreed;
  const agree = transport.setProtocolVersion.bind(transport);
  transport.setProtocolVersion = version => agree(agreed = version);
  await client.connect(transport);

  const pages = async (list, key) => {
    const all = [];
    let cursor;
    do {
      const page = await list(cursor === undefined ? {} : { cursor });
      all.push(...page[key]);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return all;
  };
  return {
    revision: agreed,
    tools: () => pages(params => client.listTools(params), 'tools'),
    call: (name, args, onprogress) => client.callTool({ name, arguments: args }, undefined, { onprogress }),
    resources: () => pages(params => client.listResources(params), 'resources'),
    templates: () => pages(params => client.listResourceTemplates(params), 'resourceTemplates'),
    read: uri => client.readResource({ uri }),
    watch: async uri => {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    prompts: () => pages(params => client.listPrompts(params), 'prompts'),
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
