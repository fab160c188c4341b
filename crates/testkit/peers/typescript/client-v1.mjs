// The client of @modelcontextprotocol/sdk, in the revisions of the handshake, over HTTP (in the first of them HTTP+SSE)
// and stdio.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { QUICKLY, ROOTS, run, SSE, sseUrl, started } from './features.mjs';

await run('@modelcontextprotocol/sdk', async (server, revision, wire, heard) => {
  const capabilities = { elicitation: {}, sampling: {}, roots: {} };
  const client = new Client({ name: 'peers', version: '1.0.0' }, { capabilities });
  client.onerror = error => heard.errors.push(error);
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => heard.elicit(params));
  client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => heard.sample(params));
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: ROOTS }));
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => heard.updated(params.uri));
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => heard.changed('tools'));
  client.setNotificationHandler(ResourceListChangedNotificationSchema, () => heard.changed('resources'));
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => heard.logged(params.data));

  const overHttp = () => revision === SSE
    ? new SSEClientTransport(sseUrl(server), { fetch: wire.fetch })
    : new StreamableHTTPClientTransport(new URL(server), { fetch: wire.fetch, reconnectionOptions: QUICKLY });
  const transport = started(server) ? new StdioClientTransport(started(server)) : overHttp();
  // It always offers its newest revision and has no option for another, so the offer is rewritten on its way.
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === 'initialize') message.params.protocolVersion = revision;
    return send(message, options);
  };
  // Only one of the transports says what was agreed on, but all can be told.
  let agreed;
  const agree = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = version => agree?.(agreed = version) ?? (agreed = version);
  await client.connect(transport);
  const hear = transport.onmessage;
  transport.onmessage = (message, ...more) => {
    heard.message(message);
    return hear(message, ...more);
  };

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
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    resources: () => pages(params => client.listResources(params), 'resources'),
    templates: () => pages(params => client.listResourceTemplates(params), 'resourceTemplates'),
    read: uri => client.readResource({ uri }),
    watch: async uri => {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    // They are told of changes unasked.
    listen: async () => () => {},
    level: level => client.setLoggingLevel(level),
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
