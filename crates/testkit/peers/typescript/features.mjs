// What each TypeScript client is made to do, written once over the few verbs that client-v1.mjs and client-v2.mjs
// give, so that both are asked for the same.
//
// A run is `node client-vN.mjs [--offers NAME] SERVER REVISION FEATURE…`; each feature becomes one line of JSON on
// standard output. SERVER is a URL or a command as a list in JSON, and offers what stands under NAME in `offers.json`:
// `peers-server` does so under `peers`, unless told otherwise, and `tsugite serve` under `demo`. What the servers beside
// this file offer is `theirs`, and `everything` is `server-everything`. A text in there that holds `…` leaves something
// open, and so does a list that ends with it.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Wire } from './wire.mjs';

// A client that has not done a feature by then hangs.
const LIMIT_MS = 20_000;

// Between two attempts to be heard.
const AGAIN_MS = 500;

// What the clients say when they are asked.
export const ROOTS = [{ uri: 'file:///srv/one' }, { uri: 'file:///srv/two' }];
const WORD = { role: 'assistant', content: { type: 'text', text: 'four' }, model: 'a model' };

// How a client comes back if the server does not say when: soon, so that nobody waits for nothing.
export const QUICKLY = {
  initialReconnectionDelay: 50, maxReconnectionDelay: 50, reconnectionDelayGrowFactor: 1, maxRetries: 3,
};

// The revision whose transport is HTTP+SSE, and where that is served.
export const SSE = '2024-11-05';
export const sseUrl = url => new URL('/sse', url);

// The command of a server that is to be started, as the packages want it; nothing if it has a URL.
export const started = server => {
  if (!server.startsWith('[')) return undefined;
  const [command, ...args] = JSON.parse(server);
  return { command, args, stderr: 'ignore' };
};

// `connect(server, revision, wire, heard)` gives the verbs of one connection: `tools`, `call`, `resources`, `templates`,
// `read`, `watch`, `listen`, `level`, `prompts`, `prompt`, `complete`, `close`. `heard` is where it says what came by
// itself, and asks for what it is asked.
export async function run(peer, connect) {
  const words = process.argv.slice(2);
  const [, name] = words[0] === '--offers' ? words.splice(0, 2) : ['', 'peers'];
  const offers = JSON.parse(readFileSync(new URL('offers.json', import.meta.url)))[name];
  const [server, revision, ...features] = words;
  for (const feature of features) {
    const errors = [];
    let last;
    const open = async (wire, heard = {}) => {
      last = wire;
      const session = await connect(server, revision, wire, {
        errors, elicit: refuse, sample: refuse, updated: () => {}, changed: () => {}, logged: () => {}, message: () => {},
        ...heard,
      });
      assert.equal(session.revision, revision, 'another revision was agreed on');
      return session;
    };
    let said;
    try {
      const note = await limited(FEATURES[feature](open, revision, offers, !started(server)), feature);
      said = { ok: true, note: note ?? '' };
    } catch (error) {
      said = { ok: false, note: inWords([error, ...errors], last) };
    }
    console.log(JSON.stringify({ peer, revision, feature, ...said }));
  }
  // What a failed feature has left open would keep the process.
  process.exit();
}

