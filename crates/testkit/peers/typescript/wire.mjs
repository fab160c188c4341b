// What lies between a client and the network: a `fetch` that takes notes and can cut the stream of a call.

export class Wire {
  // The Last-Event-ID of each GET that resumes.
  resumed = [];

  // Each request and how it was answered.
  seen = [];

  #lines = [];
  #cut;
  #listening = promise();
  #ended = promise();
  #back = promise();
  #mayReturn = promise();

  // The stream for what the server says by itself is open.
  get listening() { return this.#listening.wait; }

  // The server has ended the stream of `hold`.
  get ended() { return this.#ended.wait; }

  // The client has resumed a stream.
  get back() { return this.#back.wait; }

  // How often an answer came that holds this text.
  answers(text) {
    return this.#lines.filter(line => line.includes(text) && line.includes('"result"')).length;
  }

  // Cuts the stream of `hold`, as if the network had failed; the server sees its connection closed.
  cut() {
    if (!this.#cut) throw new Error('there is no stream with an event id to cut');
    this.#cut(new Error('cut'));
  }

  // Whoever wants to resume waits for this.
  letBack = () => this.#mayReturn.resolve();

  fetch = async (url, init = {}) => {
    const last = new Headers(init.headers).get('last-event-id');
    if (last !== null) {
      this.resumed.push(last);
      await this.#mayReturn.wait;
    }
    const response = await fetch(url, init);
    const method = init.method ?? 'GET';
    this.seen.push(`${method} ${response.status}`);
    if (method === 'GET' && response.ok) (last === null ? this.#listening : this.#back).resolve();
    if (response.body === null) return response;
    const holds = typeof init.body === 'string' && init.body.includes('"hold"');
    let body = response.body.pipeThrough(new TransformStream(this.#reader(holds)));
    if (String(url).endsWith('/sse')) body = body.pipeThrough(new TransformStream({ transform: apart }));
    return new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers });
  };

  // Passes on what it reads, and notes the lines.
  #reader(holds) {
    const decoder = new TextDecoder();
    let rest = '';
    return {
      transform: (chunk, controller) => {
        controller.enqueue(chunk);
        const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
        rest = lines.pop();
        this.#lines.push(...lines);
        // Without an id a client cannot say where to go on.
        if (holds && lines.some(line => line.startsWith('id:'))) this.#cut = reason => controller.error(reason);
      },
      flush: () => {
        this.#lines.push(rest);
        if (holds) this.#ended.resolve();
      },
    };
  }
}

// Passes on one event at a time. Over HTTP+SSE both clients read all events of a piece before they look at any
// notification, and by then have forgotten the call whose answer came in the same piece: its progress is lost to them.
async function apart(chunk, controller) {
  let start = 0;
  for (let end = 1; end <= chunk.length; end++) {
    if (end < chunk.length && !(chunk[end - 1] === 10 && chunk[end - 2] === 10)) continue;
    controller.enqueue(chunk.subarray(start, end));
    start = end;
    await new Promise(setImmediate);
  }
}

function promise() {
  let resolve;
  const wait = new Promise(done => { resolve = done; });
  return { wait, resolve };
}
