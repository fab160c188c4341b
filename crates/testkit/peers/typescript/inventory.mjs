// What each TypeScript server offers, written once over the few verbs that server-v1.mjs and server-v2.mjs give, so
// that one driver fits both. `../python/server.py` offers the same.

import { z } from 'zod';
import { promise, soon } from './serving.mjs';

const SLOW_MS = 30_000;
const PAGE = 2;
const FORM = {
  type: 'object',
  properties: { name: { type: 'string' }, sure: { type: 'boolean', default: true } },
  required: ['name'],
};

// The last call of `slow` in this process: a session may be gone, or there may be none.
let slow = { ended: Promise.resolve(), cancelled: false };

// `sdk` is the package: `create(info, options)`, `ResourceTemplate`, `completable`, `handle(server, method, handler)`
// and `call(server, extra, wire)`, which gives the verbs of one call: `signal`, `progress`, `log`, `ask`, `lose`.
// What `ask` gives is the answer, or what to return so that it is called again with it.
// `shared` is for servers that live for one request: what has grown, and who else hears of news.
export function offer(sdk, wire, shared = {}) {
  const server = sdk.create({ name: 'peers', version: '1.0.0' }, {
    instructions: 'Try everything.',
    capabilities: {
      tools: { listChanged: true }, resources: { subscribe: true }, prompts: {}, completions: {}, logging: {},
    },
  });
  const watched = new Set();
  const tool = (name, inputs, work, more = {}) => {
    const config = { description: `The tool ${name}.`, inputSchema: z.object(inputs), ...more };
    server.registerTool(name, config, (args, extra) => work(args, sdk.call(server, extra, wire)));
  };

  tool('add', { a: z.number(), b: z.number() }, ({ a, b }) => (
    { ...text(String(a + b)), structuredContent: { sum: a + b } }
  ), { outputSchema: z.object({ sum: z.number() }) });

  tool('steps', { n: z.number().int() }, async ({ n }, call) => {
    for (let step = 1; step <= n; step++) await call.progress(step, n);
    return text('done');
  });

  tool('ask', {}, async (_, call) => {
    const { asks, answer } = await call.ask('elicit', { message: 'Who is there?', requestedSchema: FORM });
    if (asks) return asks;
    return answer.action === 'accept' ? text(`hello ${answer.content.name}`) : failure(answer.action);
  });

  tool('sample', {}, async (_, call) => {
    const messages = [{ role: 'user', content: { type: 'text', text: 'Say a word.' } }];
    const { asks, answer } = await call.ask('createMessage', { messages, maxTokens: 10 });
    return asks ?? text(`the model says ${answer.content.text}`);
  });

  tool('roots', {}, async (_, call) => {
    const { asks, answer } = await call.ask('listRoots');
    return asks ?? text(answer.roots.map(root => root.uri).join(' '));
  });

  tool('fail', {}, () => failure('this always fails'));

  tool('slow', {}, async (_, call) => {
    const { wait, resolve } = promise();
    slow = { ended: wait, cancelled: false };
    await call.progress(0);
    const timer = setTimeout(resolve, SLOW_MS);
    call.signal.addEventListener('abort', () => {
      slow.cancelled = true;
      resolve();
    });
    await wait;
    clearTimeout(timer);
    return text('slept');
  });

  tool('was_cancelled', {}, async () => {
    await soon(slow.ended);
    return text(String(slow.cancelled));
  });

  // The second step is said while the client is away, the third when it is back.
  tool('drop', {}, async (_, call) => {
    await call.progress(1, 3);
    const back = wire.back;
    await call.lose();
    await call.progress(2, 3);
    if (!await back) return failure('nobody came back');
    await call.progress(3, 3);
    return text('resumed');
  });

  tool('grow', {}, async () => {
    await wire.listening;
    if (shared.grown) server.sendToolListChanged();
    else grow();
    shared.grown = true;
    shared.toolsChanged?.();
    return text('grown');
  });

  tool('log', { level: z.string() }, async ({ level }, call) => {
    await wire.listening;
    await call.log(level, `this is ${level}`);
    return text('logged');
  });

  tool('touch', { uri: z.string() }, async ({ uri }) => {
    await wire.listening;
    // Nobody subscribes like that from 2026-07-28 on; whoever listens is told what it asked for.
    if (watched.has(uri) || shared.listened) await server.server.sendResourceUpdated({ uri });
    shared.updated?.(uri);
    return text('touched');
  });

  const grow = () => tool('grown', {}, () => text('I am new'));
  if (shared.grown) grow();

  const resources = [];
  const resource = (name, uri, mimeType, content) => {
    resources.push({ name, uri, mimeType });
    server.registerResource(name, uri, { mimeType }, () => ({ contents: [{ uri, mimeType, ...content }] }));
  };
  resource('one', 'memo://one', 'text/plain', { text: 'the first memo' });
  resource('two', 'memo://two', 'text/plain', { text: 'the second memo' });
  const blob = Buffer.from([0, 1, 254, 255]).toString('base64');
  resource('bytes', 'memo://bytes', 'application/octet-stream', { blob });
  const template = new sdk.ResourceTemplate('memo://{id}', { list: undefined });
  server.registerResource('memo', template, { mimeType: 'text/plain' }, (uri, { id }) => (
    { contents: [{ uri: uri.href, mimeType: 'text/plain', text: `memo ${id}` }] }
  ));
  // The packages put everything on one page; this takes the place of what they would answer.
  sdk.handle(server, 'resources/list', ({ params }) => {
    const start = Number(params?.cursor ?? 0);
    const end = start + PAGE;
    return { resources: resources.slice(start, end), ...(end < resources.length && { nextCursor: String(end) }) };
  });
  sdk.handle(server, 'resources/subscribe', ({ params }) => { watched.add(params.uri); return {}; });
  sdk.handle(server, 'resources/unsubscribe', ({ params }) => { watched.delete(params.uri); return {}; });

  const who = sdk.completable(z.string(), value => ['Ada', 'Alan', 'Grace'].filter(name => name.startsWith(value)));
  server.registerPrompt('greet', { description: 'Greets somebody.', argsSchema: { who } }, ({ who }) => (
    { messages: [{ role: 'user', content: { type: 'text', text: `Greet ${who}.` } }] }
  ));
  return server;
}

function text(text) {
  return { content: [{ type: 'text', text }] };
}

function failure(why) {
  return { ...text(why), isError: true };
}
