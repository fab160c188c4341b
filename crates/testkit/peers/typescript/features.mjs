// What each TypeScript client is made to do, written once over the few verbs that client-v1.mjs and client-v2.mjs
// give, so that both are asked for the same.
//
// A run is `node client-vN.mjs URL REVISION FEATURE…`; each feature becomes one line of JSON on standard output.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Wire } from './wire.mjs';

// A client that has not done a feature by then hangs.
const LIMIT_MS = 20_000;
const MOTTO = 'notes://motto';

// How a client comes back if the server does not say when: soon, so that nobody waits for nothing.
export const QUICKLY = {
  initialReconnectionDelay: 50, maxReconnectionDelay: 50, reconnectionDelayGrowFactor: 1, maxRetries: 3,
};

// The revision whose transport is HTTP+SSE, and where that is served.
export const SSE = '2024-11-05';
export const sseUrl = url => new URL('/sse', url);

// `connect(url, revision, wire, heard)` gives the verbs of one connection: `tools`, `call`, `resources`, `templates`,
// `read`, `watch`, `prompts`, `prompt`, `complete`, `close`. `heard` is where it says what came by itself.
export async function run(peer, connect) {
  const [url, revision, ...features] = process.argv.slice(2);
  for (const feature of features) {
    const errors = [];
    let last;
    const open = async (wire, heard = {}) => {
      last = wire;
      const session = await connect(url, revision, wire, { errors, elicit: refuse, updated: () => {}, ...heard });
      assert.equal(session.revision, revision, 'another revision was agreed on');
      return session;
    };
    let said;
    try {
      const note = await limited(FEATURES[feature](open, revision), feature);
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
  async list(open) {
    const session = await open(new Wire());
    const tools = await session.tools();
    assert.deepEqual(tools.map(tool => tool.name), ['add', 'count', 'order', 'hold', 'release', 'touch']);
    assert.deepEqual(tools[0].inputSchema.required, ['a', 'b']);
    await session.close();
  },

  async call(open) {
    const session = await open(new Wire());
    const answers = await Promise.all([1, 2, 3].map(b => session.call('add', { a: 40, b })));
    assert.deepEqual(answers.map(text), ['41', '42', '43']);
    await session.close();
  },

  async progress(open) {
    const session = await open(new Wire());
    const steps = [];
    const answer = await session.call('count', { to: 3 }, step => steps.push(step));
    assert.equal(text(answer), 'counted to 3');
    assert.deepEqual(steps.map(step => [step.progress, step.total]), [[1, 3], [2, 3], [3, 3]]);
    await session.close();
  },

  async elicitation(open) {
    const asked = [];
    const elicit = async question => {
      asked.push(question);
      return { action: 'accept', content: { name: 'Ada', planks: 3, size: 'large', sure: true } };
    };
    const session = await open(new Wire(), { elicit });
    assert.equal(text(await session.call('order', {})), '3 large planks for Ada, surely');
    assert.deepEqual(asked.map(question => question.message), ['What shall it be?']);
    assert.deepEqual(Object.keys(asked[0].requestedSchema.properties), ['name', 'planks', 'size', 'sure']);
    await session.close();
  },

  async resources(open, revision) {
    const wire = new Wire();
    const updates = [];
    let told;
    const session = await open(wire, { updated: uri => { updates.push(uri); told?.(); } });
    assert.deepEqual((await session.resources()).map(one => one.uri), [MOTTO]);
    assert.deepEqual((await session.templates()).map(one => one.uriTemplate), ['notes://{owner}/{number}']);
    assert.equal((await session.read(MOTTO)).contents[0].text, 'Measure twice, cut once.');
    assert.equal((await session.read('notes://ada/7')).contents[0].text, 'note 7 of ada');
    // News come on a stream of their own, which these clients open without waiting for it.
    if (revision !== '2026-07-28') await wire.listening;
    const stop = await session.watch(MOTTO);
    const update = new Promise(resolve => { told = resolve; });
    await session.call('touch', {});
    await update;
    await stop();
    await session.call('touch', {});
    assert.deepEqual(updates, [MOTTO]);
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
