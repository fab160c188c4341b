// The client of @modelcontextprotocol/ext-tasks, over HTTP, in the two revisions that have tasks.
//
// A run is `node tasks.mjs URL REVISION FEATURE…`, and each feature becomes one line of JSON on standard output. The server
// is `peers-task-server`, whose tools run as tasks.

import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client';

const PEER = '@modelcontextprotocol/ext-tasks';
const EXTENSION = '2026-07-28';

// A client that has not done a feature by then hangs.
const LIMIT_MS = 20_000;

const INFO = { name: 'peers', version: '1.0.0' };
const CAPABILITIES = { elicitation: {} };

const [server, revision, ...features] = process.argv.slice(2);

// Sends one request as the extension needs it: the client of the SDK does not know its results.
let lastId = 0;
async function rawDispatch({ method, params }, { signal, context } = {}) {
  const headers = new Headers({
    'content-type': 'application/json', accept: 'application/json, text/event-stream',
    'mcp-protocol-version': revision, 'mcp-method': method,
  });
  // That of a call; those of the methods of tasks come from the client.
  if (params.name) headers.set('mcp-name', params.name);
  for (const [name, value] of Object.entries(context?.headers ?? {})) headers.set(name, value);
  const body = JSON.stringify({ jsonrpc: '2.0', id: `raw-${++lastId}`, method, params });
  const response = await fetch(server, { method: 'POST', headers, body, signal });
  const answer = await response.text();
  const json = response.headers.get('content-type').startsWith('text/event-stream')
    ? answer.split('\n').filter(line => line.startsWith('data: {')).at(-1).slice(6)
    : answer;
  const { result, error } = JSON.parse(json);
  return error ? { kind: 'error', error } : { kind: 'result', result };
}

async function open(asked = []) {
  const stateless = revision === EXTENSION;
  const client = new Client(INFO, {
    capabilities: CAPABILITIES,
    supportedProtocolVersions: [revision],
    versionNegotiation: { mode: stateless ? { pin: revision } : 'legacy' },
  });
  const transport = new StreamableHTTPClientTransport(new URL(server));
  await client.connect(transport);
  const v2RequestFraming = { protocolVersion: revision, clientInfo: INFO, clientCapabilities: CAPABILITIES };
  const session = createTaskSessionFromClient(client, {
    endpointId: 'peers',
    ...stateless ? { rawDispatch, v2RequestFraming } : {},
    onInputRequest: async ({ kind, params }, { scope }) => {
      asked.push([kind, scope, params.message]);
      return { action: 'accept', content: { name: 'Ada' } };
    },
  });
  return { client, session, close: async () => { await session.close(); await client.close(); } };
}

const text = result => result.content[0].text;

// Calls a tool that must become a task. On 2025-11-25 the client asks for it.
async function start(session, tool) {
  const execution = await session.callTool(tool, {}, { task: { preference: 'allow' } });
  assert.equal(execution.kind, 'task');
  return execution;
}

const FEATURES = {
  async call() {
    const { session, close } = await open();
    const execution = await session.callTool('t', {});
    assert.equal(execution.kind, 'immediate');
    assert.equal(text(resultFromTaskOutcome((await execution.settle()).outcome)), 't');
    await close();
  },

  async task() {
    const { session, close } = await open();
    const { outcome, lastTask } = await (await start(session, 'done')).settle();
    assert.equal(text(resultFromTaskOutcome(outcome)), 'done');
    assert.equal(lastTask.status, 'completed');
    await close();
  },

  async failure() {
    const { session, close } = await open();
    const { outcome } = await (await start(session, 'breaks')).settle();
    assert.equal(outcome.status, 'failed');
    assert.match(outcome.error.message, /Internal error/);
    await close();
  },

  async question() {
    const asked = [];
    const { session, close } = await open(asked);
    const { outcome } = await (await start(session, 'greets')).settle();
    assert.equal(text(resultFromTaskOutcome(outcome)), 'Hello, Ada!');
    assert.deepEqual(asked, [['elicitation', 'task', 'Who?']]);
    await close();
  },

  async cancel() {
    const { session, close } = await open();
    const execution = await start(session, 'waits');
    await execution.cancel();
    const { outcome } = await execution.settle();
    assert.equal(outcome.status, 'cancelled');
    await close();
  },

  // Another session takes the task up by its reference.
  async resume() {
    const first = await open();
    let kept;
    await (await start(first.session, 'waits')).handoff(reference => { kept = structuredClone(reference); });
    await first.close();
    const second = await open();
    const execution = await second.session.resumeTask(kept);
    assert.equal(execution.handle.taskId, kept.taskId);
    await execution.cancel();
    assert.equal((await execution.settle()).outcome.status, 'cancelled');
    await second.close();
  },
};

for (const feature of features) {
  let said;
  try {
    const late = new Promise((_, fail) => setTimeout(() => fail(new Error(`no ${feature} in time`)), LIMIT_MS));
    await Promise.race([FEATURES[feature](), late]);
    said = { ok: true, note: '' };
  } catch (error) {
    said = { ok: false, note: `${error.stack ?? error}`.slice(0, 800) };
  }
  console.log(JSON.stringify({ peer: PEER, revision, feature, ...said }));
}
// What a failed feature has left open would keep the process.
process.exit();
