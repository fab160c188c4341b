// What each TypeScript client is made to do, written once over the few verbs that client-v1.mjs and client-v2.mjs
// give, so that both are asked for the same.
//
// A run is `node client-vN.mjs [--demo] SERVER REVISION FEATURE…`; each feature becomes one line of JSON on standard
// output. SERVER is a URL or a command as a list in JSON, and offers what `peers-server` or, with `--demo`, `tsugite
// serve` offers.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Wire } from './wire.mjs';

// A client that has not done a feature by then hangs.
const LIMIT_MS = 20_000;

// What the two servers offer, as far as it differs.
const PEERS = {
  tools: ['add', 'count', 'order', 'hold', 'release', 'touch'],
  form: { name: 'Ada', planks: 3, size: 'large', sure: true },
  ordered: '3 large planks for Ada, surely',
  resources: ['notes://motto'],
  template: 'notes://{owner}/{number}',
  templated: ['notes://ada/7', 'note 7 of ada'],
  // What `touch` changes.
  touched: 'notes://motto',
};
const DEMO = {
  tools: [
    'add', 'measure', 'count', 'order', 'visit', 'summarize', 'places', 'chatter', 'picture', 'sound', 'links', 'touch',
    'toggle', 'wait', 'fail',
  ],
  form: { name: 'Ada', planks: 3, wood: 'oak', wrapped: true },
  ordered: '3 planks of oak for Ada, wrapped',
  resources: ['demo://motto', 'demo://logo', 'demo://counter'],
  template: 'demo://cities/{country}/{city}',
  templated: ['demo://cities/Japan/Nara', 'Nara lies in Japan.'],
  touched: 'demo://counter',
};

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
// `read`, `watch`, `prompts`, `prompt`, `complete`, `close`. `heard` is where it says what came by itself.
export async function run(peer, connect) {
  const words = process.argv.slice(2);
  const offers = words[0] === '--demo' && words.shift() ? DEMO : PEERS;
  const [server, revision, ...features] = words;
  for (const feature of features) {
    const errors = [];
    let last;
    const open = async (wire, heard = {}) => {
      last = wire;
      const session = await connect(server, revision, wire, {
        errors, elicit: refuse, updated: () => {}, message: () => {}, ...heard,
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
  async list(open, _, offers) {
    const session = await open(new Wire());
    const tools = await session.tools();
    assert.deepEqual(tools.map(tool => tool.name), offers.tools);
    assert.deepEqual(tools[0].inputSchema.required, ['a', 'b']);
    await session.close();
  },

  async call(open) {
    const session = await open(new Wire());
    const answers = await Promise.all([1, 2, 3].map(b => session.call('add', { a: 40, b })));
    assert.deepEqual(answers.map(text), ['41', '42', '43']);
    await session.close();
  },

  async progress(open, _, __, overHttp) {
    const steps = [];
    const said = [];
    const session = await open(new Wire(), { message: message => said.push(message.params?.progress ?? 'answer') });
    said.length = 0;
    const answer = await session.call('count', { to: 3 }, step => steps.push([step.progress, step.total]));
    assert.equal(text(answer), 'counted to 3');
    const all = [[1, 3], [2, 3], [3, 3]];
    if (overHttp) {
      assert.deepEqual(steps, all);
    } else {
      // These clients take an answer before what was said just ahead of it in the same read (typescript-sdk#2580).
      assert.deepEqual(said, [1, 2, 3, 'answer']);
      assert.deepEqual(steps, all.slice(0, steps.length));
    }
    await session.close();
  },

  async elicitation(open, _, offers) {
    const asked = [];
    const elicit = async question => {
      asked.push(question);
      return { action: 'accept', content: offers.form };
    };
    const session = await open(new Wire(), { elicit });
    assert.equal(text(await session.call('order', {})), offers.ordered);
    assert.deepEqual(asked.map(question => question.message), ['What shall it be?']);
    assert.deepEqual(Object.keys(asked[0].requestedSchema.properties), Object.keys(offers.form));
    await session.close();
  },

  async resources(open, revision, offers, overHttp) {
    const wire = new Wire();
    const updates = [];
    let told;
    const session = await open(wire, { updated: uri => { updates.push(uri); told?.(); } });
    assert.deepEqual((await session.resources()).map(one => one.uri), offers.resources);
    assert.deepEqual((await session.templates()).map(one => one.uriTemplate), [offers.template]);
    assert.equal((await session.read(offers.resources[0])).contents[0].text, 'Measure twice, cut once.');
    const [uri, words] = offers.templated;
    assert.equal((await session.read(uri)).contents[0].text, words);
    // News come on a stream of their own, which these clients open without waiting for it.
    if (overHttp && revision !== '2026-07-28') await wire.listening;
    const stop = await session.watch(offers.touched);
    const update = new Promise(resolve => { told = resolve; });
    await session.call('touch', {});
    await update;
    await stop();
    await session.call('touch', {});
    assert.deepEqual(updates, [offers.touched]);
    await session.close();
  },

  async prompts(open) {
    const session = await open(new Wire());
    const prompts = await session.prompts();
    assert.deepEqual(prompts.map(prompt => prompt.name), ['review']);
    assert.deepEqual(prompts[0].arguments.map(one => Boolean(one.required)), [true, false]);
    const { messages } = await session.prompt('review', { code: '1 + 1', language: 'rust' });
    assert.equal(messages[0].content.text, 'Review this rust: 1 + 1');
    assert.deepEqual((await session.complete('review', 'language', 'p')).completion.values, ['perl', 'python']);
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
  let begun;
  const beginning = new Promise(resolve => { begun = resolve; });
  const call = session.call('hold', { key, closes }, step => { steps.push(step); begun(); });
  const early = call.then(() => { throw new Error('it was answered before its stream was lost'); });
  await Promise.race([beginning, early]);
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

function text(answer) {
  assert.ok(!answer.isError, `the tool failed: ${answer.content[0]?.text}`);
  return answer.content[0].text;
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
