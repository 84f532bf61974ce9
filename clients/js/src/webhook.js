// Webhooks: their calls at the server, and what a receiver does with a call.

import { TopicsError } from "./errors.js";
import { path } from "./http.js";

const MOST_AGE_S = 300;

// A call that the server did not sign with this secret, or that somebody recorded and sent again later. Answer 401.
export class InvalidSignature extends TopicsError {}

// Returns the JSON of a call: a record, a batch or a CloudEvent, as the webhook's `format` says. Rejects with InvalidSignature.
//
// `secret`: the webhook's, or several. `headers`: a Headers, or an object as Node.js has it. `body`: as it came, a string or bytes,
// before anything parses it. A record can come twice: drop a `webhook-id` that you have seen.
export async function verified(secret, headers, body, { maxAgeS = MOST_AGE_S } = {}) {
  const header = (name) => (typeof headers.get === "function" ? headers.get(name) : headers[name]) ?? "";
  const [id, ts, signatures] = ["id", "timestamp", "signature"].map((name) => header(`webhook-${name}`));
  if (!id || !/^\d+$/.test(ts) || !signatures) {
    throw new InvalidSignature("expected the headers webhook-id, webhook-timestamp and webhook-signature, as a server of topics sends them");
  }
  if (Math.abs(Date.now() / 1000 - Number(ts)) > maxAgeS) {
    throw new InvalidSignature(`the call was signed at ${ts}, over ${maxAgeS} s from now: check the clock`);
  }
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
  const signed = new Uint8Array([...new TextEncoder().encode(`${id}.${ts}.`), ...bytes]);
  for (const each of [secret].flat()) {
    const key = await crypto.subtle.importKey("raw", decoded(each), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of signatures.split(" ")) {
      if (signature.startsWith("v1,") && (await fits(key, signature.slice(3), signed))) {
        return JSON.parse(new TextDecoder().decode(bytes));
      }
    }
  }
  throw new InvalidSignature("no signature fits: check the secret, and give the body as it came");
}

// Compares in constant time.
async function fits(key, signature, signed) {
  try {
    return await crypto.subtle.verify("HMAC", key, fromBase64(signature), signed);
  } catch {
    return false; // no base64
  }
}

function decoded(secret) {
  try {
    return fromBase64(secret.replace(/^whsec_/, ""));
  } catch {
    throw new TypeError("invalid secret: expected whsec_ and base64");
  }
}

function newSecret() {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

// A webhook. Topics.webhook makes it. Calls take and return the fields of docs/wire.md.
export class Webhook {
  constructor(http, name) {
    this.http = http;
    this.name = name;
  }

  // Creates or changes the webhook. The answer that creates it has the secret, unless the client had to repeat the call because
  // an answer was lost. Then `rotate` gives the webhook one. A `secret` of your own cannot be lost.
  async put(url, topics, fields = {}) {
    return this.http.call("PUT", path("webhooks", this.name), { body: JSON.stringify({ url, topics, ...fields }) });
  }

  async info() {
    return this.http.call("GET", path("webhooks", this.name));
  }

  // Deletes it. After this, nothing is sent.
  async delete() {
    return this.http.call("DELETE", path("webhooks", this.name));
  }

  // Pauses it. After this, nothing is sent, and records wait in their topics.
  async pause() {
    return this.#post("pause");
  }

  async resume() {
    return this.#post("resume");
  }

  // Sends a test. `deliveries` has its outcome.
  async test() {
    return this.#post("test");
  }

  // Returns its new secret. For a day, calls have a signature by both. The secret is made here: a call without one whose answer was
  // lost would be sent again, and replace the secret that receivers have.
  async rotate(secret = newSecret()) {
    return (await this.#post("rotate", { secret })).secret;
  }

  // Returns its newest calls. `query`: `page_size`, `topic`, `seq`, `state`, `from_ts`, `to_ts`.
  async deliveries(query = {}) {
    return (await this.http.call("GET", path("webhooks", this.name, "deliveries"), { query })).deliveries;
  }

  // Sends records again, and returns their number. `dry_run: true` counts them. `failed: true`: those that had no attempt left, of
  // all topics or of `topic`. Else those of `topic`, with seqs or times.
  async replay(fields) {
    // Without `to_seq`, a replay of those that failed continues in later topics.
    const to_seq = fields.to_seq ?? (fields.topic == null ? null : Number.MAX_SAFE_INTEGER);
    let records = 0;
    for (let body = { ...fields, to_seq }; ; ) {
      const answer = await this.#post("replay", body);
      records += answer.records;
      if (answer.next_topic === null) return records;
      body = { ...body, topic: answer.next_topic, from_seq: answer.next_from_seq };
    }
  }

  async #post(what, fields = {}) {
    return this.http.call("POST", path("webhooks", this.name, what), { body: JSON.stringify(fields) });
  }
}
