// Appends of one topic, sent together in the order of the calls.

import { QueueFull, Refused } from "./errors.js";
import { only } from "./records.js";

const encoder = new TextEncoder();
const WIDE = /[^\0-\x7f]/; // has characters of several bytes

// A record on its way. `seq` is a promise that exists only if the application asks for it: most do not, and promises cost.
class Outgoing {
  #seq;
  #error;
  #promise;
  #tell;

  constructor(text) {
    this.text = text;
    this.bytes = WIDE.test(text) ? encoder.encode(text).length : text.length;
  }

  settle(seq, error) {
    this.text = null;
    this.#seq = seq;
    this.#error = error;
    this.#tell?.();
  }

  get seq() {
    if (!this.#promise) {
      this.#promise = new Promise((resolve, reject) => {
        this.#tell = () => (this.#error ? reject(this.#error) : resolve(this.#seq));
      });
      this.#promise.catch(() => {}); // `close` throws the first error, if the application does not look
      if (this.text === null) this.#tell();
    }
    return this.#promise;
  }
}

export class Batch {
  #topic;
  #limits;
  #records = [];
  #bytes = 0;
  #unsettled = 0;
  #sending = null;
  #timer = null;
  #room = [];
  #error = null;
  #isClosing = false;

  constructor(topic, { maxRecords = 1000, maxMs = 50, maxBytes = 1 << 20, queue = 10_000, full = "wait", ...others } = {}) {
    only(others, "maxRecords", "maxMs", "maxBytes", "queue", "full");
    if (!["wait", "refuse"].includes(full)) throw new TypeError(`invalid full ${full}: expected "wait" or "refuse"`);
    this.#topic = topic;
    this.#limits = { maxRecords, maxMs, maxBytes, queue, full };
  }

  // Resolves when the record is in the queue, to {seq}: a promise of the record's seq. If the queue is full, it waits for room, or
  // with full: "refuse" it throws QueueFull.
  async append(data, { tag, node, meta } = {}) {
    const record = new Outgoing(JSON.stringify({ data, tag, node, meta }));
    while (!this.#hasRoom) await new Promise((resolve) => this.#room.push(resolve));
    this.#records.push(record);
    this.#unsettled++;
    this.#bytes += record.bytes;
    this.#wake();
    return record;
  }

  // Sends what is left. Throws the first error of a record.
  async close() {
    this.#isClosing = true;
    for (this.#wake(); this.#sending; ) await this.#sending;
    if (this.#error) throw this.#error;
  }

  async [Symbol.asyncDispose ?? Symbol()]() {
    await this.close();
  }

  get #hasRoom() {
    if (this.#isClosing) throw new TypeError("the batch has ended: append before `close`");
    if (this.#unsettled < this.#limits.queue) return true;
    if (this.#limits.full === "refuse") throw new QueueFull(`${this.#unsettled} records wait for the server: try again later`);
    return false;
  }

  get #hasEnough() {
    const { maxRecords, maxBytes } = this.#limits;
    return this.#records.length > 0 && (this.#isClosing || this.#records.length >= maxRecords || this.#bytes >= maxBytes);
  }

  #wake() {
    if (this.#sending || !this.#records.length) return;
    if (this.#hasEnough) this.#begin();
    else this.#timer ??= setTimeout(() => this.#begin(), this.#limits.maxMs);
  }

  #begin() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#sending ??= this.#send().finally(() => {
      this.#sending = null;
      this.#wake();
    });
  }

  async #send() {
    const taken = this.#take();
    for (const left = taken.slice(); left.length; ) {
      try {
        const { seqs } = await this.#topic.appendTexts(left.map(({ text }) => text));
        left.forEach((record, n) => record.settle(seqs[n]));
        break;
      } catch (error) {
        // A record that the server refuses stops no other record.
        const index = error instanceof Refused && error.status === 400 ? error.detail.index : undefined;
        this.#error ??= error;
        const failed = Number.isInteger(index) && index < left.length ? left.splice(index, 1) : left.splice(0);
        for (const record of failed) record.settle(undefined, error);
      }
    }
    this.#unsettled -= taken.length;
    for (const resume of this.#room.splice(0)) resume();
  }

  #take() {
    const { maxRecords, maxBytes } = this.#limits;
    let count = 0;
    let bytes = 0;
    while (count < Math.min(this.#records.length, maxRecords)) {
      if (count && bytes + this.#records[count].bytes > maxBytes) break;
      bytes += this.#records[count++].bytes;
    }
    this.#bytes -= bytes;
    return this.#records.splice(0, count);
  }
}
