// @modelcontextprotocol/server-everything, started like the others: it knows other words, listens on every address,
// and does not say at which port.

import { Server } from 'node:net';
import { endWithInput } from './serving.mjs';

const TRANSPORTS = { '--stdio': 'stdio', '--http': 'streamableHttp', '--sse': 'sse' };

const [how, port] = process.argv.slice(2);
const transport = TRANSPORTS[how];
if (!transport || (how !== '--stdio' && !/^\d+$/.test(port))) {
  console.error('usage: --stdio | --http PORT | --sse PORT');
  process.exit(2);
}
if (how !== '--stdio') {
  endWithInput();
  const listen = Server.prototype.listen;
  Server.prototype.listen = function (_, ready) {
    return listen.call(this, Number(port), '127.0.0.1', () => {
      console.log(`ready ${this.address().port}`);
      ready?.();
    });
  };
}
process.argv.splice(2, Infinity, transport);
await import('@modelcontextprotocol/server-everything/dist/index.js');