const FEATURES = {
  async list(open, _, { tools, required }) {
    const session = await open(new Wire());
    const found = await session.tools();
    begins(found.map(tool => tool.name), tools);
    assert.deepEqual(found[0].inputSchema.required, required);
    await session.close();
  },

  async call(open, _, { add }) {
    const session = await open(new Wire());
    const answers = await Promise.all([1, 2, 3].map(b => session.call(add.tool, { a: 40, b })));
    assert.deepEqual(answers.map(text), add.says);
    await session.close();
  },

  async progress(open, _, { progress }, overHttp) {
    const steps = [];
    const said = [];
    // In these clients the token of a request is its id.
    const message = ({ id, method, params, result }) => {
      if (method === 'notifications/progress') said.push([params.progressToken, params.progress]);
      if (result) said.push([id, 'answer']);
    };
    const session = await open(new Wire(), { message });
    said.length = 0;
    // The clients of 2026-07-28 count their own rounds as progress too, without a total: server-everything asks for the
    // roots a moment after it was greeted, in the middle of whatever is called then.
    const onprogress = step => {
      if (step.total !== undefined) steps.push([step.progress, step.total]);
    };
    fits(text(await session.call(...progress.call, { onprogress })), progress.says);
    const all = [[1, 3], [2, 3], [3, 3]];
    if (overHttp) {
      assert.deepEqual(steps, all);
    } else {
      // These clients take an answer before what was said just ahead of it in the same read (typescript-sdk#2580).
      const [id] = said.at(-1);
      assert.deepEqual(said, [1, 2, 3, 'answer'].map(what => [id, what]));
      assert.deepEqual(steps, all.slice(0, steps.length));
    }
    await session.close();
  },

  async elicitation(open, _, { elicitation }) {
    const asked = [];
    const elicit = async question => {
      asked.push(question);
      return { action: 'accept', content: elicitation.answer };
    };
    const session = await open(new Wire(), { elicit });
    fits(text(await session.call(...elicitation.call)), elicitation.says);
    assert.deepEqual(asked.map(question => question.message), [elicitation.asks]);
    assert.deepEqual(Object.keys(asked[0].requestedSchema.properties), Object.keys(elicitation.answer));
    await session.close();
  },

  async sampling(open, _, { sampling }) {
    const asked = [];
    const sample = async ({ messages }) => {
      asked.push(messages);
      return WORD;
    };
    const session = await open(new Wire(), { sample });
    fits(text(await session.call(...sampling.call)), sampling.says);
    assert.deepEqual(asked, [[{ role: 'user', content: { type: 'text', text: sampling.asks } }]]);
    await session.close();
  },

  async roots(open, _, { roots }) {
    const session = await open(new Wire());
    fits(text(await session.call(...roots.call)), roots.says);
    await session.close();
  },

  async cancellation(open, _, { cancellation }) {
    const session = await open(new Wire());
    const stop = new AbortController();
    const call = session.call(...cancellation.call, { onprogress: () => stop.abort(), signal: stop.signal });
    await assert.rejects(call, () => stop.signal.aborted);
    // What cancels a call may arrive behind the next one.
    while (text(await session.call(...cancellation.seen)) !== cancellation.says);
    await session.close();
  },

  async changes(open, revision, { changes }, overHttp) {
    const wire = new Wire();
    const change = event();
    const session = await open(wire, { changed: list => { if (list === changes.list) change.tell(); } });
    const news = async () => (await session[changes.list]()).some(one => one.name === changes.new);
    assert.ok(!await news(), 'it was there before');
    await listening(wire, revision, overHttp);
    const stop = await session.listen(changes.list);
    await calledUntil(change, session, changes);
    assert.ok(await news(), 'the list is as before');
    await stop();
    await session.close();
  },

  async logging(open, revision, { logging }, overHttp) {
    const wire = new Wire();
    const logs = [];
    const log = event();
    const session = await open(wire, {
      logged: data => {
        logs.push(data);
        if (pattern(logging.says).test(data)) log.tell();
      },
    });
    await listening(wire, revision, overHttp);
    await session.level(logging.level);
    if (logging.silent) await session.call(...logging.silent);
    await calledUntil(log, session, logging);
    if (logging.silent) assert.deepEqual(logs, [logging.says]);
    await session.close();
  },

  async resources(open, revision, offers, overHttp) {
    const wire = new Wire();
    const updates = [];
    const update = event();
    const session = await open(wire, { updated: uri => { updates.push(uri); update.tell(); } });
    assert.deepEqual((await session.resources()).map(one => one.uri), offers.resources);
    assert.deepEqual((await session.templates()).map(one => one.uriTemplate), offers.templates);
    for (const [uri, says] of Object.entries(offers.texts)) fits((await session.read(uri)).contents[0].text, says);
    await listening(wire, revision, overHttp);
    const { uri, call } = offers.update;
    const stop = await session.watch(uri);
    await calledUntil(update, session, offers.update);
    await stop();
    await session.call(...call);
    assert.deepEqual(updates, [uri]);
    await session.close();
  },

  async prompts(open, _, { prompts, prompt, completion }) {
    const session = await open(new Wire());
    const found = await session.prompts();
    assert.deepEqual(found.map(one => one.name), prompts);
    const { arguments: all } = found.find(one => one.name === prompt.get[0]);
    assert.deepEqual(all.map(one => Boolean(one.required)), prompt.required);
    const { messages } = await session.prompt(...prompt.get);
    assert.equal(messages[0].content.text, prompt.says);
    assert.deepEqual((await session.complete(...completion.of)).completion.values, completion.values);
    await session.close();
  },

  // The stream of a call is lost before its answer. Each way is one call.
  async resumption(open, revision) {
    const ways = ['cut, answered while away', 'cut, answered when back'];
    // Older revisions do not let a server close a stream on purpose.
    if (revision === '2025-11-25') ways.push('closed by the server, answered while away');
    for (const way of ways) await resume(open, way).catch(error => { throw new Error(`${way}: ${error.message}`); });
    return ways.join('; ');
  },
};

