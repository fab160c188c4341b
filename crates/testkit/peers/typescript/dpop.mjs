// The check of a proof of possession (DPoP, RFC 9449) at a protected server, with `jose`.

import { createHash, randomUUID } from 'node:crypto';
import { calculateJwkThumbprint, EmbeddedJWK, jwtVerify } from 'jose';

// The server asks for a nonce of its own in every proof.
const NONCE = randomUUID();
const seen = new Set();

const refuse = error =>
  new Response(null, { status: 401, headers: { 'www-authenticate': `DPoP error="${error}"`, 'dpop-nonce': NONCE } });

// Returns a response that refuses the proof of a request, or nothing. `thumbprint` is that of the key in the token.
export const refuseProof = async (request, url, token, thumbprint) => {
  try {
    const proof = request.headers.get('dpop') ?? '';
    const checks = { typ: 'dpop+jwt', algorithms: ['ES256'], maxTokenAge: 60 };
    const { payload, protectedHeader } = await jwtVerify(proof, EmbeddedJWK, checks);
    if (payload.nonce !== NONCE) return refuse('use_dpop_nonce');
    const expected = {
      htm: request.method, htu: url, ath: createHash('sha256').update(token).digest('base64url'),
    };
    for (const [name, value] of Object.entries(expected)) {
      if (payload[name] !== value) throw new Error(`${name} is ${payload[name]}`);
    }
    if (await calculateJwkThumbprint(protectedHeader.jwk) !== thumbprint) throw new Error('another key');
    if (seen.has(payload.jti)) throw new Error('a proof was used twice');
    seen.add(payload.jti);
  } catch (error) {
    console.error('proof', error.message);
    return refuse('invalid_dpop_proof');
  }
};
