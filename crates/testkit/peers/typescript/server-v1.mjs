// The server of @modelcontextprotocol/sdk, in the revisions of the handshake.

import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import {
  ListResourcesRequestSchema, SubscribeRequestSchema, UnsubscribeRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { offer } from './inventory.mjs';
import { sessions, start, streams, Wire } from './serving.mjs';

const SCHEMAS = {
  'resources/list': ListResourcesRequestSchema,
  'resources/subscribe': SubscribeRequestSchema,
  'resources/unsubscribe': UnsubscribeRequestSchema,
};

const QUESTIONS = { elicit: 'elicitInput', createMessage: 'createMessage', listRoots: 'listRoots' };

const sdk = {
  create: (info, options) => new McpServer(info, options),
  ResourceTemplate,
  completable,
  handle: (server, method, handler) => server.server.setRequestHandler(SCHEMAS[method], handler),
  call: (server, extra, wire) => ({
    signal: extra.signal,
    progress: async (progress, total) => {
      const progressToken = extra._meta?.progressToken;
      if (progressToken === undefined) return;
      await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress, total } });
    },
    log: (level, data) => server.sendLoggingMessage({ level, data, logger: 'peers' }, extra.sessionId),
    ask: async (what, params) => (
      { answer: await server.server[QUESTIONS[what]](params, { relatedRequestId: extra.requestId }) }
    ),
    // Older revisions do not let a server close a stream on purpose.
    lose: () => (extra.closeSSEStream ? extra.closeSSEStream() : wire.cut(extra.requestId)),
  }),
};

await start({
  stdio: () => offer(sdk, new Wire(true)).connect(new StdioServerTransport()),
  http: sessions(StreamableHTTPServerTransport, wire => offer(sdk, wire)),
  sse: streams(SSEServerTransport, wire => offer(sdk, wire)),
});
