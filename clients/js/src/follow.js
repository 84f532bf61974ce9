// A reader that continues exactly where it was, through every cut, restart and crash.

import { Refused } from "./errors.js";
import { sleep } from "./http.js";
import { only, tell } from "./records.js";

const WAIT_MS = 20_000;
const IDLE_MS = 1_000; // between reads that return nothing at once, as those of a sealed topic do
const LEAVE_MS = 5_000; // for the last commit: its records come again if it fails

// The position of a reader. `seq` is the last seq that was read, `done` the last that the application has done, `committed` the
// cursor on the server.
class Reader {
  #ending = new AbortController();

  constructor(topic, { cursor = null, start = "earliest", match, limit = 1000, commitMs = 1000, wait = true }) {
    Object.assign(this, { topic, cursor, start, match, limit, commitMs, wait });
    this.isAtHead = true; // the next read can wait
    this.dueAt = Infinity;
    this.ahead = null; // the next window, which is on its way
    this.told = "";
  }

  get signal() {
    return this.#ending.signal;
  }

  // Ends all calls of this reader, also the read ahead.
  end(reason) {
    this.#ending.abort(reason);
  }

  // Throws an error again, unless `end` is its cause.
  raise(error) {
    if (!this.signal.aborted || error !== this.signal.reason) throw error;
  }

  // Finds the position: that of the cursor, or `start` if the cursor is new.
  async begin() {
    const { topic, cursor, start, signal } = this;
    const stored = await this.#stored();
    if (stored !== null) this.seq = stored;
    else if (start === "earliest") this.seq = 0;
    else if (cursor) this.seq = await topic.setCursor(cursor, start === "head" ? { at: "head", signal } : { seq: start, signal });
    else if (start === "head") this.seq = (await topic.read(0, { limit: 1, signal })).headSeq;
    else this.seq = start;
    this.done = this.committed = this.seq;
  }

  // Reads until there are records or a loss. Returns null at the end if this reader does not wait. Commits before, if it is time or
  // the read can wait.
  async next() {
    if (this.isAtHead || performance.now() >= this.dueAt) await this.commit();
    for (;;) {
      const began = performance.now();
      const window = await (this.ahead ?? this.#read(this.seq, this.wait ? WAIT_MS : 0));
      this.ahead = null;
      const told = JSON.stringify(window.tombstone);
      // A recreated topic repeats its tombstone until its first record.
      if (told === this.told && window.nextFromSeq === this.seq) window.tombstone = null;
      // The cursor of the old topic is gone. That of the new one exists if it was set since.
      if (window.tombstone?.reason === "recreated") this.done = this.committed = (await this.#stored(Infinity)) ?? 0;
      const moved = window.nextFromSeq !== this.seq;
      this.seq = window.nextFromSeq;
      if (window.records.length || window.tombstone) {
        this.told = told;
        if (!window.caughtUp) {
          this.ahead = this.#read(this.seq, 0); // while the application works
          this.ahead.catch(() => {}); // the next call gets the error
        }
        this.isAtHead = window.caughtUp;
        if (this.done === this.committed) this.dueAt = performance.now() + this.commitMs;
        return window;
      }
      if (moved) {
        this.done = this.seq; // past records that the filter leaves out
        await this.commit();
      }
      if (window.caughtUp) {
        if (!this.wait) return null;
        if (!moved && performance.now() - began < IDLE_MS) await sleep(IDLE_MS, this.signal);
      }
    }
  }

  // Returns the seq of the cursor on the server, or null if there is none.
  async #stored(patienceMs) {
    const stored = this.cursor && (await this.topic.cursor(this.cursor, { patienceMs, signal: this.signal }));
    return stored?.seq ?? null;
  }

  async #read(seq, waitMs) {
    const { match, limit, signal } = this;
    return this.topic.read(seq, { match, limit, signal, waitMs, patienceMs: Infinity });
  }

  // Sets the cursor to the last seq that is done. Throws Refused with the code cursor_moved if another consumer moved it.
  async commit(options = { signal: this.signal, patienceMs: Infinity }) {
    if (this.cursor && this.done !== this.committed) {
      try {
        await this.topic.setCursor(this.cursor, { seq: this.done, expectedSeq: this.committed, ...options });
        this.committed = this.done;
      } catch (error) {
        if (error.code !== "cursor_moved" || !(await this.#isRecreated(options))) throw error;
      }
    }
    this.dueAt = performance.now() + this.commitMs;
  }

  // Returns whether the topic was deleted and created again since the last read. Then its cursor is gone, and did not move. The
  // next read tells the loss, and finds the cursor again.
  async #isRecreated(options) {
    const { tombstone } = await this.topic.read(this.seq, { limit: 1, ...options });
    return tombstone?.reason === "recreated" && JSON.stringify(tombstone) !== this.told;
  }
}

// Runs a loop over the windows of a reader until the application's `signal` is aborted, and commits at its end.
async function* windows(reader, signal) {
  const end = () => reader.end(signal.reason);
  if (signal?.aborted) end();
  signal?.addEventListener("abort", end, { once: true });
  try {
    await reader.begin();
    for (let window; (window = await reader.next()); reader.done = window.nextFromSeq) yield window;
  } catch (error) {
    reader.raise(error);
  } finally {
    signal?.removeEventListener("abort", end);
    reader.end();
    await reader.commit({ patienceMs: LEAVE_MS }).catch((error) => {
      if (error instanceof Refused && !error.canPass && error.code !== "cursor_moved") throw error;
    });
  }
}

export async function* pages(topic, { signal, ...options }) {
  only(options, "cursor", "start", "match", "limit", "wait");
  yield* windows(new Reader(topic, { ...options, commitMs: 0 }), signal);
}

export async function* follow(topic, { onLoss = "raise", signal, ...options }) {
  only(options, "cursor", "start", "match", "limit", "commitMs", "wait");
  const reader = new Reader(topic, options);
  for await (const window of windows(reader, signal)) {
    if (window.tombstone) await tell(window.tombstone, onLoss);
    for (const record of window.records) {
      if (reader.signal.aborted) return;
      yield record;
      reader.done = record.seq;
      if (performance.now() >= reader.dueAt) await reader.commit().catch((error) => reader.raise(error));
    }
  }
}
