// A worker of a queue: claims jobs, extends their leases while they run, acks them, and gives those back that fail.

import { TopicsError } from "./errors.js";
import { backoff, path, random } from "./http.js";
import { only } from "./records.js";
import { onSignals } from "./signals.js";

const WAIT_MS = 5_000; // of a claim: a worker that ends waits for its last claim
const MOST_JOBS = 1_000; // of a call
const MOST_ERROR_BYTES = 2_048; // of a nack's error
const AHEAD_MS = 100; // a worker claims the jobs ahead that it does in this time
const IDLE_MS = 1_000; // between claims that return nothing at once, as those of a server that is stopping do

// A handler throws this to give its job back. `delayMs`: when the job is ready again. Without it, the delay of any other error.
export class Retry extends Error {
  constructor(error = "", { delayMs } = {}) {
    super(error);
    this.delayMs = delayMs;
  }
}

// A delay that doubles with each delivery, from 1 s to 5 minutes.
function doubled({ deliveries }) {
  return Math.min(300_000, 1_000 * 2 ** (deliveries - 1));
}

// Wakes one waiter. If it rings while nobody waits, the next wait ends at once.
class Bell {
  #rung = false;
  #wake = () => {};

  ring() {
    this.#rung = true;
    this.#wake();
  }

  async wait(ms = Infinity) {
    let timer;
    if (!this.#rung) {
      await new Promise((resolve) => {
        this.#wake = resolve;
        if (ms < Infinity) timer = setTimeout(resolve, ms);
      });
    }
    clearTimeout(timer);
    this.#rung = false;
  }
}

