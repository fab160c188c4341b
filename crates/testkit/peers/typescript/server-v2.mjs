// The server of @modelcontextprotocol/server, in every revision; HTTP+SSE has a package of its own.

import { NodeStreamableHTTPServerTransport, toNodeHandler, toWebRequest } from '@modelcontextprotocol/node';
import {
  completable, createMcpHandler, inputRequired, isLegacyRequest, McpServer, ResourceTemplate,
} from '@modelcontextprotocol/server';
import { SSEServerTransport } from '@modelcontextprotocol/server-legacy/sse';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { offer } from './inventory.mjs';
import { sessions, start, streams, Wire } from './serving.mjs';

const sdk = {
  create: (info, options) => new McpServer(info, options),
  ResourceTemplate,
  completable,
  handle: (server, method, handler) => server.server.setRequestHandler(method, handler),
  call: (server, context, wire) => ({
    signal: context.mcpReq.signal,
    progress: async (progress, total) => {
      const progressToken = context.mcpReq._meta?.progressToken;
      if (progressToken === undefined) return;
      await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total } });
    },
    log: (level, data) => context.mcpReq.log(level, data, 'peers'),
    // In the revisions of the handshake the package asks, and calls again with the answer.
    ask: (what, params) => {
      const answer = context.mcpReq.inputResponses?.it;
      return answer ? { answer } : { asks: inputRequired({ inputRequests: { it: inputRequired[what](params) } }) };
    },
    // Older revisions do not let a server close a stream on purpose.
    lose: () => (context.http?.closeSSE ? context.http.closeSSE() : wire.cut(context.mcpReq.id)),
  }),
};

const withSessions = sessions(NodeStreamableHTTPServerTransport, wire => offer(sdk, wire));
// Without sessions there is a server for each request, and others hear of news through the handler.
const shared = { updated: uri => modern.notify.resourceUpdated(uri), toolsChanged: () => modern.notify.toolsChanged() };
const modern = createMcpHandler(() => offer(sdk, new Wire(true), shared), { legacy: 'reject' });
const withoutSessions = toNodeHandler(modern);

await start({
  stdio: () => serveStdio(({ era }) => offer(sdk, new Wire(true), { listened: era === 'modern' })),
  http: async (req, res, message) => {
    const legacy = await isLegacyRequest(await toWebRequest(req, message));
    await (legacy ? withSessions : withoutSessions)(req, res, message);
  },
  sse: streams(SSEServerTransport, wire => offer(sdk, wire)),
});
