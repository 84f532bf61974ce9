// A watch of several topics that continues exactly where it was, through every cut, restart and crash.

import { Refused } from "./errors.js";
import { EventStream } from "./events.js";
import { backoff, sleep } from "./http.js";
import { only, tell, toRecord, toTombstone } from "./records.js";

// The start of each topic. `start`: one for all, or an object by topic. A topic can have the name of a method of each object.
export function startOfEach(topics, start) {
  const of = (topic) => (Object(start) !== start ? start : Object.hasOwn(start, topic) ? start[topic] : null);
  return Object.fromEntries(topics.map((topic) => [topic, of(topic) ?? "earliest"]));
}

class Watching extends EventStream {
  #http;
  #url = null;
  #seqs = null; // the last seq of each topic that the stream has told

  constructor(http, topics, { start = "earliest", match, limit = 1000, consistency = "eventual" }) {
    super();
    if (!topics.length) throw new TypeError("no topics: expected the name of one at least");
    this.#http = http;
    this.starts = startOfEach(topics, start);
    this.options = { limit, include_tags: true, consistency };
    this.match = match;
  }

  // Continues the session by the seqs of all topics. If the server has forgotten the session, begins another.
  async connect() {
    for (let tries = 0; ; tries++) {
      this.#url ??= await this.#begin();
      try {
        return await this.#http.open(this.#url, { headers: { "last-event-id": eventId(this.#seqs) }, signal: this.signal });
      } catch (error) {
        if (!(error instanceof Refused && error.code === "not_found")) throw error;
        this.#url = null;
        await sleep(backoff(tries), this.signal);
      }
    }
  }

  async #begin() {
    const topics = {};
    for (const [topic, start] of Object.entries(this.starts)) {
      const seq = this.#seqs?.[topic] ?? start;
      topics[topic] = { ...(seq === "head" ? { tail: true } : { from_seq: seq === "earliest" ? 0 : seq }), match: this.match };
    }
    const body = JSON.stringify({ topics, ...this.options });
    const session = await this.#http.call("POST", "/v0/watch", { body, patienceMs: Infinity, signal: this.signal });
    this.#seqs ??= Object.fromEntries(Object.entries(session.topics).map(([topic, { from_seq }]) => [topic, from_seq]));
    return session.stream_url;
  }

  // Returns {records} or {tombstone}, or null after `end`.
  async next() {
    for (let event; (event = await this.event()); ) {
      if (event.name === "record") {
        const told = JSON.parse(event.data);
        this.#seqs[told.topic] = told.to_seq;
        return { records: told.records.map((record) => ({ ...toRecord(record), topic: told.topic })) };
      }
      if (event.name === "tombstone") {
        const tombstone = toTombstone(JSON.parse(event.data));
        this.#seqs[tombstone.topic] = tombstone.gapTo;
        return { tombstone };
      }
      // The server is shutting down, or the key is revoked, which the next call says.
      if (event.name === "error") this.hangUp();
    }
    return null;
  }
}

// The id of a stream that has told the records up to these seqs (docs/watch.md).
function eventId(seqs) {
  return btoa(JSON.stringify(seqs)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

// Yields the steps of a watch, until `signal` is aborted.
export async function* steps(http, topics, { signal, ...options }) {
  only(options, "start", "match", "limit", "consistency");
  const watching = new Watching(http, topics, options);
  const end = () => watching.end();
  if (signal?.aborted) return;
  signal?.addEventListener("abort", end, { once: true });
  try {
    for (let step; (step = await watching.next()); ) yield step;
  } finally {
    signal?.removeEventListener("abort", end);
    watching.end();
  }
}

export async function* watch(http, topics, { onLoss = "raise", ...options }) {
  for await (const { records = [], tombstone } of steps(http, topics, options)) {
    if (tombstone) await tell(tombstone, onLoss);
    for (const record of records) {
      if (options.signal?.aborted) return;
      yield record;
    }
  }
}