export class Worker {
  #http;
  #topic;
  #policy;
  #log;
  #held = new Map(); // by seq, in the order of renewals: {job, renewAt, isTaken}
  #waiting = []; // claimed jobs that no hand has taken
  #outcomes = []; // {job, failure}: the delay and the error of a nack, or null for an ack
  #room = new Bell();
  #due = new Bell();
  #hands = 0;
  #idle = []; // hands that wait for a job
  #meanMs = Infinity; // of a job
  #isEnding = false;
  #isOver = false;
  #error = null;
  #fail = (error) => {
    this.#error ??= error;
    this.stop();
  };

  constructor(http, topic, { concurrency = 1, leaseMs = 60_000, retryMs = doubled, node = `js-${random()}`, log = console, ...others } = {}) {
    only(others, "concurrency", "leaseMs", "retryMs", "node", "log");
    if (!(concurrency >= 1 && concurrency <= MOST_JOBS)) throw new RangeError(`invalid concurrency ${concurrency}: expected 1 to ${MOST_JOBS}`);
    if (!(leaseMs >= 100 && leaseMs <= 86_400_000)) throw new RangeError(`invalid leaseMs ${leaseMs}: expected 100 to 86400000`);
    this.#http = http;
    this.#topic = topic;
    this.#log = log;
    this.#policy = { concurrency, leaseMs, retryMs, node };
  }

  // Calls `handler(job)` for each job, `concurrency` of them at once, until SIGTERM, SIGINT or `stop`: then the running jobs end, and
  // all others are given back. If the handler throws, the job comes back later. Rejects with the server's refusal of a claim.
  async run(handler) {
    if (typeof handler !== "function") throw new TypeError("the worker has no function: give run one that does a job");
    const end = this.#begin(this.#policy.concurrency);
    const work = async () => {
      for (let job; (job = await this.#next()); ) {
        const began = performance.now();
        let failure = null;
        try {
          await handler(job);
        } catch (error) {
          failure = error || new Retry(String(error ?? ""));
        }
        this.#settle(job, failure, performance.now() - began);
      }
    };
    await Promise.all(Array.from({ length: this.#hands }, () => work().catch(this.#fail)));
    await end();
  }

  // Yields jobs one by one. A job is done when the loop asks for the next one, unless `fail` was called. If the loop ends within a
  // job, the job is given back.
  async *[Symbol.asyncIterator]() {
    const end = this.#begin(1);
    try {
      for (let job; (job = await this.#next()); ) {
        const began = performance.now();
        let failure = new Retry("", { delayMs: 0 });
        try {
          yield job;
          failure = null;
        } finally {
          this.#settle(job, failure, performance.now() - began);
        }
      }
    } finally {
      this.stop();
      await end();
    }
  }

  // Gives a job back with its error. In a loop, where no function throws it.
  fail(job, error, { delayMs } = {}) {
    this.#settle(job, error instanceof Error ? error : new Retry(error), undefined, delayMs);
  }

  // Ends the worker as SIGTERM does: it claims no more, and gives the jobs back that no hand has taken.
  stop() {
    if (this.#isEnding) return;
    this.#isEnding = true;
    for (const job of this.#waiting.splice(0)) this.#forget(job.seq, { delayMs: 0 });
    for (const take of this.#idle.splice(0)) take(null);
    this.#room.ring();
    this.#due.ring();
  }

  // Starts to claim. Returns a function that waits for the end of all calls, after `stop`.
  #begin(hands) {
    if (this.#hands) throw new TypeError("a worker runs once: make another one");
    this.#hands = hands;
    const off = onSignals(() => this.stop());
    const claims = this.#claims().catch(this.#fail);
    const keeper = this.#keep().catch(this.#fail);
    return async () => {
      await claims;
      this.#isOver = true;
      this.#due.ring();
      await keeper;
      off();
      if (this.#error) throw this.#error;
    };
  }

  // The next job of a hand, or null at the end.
  async #next() {
    const job = this.#waiting.shift();
    if (job || this.#isEnding) return job ?? null;
    return new Promise((take) => this.#idle.push(take));
  }

  // Notes that a job is done, or its error. A job that is settled stays so.
  #settle(job, error, ms, askedMs) {
    let failure = null;
    if (error) {
      const { retryMs } = this.#policy;
      const delayMs = askedMs ?? error.delayMs ?? (typeof retryMs === "function" ? retryMs(job) : retryMs);
      failure = { delayMs, error: shortened(error instanceof Retry ? error.message : `${error.name ?? "Error"}: ${error.message ?? error}`) };
    }
    if (this.#held.get(job.seq)?.job === job) this.#forget(job.seq, failure);
    if (ms !== undefined) this.#meanMs = this.#meanMs === Infinity ? ms : 0.9 * this.#meanMs + 0.1 * ms;
    this.#due.ring();
    if (this.#wanted() > 0) this.#room.ring();
  }

  #forget(seq, failure) {
    this.#outcomes.push({ job: this.#held.get(seq).job, failure });
    this.#held.delete(seq);
  }

  // How many jobs to claim now: for each free hand, and ahead what all hands do in AHEAD_MS.
  #wanted() {
    if (this.#isEnding) return 0;
    const ahead = Math.min(MOST_JOBS, Math.floor((this.#hands * AHEAD_MS) / Math.max(this.#meanMs, 1e-3)));
    if (this.#held.size >= this.#hands && this.#waiting.length * 2 >= ahead) return 0;
    return Math.min(MOST_JOBS, this.#hands + ahead - this.#held.size);
  }

  // Claims jobs until the worker ends, also while the server is away. Each claim is sent once, because a pause between two tries has to
  // end with the worker.
  async #claims() {
    const { leaseMs } = this.#policy;
    for (let tries = 0; !this.#isEnding; ) {
      const max = this.#wanted();
      if (max <= 0) {
        await this.#room.wait();
        continue;
      }
      const began = performance.now();
      let claimed;
      try {
        ({ claimed } = await this.#call("claim", { max, lease_ms: leaseMs, wait_ms: WAIT_MS }, { waitMs: WAIT_MS, patienceMs: 0 }));
      } catch (error) {
        if (!error.canPass) throw error;
        if (!tries) this.#log.warn(`The worker of ${this.#topic} tries again: ${error.message}`);
        await this.#pause(Math.max(error.retryAfterMs ?? 0, backoff(tries++)));
        continue;
      }
      tries = 0;
      this.#add(claimed.map(toJob));
      if (!claimed.length && !this.#isEnding && performance.now() - began < IDLE_MS) await this.#pause(IDLE_MS);
    }
  }

  // Waits, until the worker ends at most. The bell also rings for jobs that are done.
  async #pause(ms) {
    const over = performance.now() + ms;
    for (let left = ms; left > 0 && !this.#isEnding; left = over - performance.now()) await this.#room.wait(left);
  }

  // Gives claimed jobs to the hands, and back to the queue if it is too late.
  #add(jobs) {
    const renewAt = performance.now() + this.#policy.leaseMs / 3;
    for (const job of jobs) {
      if (this.#isEnding) {
        this.#outcomes.push({ job, failure: { delayMs: 0 } });
        continue;
      }
      this.#held.set(job.seq, { job, renewAt });
      if (this.#idle.length) this.#idle.shift()(job);
      else this.#waiting.push(job);
    }
    this.#due.ring();
  }

  // Sends the outcomes and extends the leases. All outcomes of the time of a call go in the next call.
  async #keep() {
    for (;;) {
      const now = performance.now();
      const first = this.#held.values().next().value?.renewAt ?? Infinity;
      const outcomes = this.#outcomes.splice(0, MOST_JOBS);
      if (first <= now) await this.#attempt(this.#extend(now));
      if (outcomes.length) await this.#attempt(this.#send(outcomes));
      else if (first > now) {
        if (this.#isOver) return;
        await this.#due.wait(first - now);
      }
    }
  }

  // Waits for a call. If it fails, the worker continues, and the jobs come back when their leases end.
  async #attempt(call) {
    try {
      await call;
    } catch (error) {
      if (!(error instanceof TopicsError)) throw error;
      this.#log.warn(`Jobs of ${this.#topic} come back when their leases end: ${error.message}`);
    }
  }

  async #extend(now) {
    const { leaseMs } = this.#policy;
    const due = [...this.#held.values()].filter(({ renewAt }) => renewAt <= now + leaseMs / 6).slice(0, MOST_JOBS);
    for (const { job } of due) {
      this.#held.delete(job.seq); // to the end of the order
      this.#held.set(job.seq, { job, renewAt: now + leaseMs / 3 });
    }
    const { skipped } = await this.#lease("extend", due.map(({ job }) => job), { lease_ms: leaseMs });
    const lost = due.filter(({ job }) => skipped.includes(job.seq) && this.#held.get(job.seq)?.job === job);
    for (const { job } of lost) this.#held.delete(job.seq);
    this.#waiting = this.#waiting.filter((job) => !lost.some((one) => one.job === job));
    if (lost.length) {
      this.#log.warn(`The leases of ${lost.length} jobs of ${this.#topic} have ended. Others can get the jobs`);
      this.#room.ring();
    }
  }

  async #send(outcomes) {
    const byFailure = new Map();
    for (const { job, failure } of outcomes) {
      const key = JSON.stringify(failure);
      if (!byFailure.has(key)) byFailure.set(key, { failure, jobs: [] });
      byFailure.get(key).jobs.push(job);
    }
    for (const { failure, jobs } of byFailure.values()) {
      if (failure) await this.#lease("nack", jobs, { delay_ms: failure.delayMs, error: failure.error || undefined });
      else await this.#lease("ack", jobs);
    }
  }

  async #lease(what, jobs, values) {
    return this.#call(what, { seqs: jobs.map(({ seq }) => seq), lease_ids: jobs.map(({ leaseId }) => leaseId), ...values });
  }

  async #call(what, body, options) {
    return this.#http.call("POST", path("topics", this.#topic, what), { body: JSON.stringify({ node: this.#policy.node, ...body }), ...options });
  }
}

function toJob({ $seq, $ts, $tag, lease_id, deadline, deliveries, data, meta }) {
  return { seq: $seq, ts: $ts, leaseId: lease_id, deadline, deliveries, data, tag: $tag ?? null, meta: meta ?? null };
}

// An error as a nack takes it: at most 2 KiB, without NUL.
function shortened(text) {
  const bytes = new TextEncoder().encode(text.replaceAll("\0", "").toWellFormed?.() ?? text);
  if (bytes.length <= MOST_ERROR_BYTES) return new TextDecoder().decode(bytes);
  let end = MOST_ERROR_BYTES;
  while ((bytes[end] & 0xc0) === 0x80) end--; // not within a character
  return new TextDecoder().decode(bytes.subarray(0, end));
}
