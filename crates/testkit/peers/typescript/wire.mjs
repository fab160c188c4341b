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
    this.seen.push(`${init.method} ${response.status}`);
    if (init.method === 'GET' && response.ok) (last === null ? this.#listening : this.#back).resolve();
    if (response.body === null) return response;
    const holds = typeof init.body === 'string' && init.body.includes('"hold"');
    const body = response.body.pipeThrough(new TransformStream(this.#reader(holds)));
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

function promise() {
  let resolve;
  const wait = new Promise(done => { resolve = done; });
  return { wait, resolve };
}
