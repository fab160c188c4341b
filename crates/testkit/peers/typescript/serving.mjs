// How the TypeScript servers are started, and what is known of a session over HTTP beside what the package knows.
//
// A run is `node server-vN.mjs --stdio`, `--http PORT` or `--sse PORT`. Over HTTP it listens on 127.0.0.1 (at a free
// port if that is 0), says `ready PORT` when it does, and ends with its standard input.

import { randomUUID } from 'node:crypto';
import { createServer, STATUS_CODES } from 'node:http';
import { json } from 'node:stream/consumers';

// How long a client waits before it comes back for a stream.
const RETRY_MS = 50;

// Nobody waits longer for what may never happen.
const PATIENCE_MS = 5_000;

// `stdio()` serves this process; `http` and `sse` answer a request, `(req, res, message)`.
export async function start({ stdio, http, sse }) {
  const [how, port] = process.argv.slice(2);
  if (how === '--stdio') return stdio();
  const answer = { '--http': http, '--sse': sse }[how];
  if (!answer || !/^\d+$/.test(port)) {
    console.error('usage: --stdio | --http PORT | --sse PORT');
    process.exit(2);
  }
  endWithInput();
  const server = createServer(async (req, res) => {
    try {
      await answer(req, res, req.method === 'POST' ? await json(req) : undefined);
    } catch (error) {
      console.error(error);
      if (!res.headersSent) refuse(res, 500);
    }
  });
  server.listen(Number(port), '127.0.0.1', () => console.log(`ready ${server.address().port}`));
}

// Whoever started this process holds the other end, and has gone when it closes.
export function endWithInput() {
  process.stdin.on('end', () => process.exit()).on('error', () => process.exit()).resume();
}

// Serves Streamable HTTP with sessions. `offer(wire)` makes the server of one.
export function sessions(Transport, offer) {
  const open = new Map();
  return async (req, res, message) => {
    const id = req.headers['mcp-session-id'];
    let session = open.get(id);
    if (!session) {
      if (id !== undefined) return refuse(res, 404);
      if (message?.method !== 'initialize') return refuse(res, 400);
      const wire = new Wire();
      const transport = new Transport({
        sessionIdGenerator: randomUUID,
        eventStore: new Events(),
        retryInterval: RETRY_MS,
        onsessioninitialized: id => { open.set(id, session); },
        onsessionclosed: id => { open.delete(id); },
      });
      session = { wire, transport };
      await offer(wire).connect(transport);
    }
    session.wire.watch(req, res, message);
    await session.transport.handleRequest(req, res, message);
  };
}

// Serves HTTP+SSE. `offer(wire)` makes the server of one stream.
export function streams(Transport, offer) {
  const open = new Map();
  return async (req, res, message) => {
    const { pathname, searchParams } = new URL(req.url, 'http://127.0.0.1');
    if (req.method === 'GET' && pathname === '/sse') {
      const transport = new Transport('/messages', res);
      open.set(transport.sessionId, transport);
      res.on('close', () => open.delete(transport.sessionId));
      return offer(new Wire(true)).connect(transport);
    }
    const transport = open.get(searchParams.get('sessionId'));
    if (req.method !== 'POST' || !transport) return refuse(res, 404);
    return transport.handlePostMessage(req, res, message);
  };
}

function refuse(res, status) {
  const body = { jsonrpc: '2.0', id: null, error: { code: -32_000, message: STATUS_CODES[status] } };
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

// What lies between a server and the network.
export class Wire {
  #listening = promise();
  #back = promise();
  #drops = new Map();

  // Where everything goes over one channel, the client listens from the beginning.
  constructor(single = false) {
    if (single) this.#listening.resolve(true);
  }

  // The client has opened a stream for what a server says by itself. News that come before are lost.
  get listening() { return soon(this.#listening.wait); }

  // The client has resumed a stream after this was read; false if it does not.
  get back() {
    this.#back = promise();
    return soon(this.#back.wait);
  }

  // Takes note of a request. A stream is there when its headers are written.
  watch(req, res, message) {
    if (message?.params?.name === 'drop') this.#drops.set(message.id, { res, written: noted(res, 'write') });
    if (req.method !== 'GET') return;
    const seen = req.headers['last-event-id'] === undefined ? this.#listening : this.#back;
    noted(res, 'writeHead').then(() => seen.resolve(true));
  }

  // Cuts the stream of a call of `drop` as if the network had failed, after its first event has left.
  async cut(id) {
    const drop = this.#drops.get(id);
    if (!drop) throw new Error('there is no stream to lose');
    await drop.written;
    await new Promise(left => drop.res.socket.write('', left));
    drop.res.destroy();
  }
}

// When a method is called for the first time.
function noted(object, name) {
  const { wait, resolve } = promise();
  const method = object[name];
  object[name] = function (...args) {
    resolve();
    return method.apply(this, args);
  };
  return wait;
}

// What was sent on each stream, for whoever comes back. The ids count, so that the order is that of sending.
class Events {
  #events = [];

  async storeEvent(stream, message) {
    return String(this.#events.push({ stream, message }));
  }

  async getStreamIdForEventId(id) {
    return this.#events[id - 1]?.stream;
  }

  async replayEventsAfter(last, { send }) {
    const stream = this.#events[last - 1]?.stream;
    for (let id = Number(last) + 1; id <= this.#events.length; id++) {
      const event = this.#events[id - 1];
      if (event.stream === stream) await send(String(id), event.message);
    }
    return stream;
  }
}

export function soon(wait) {
  let timer;
  const late = new Promise(resolve => { timer = setTimeout(() => resolve(false), PATIENCE_MS); });
  return Promise.race([wait, late]).finally(() => clearTimeout(timer));
}

export function promise() {
  let resolve;
  const wait = new Promise(done => { resolve = done; });
  return { wait, resolve };
}