async function resume(open, way) {
  const wire = new Wire();
  const key = randomUUID();
  const session = await open(wire);
  const closes = way.startsWith('closed');
  const steps = [];
  const begun = event();
  const call = session.call('hold', { key, closes }, { onprogress: step => { steps.push(step); begun.tell(); } });
  const early = call.then(() => { throw new Error('it was answered before its stream was lost'); });
  await Promise.race([begun.wait, early]);
  if (closes) await Promise.race([wire.ended, early]);
  else wire.cut();
  // The client comes back by itself, but not before it may.
  if (way.endsWith('when back')) {
    wire.letBack();
    await Promise.race([wire.back, early]);
  }
  const released = session.call('release', { key }).then(wire.letBack);
  const [answer] = await Promise.all([call, released]);
  assert.equal(text(answer), `${key}: run 1`);
  assert.equal(steps.length, 1, `progress came ${steps.length} times`);
  assert.equal(wire.answers(key), 1, `the answer came ${wire.answers(key)} times`);
  assert.ok(wire.resumed.length > 0, 'there was no GET with Last-Event-ID');
  await session.close();
}

// News come on a stream of their own over HTTP, which these clients open without waiting for it.
async function listening(wire, revision, overHttp) {
  if (overHttp && revision !== '2026-07-28') await wire.listening;
}

// Calls a tool until something is heard of it; again only where the server does not wait until somebody listens.
async function calledUntil({ wait }, session, { call, again }) {
  let heard = false;
  wait.then(() => { heard = true; });
  do {
    await session.call(...call);
    await (again ? Promise.race([wait, new Promise(resolve => setTimeout(resolve, AGAIN_MS))]) : wait);
  } while (!heard);
}

// Something that happens, and whoever waits for it.
function event() {
  let tell;
  const wait = new Promise(resolve => { tell = resolve; });
  return { wait, tell };
}

function text(answer) {
  const said = answer.content.map(block => block.text).join('\n');
  assert.ok(!answer.isError, `the tool failed: ${said}`);
  return said;
}

function fits(seen, expected) {
  assert.match(seen, pattern(expected));
}

function pattern(expected) {
  const parts = expected.split('…').map(part => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`, 's');
}

function begins(seen, expected) {
  const open = expected.at(-1) === '…';
  assert.deepEqual(open ? seen.slice(0, expected.length - 1) : seen, open ? expected.slice(0, -1) : expected);
}

function refuse() {
  throw new Error('nothing should be asked here');
}

// One line, with what went over the wire in the end.
function inWords(errors, wire) {
  const words = errors.map(error => String(error?.message ?? error));
  if (wire) words.push(`requests: ${wire.seen.slice(-10).join(', ')}`);
  return words.join('; ').replace(/\s+/g, ' ');
}

function limited(work, feature) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${feature} was not done in ${LIMIT_MS / 1000} s`)), LIMIT_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
