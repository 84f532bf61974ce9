import { Batch } from "./batch.js";
import { follow, pages } from "./follow.js";
import { Group } from "./group.js";
import { camel, path, random } from "./http.js";
import { only, toRecord, toTombstone } from "./records.js";
import { Worker } from "./worker.js";

// A topic. Its methods have the names of the Python client.
export class Topic {
  #http;

  constructor(http, name) {
    this.#http = http;
    this.name = name;
  }

  // Appends a record, and returns {seq, firstSeq, lastSeq, headSeq, count, created, deduped, …}. Tries again for up to a minute, and
  // still appends once, because each call has an idempotency key.
  async append(data, { tag, node, meta, ...options } = {}) {
    const appended = await this.appendAll([{ data, tag, node, meta }], options);
    return { seq: appended.lastSeq, ...appended };
  }

  // Appends up to 10,000 records {data, tag, node, meta} with consecutive seqs, or none of them. Tries again as `append` does.
  async appendAll(records, options) {
    return this.appendTexts(records.map((record) => JSON.stringify(record)), options);
  }

  // As `appendAll`, for records that are JSON already.
  async appendTexts(texts, { idempotencyKey = random(), expectedHead, create, patienceMs, signal, ...others } = {}) {
    only(others, "tag", "node", "meta", "idempotencyKey", "expectedHead", "create", "patienceMs", "signal");
    const options = JSON.stringify({ idempotency_key: idempotencyKey, expected_head: expectedHead, create });
    const body = `{"records":[${texts.join()}],${options.slice(1)}`;
    return camel(await this.#http.call("POST", this.#path(), { body, patienceMs, signal }));
  }

  // Returns a batch: it puts the records of many calls into few appends. `close` ends it.
  batch(options) {
    return new Batch(this, options);
  }

  // Reads up to `limit` records after a seq. Waits up to `waitMs` (at most 30,000) if there are none.
  async read(fromSeq = 0, { limit = 1000, match, waitMs = 0, patienceMs, signal, ...others } = {}) {
    only(others, "limit", "match", "waitMs", "patienceMs", "signal");
    const filter = match === undefined ? {} : { match, window: "matches" };
    const body = JSON.stringify({ from_seq: fromSeq, limit, include_tags: true, wait_ms: waitMs, ...filter });
    const window = camel(await this.#http.call("POST", this.#path("diff"), { body, waitMs, patienceMs, signal }));
    return { ...window, records: window.records.map(toRecord), tombstone: window.tombstone ? toTombstone(window.tombstone) : null };
  }

  // Yields windows of records, and of losses, for a consumer that keeps `nextFromSeq` with its results.
  pages(options = {}) {
    return pages(this, options);
  }

  // Yields each record once and in order, and waits for the next ones.
  follow(options = {}) {
    return follow(this, options);
  }

  // A member of a consumer group, as a loop.
  group(name, options) {
    return new Group(this.#http, this.name, name, options);
  }

  // A worker of this queue: `run(handler)`, or a loop.
  worker(options) {
    return new Worker(this.#http, this.name, options);
  }

  // Creates this topic, or changes its config. `fields`: see docs/wire.md, such as {type: "queue"}.
  async configure(fields = {}) {
    return this.#http.call("PUT", this.#path(), { body: JSON.stringify(fields) });
  }

  // Returns the config and the figures of this topic.
  async info() {
    return this.#http.call("GET", this.#path());
  }

  // Deletes this topic with its records.
  async delete() {
    return this.#http.call("DELETE", this.#path());
  }

  // Returns a cursor as {seq, lag, …}, or null.
  async cursor(name, { patienceMs, signal } = {}) {
    return this.#http.call("GET", this.#path("cursors", name), { patienceMs, signal }).then(camel, (error) => {
      if (error.code === "not_found") return null;
      throw error;
    });
  }

  // Sets a cursor, and returns its seq. Throws Refused with the code cursor_moved if it is not at `expectedSeq`.
  async setCursor(name, { seq, at, expectedSeq, patienceMs, signal }) {
    const body = JSON.stringify({ seq, at, expected_seq: expectedSeq });
    try {
      return (await this.#http.call("PUT", this.#path("cursors", name), { body, patienceMs, signal })).seq;
    } catch (error) {
      // An earlier try of this call may have moved the cursor. At the first try, another consumer has moved it to the same seq.
      if (error.code === "cursor_moved" && error.isRepeat && error.detail.seq === seq) return seq;
      throw error;
    }
  }

  async deleteCursor(name) {
    return this.#http.call("DELETE", this.#path("cursors", name));
  }

  // Returns the cursors of this topic, of every kind.
  async cursors() {
    return this.#http.every(this.#path("cursors"), "cursors");
  }

  // Creates or replaces a schedule of this queue. `fields`: `not_before` or `cron`, and others of docs/wire.md.
  async schedule(name, data, fields) {
    return this.#http.call("PUT", this.#path("schedules", name), { body: JSON.stringify({ data, ...fields }) });
  }

  async schedules() {
    return this.#http.every(this.#path("schedules"), "schedules");
  }

  // Deletes a schedule. Its jobs stay.
  async deleteSchedule(name) {
    return this.#http.call("DELETE", this.#path("schedules", name));
  }

  // Moves dead letters of this topic back to their queues, and returns how many. `fields`: see docs/wire.md.
  async redrive(fields = {}) {
    let moved = 0;
    for (let from; ; ) {
      const answer = await this.#http.call("POST", this.#path("redrive"), { body: JSON.stringify({ ...fields, from_seq: from }) });
      moved += answer.moved;
      if (answer.caught_up || fields.seqs) return moved;
      from = answer.next_from_seq;
    }
  }

  #path(...parts) {
    return path("topics", this.name, ...parts);
  }
}
