// A member of a consumer group: its session, its shares, and how far the application has done each of them.

import { Refused } from "./errors.js";
import { EventStream } from "./events.js";
import { path, random } from "./http.js";
import { only, tell, toRecord, toTombstone } from "./records.js";
import { onSignals } from "./signals.js";

const PATIENCE_MS = 5_000; // of a commit: its records come again at worst
const IN_FLIGHT = 5_000; // records that the server sends ahead of the commits: so its reads are whole pages

class Membership extends EventStream {
  #session = null;
  #shares = new Map(); // by number: {number, generation, done, committed}
  #before = new Map(); // of the last connection, whose records may come again
  #dueAt = 0;

  constructor(http, topic, group, options, commitMs) {
    super();
    Object.assign(this, { http, topic, group, options, commitMs });
  }

  path(what) {
    return path("topics", this.topic, "groups", this.group, what);
  }

  async connect() {
    for (const [number, share] of this.#shares) this.#before.set(number, share);
    this.#shares.clear();
    return this.http.open(this.path("stream"), { query: this.options, signal: this.signal });
  }

  async beforeWait() {
    await this.commit();
  }

  // Returns the next records or the next loss of a share of this member as {share, records, toSeq, tombstone}, or null after `end`.
  async next() {
    for (let event; (event = await this.event()); ) {
      const told = event.data && JSON.parse(event.data);
      const share = this.#owned(told);
      if (event.name === "record" && share) {
        const fresh = told.records.map(toRecord).filter(({ seq }) => seq > share.done); // the others are done, not committed
        const records = fresh.map((record) => ({ ...record, topic: told.topic, share: told.share }));
        if (records.length) return { share, records, toSeq: told.to_seq };
        share.done = Math.max(share.done, told.to_seq);
      } else if (event.name === "tombstone" && share && told.gap_to > share.done) {
        return { share, records: [], toSeq: told.gap_to, tombstone: toTombstone(told) };
      } else {
        this.#told(event.name, told);
      }
    }
    return null;
  }

  #owned({ share, generation }) {
    const owned = this.#shares.get(share);
    return owned?.generation === generation ? owned : null;
  }

  #told(name, told) {
    if (name === "joined") this.#session = told.session;
    else if (name === "assigned") told.shares.forEach((share) => this.#assigned(share));
    else if (name === "topic-deleted") {
      const text = `topic ${this.topic} was deleted, and its groups with it`;
      throw new Refused(text, { code: "topic_not_found", status: 404, detail: { topic: this.topic } });
    } else if (name === "error") {
      if (told.code === "session_ended") this.#forget();
      this.hangUp();
    }
  }

  // Notes a share. Records that this member did in its last connection, and could not commit, are not handed out again.
  #assigned({ share: number, generation, seq }) {
    const known = this.#shares.get(number) ?? this.#before.get(number);
    this.#before.delete(number);
    const done = known && known.generation <= generation ? Math.max(seq, known.done) : seq;
    this.#shares.set(number, { number, generation, done, committed: seq });
  }

  // The session has ended: another member may have the shares, or the group may be another one.
  #forget() {
    this.#session = null;
    this.#shares.clear();
    this.#before.clear();
  }

  isMine(share) {
    return this.#shares.get(share.number) === share;
  }

  // Counts the records of a share up to `seq` as done, and returns whether to commit now.
  isDue(share, seq) {
    share.done = Math.max(share.done, seq);
    return performance.now() >= this.#dueAt;
  }

  // Commits the done records. Forgets the shares that this member has lost.
  async commit() {
    while (this.#session !== null) {
      const due = [...this.#shares.values()].filter((share) => share.done > share.committed);
      if (!due.length) break;
      const shares = due.map(({ number, generation, done }) => ({ share: number, generation, seq: done }));
      try {
        await this.#call("commit", { session: this.#session, shares });
        due.forEach((share, n) => (share.committed = shares[n].seq));
      } catch (error) {
        if (error.code === "share_moved") {
          for (const number of error.detail.shares ?? due.map(({ number }) => number)) this.#shares.delete(number);
          continue;
        }
        if (error.code === "session_ended") {
          this.#forget();
          this.hangUp();
        } else if (!error.canPass) {
          throw error; // otherwise the next commit has all of it
        }
      }
      break;
    }
    this.#dueAt = performance.now() + this.commitMs;
  }

  // Commits, and ends the membership: others get the shares at once.
  async leave() {
    await this.commit();
    const session = this.#session;
    this.#session = null;
    if (session !== null) {
      await this.#call("leave", { session }).catch((error) => {
        if (!["session_ended", "not_found"].includes(error.code)) throw error; // the first try has left
      });
    }
  }

  async #call(what, body) {
    return this.http.call("POST", this.path(what), { body: JSON.stringify(body), patienceMs: PATIENCE_MS });
  }
}

// A loop over the records of this member's shares. A record is done when the loop asks for the next one.
export class Group {
  #membership;
  #onLoss;

  constructor(http, topic, name, { onLoss = "raise", commitMs = 1000, ...options } = {}) {
    only(options, "member", "start", "partitions", "partitionBy", "sessionMs");
    const { member = `js-${random()}`, start, partitions, partitionBy, sessionMs = 30_000 } = options;
    const asked = { member, session_ms: sessionMs, max_in_flight: IN_FLIGHT };
    if (start === "head") asked.tail = true;
    else if (start !== undefined) asked.from_seq = start === "earliest" ? 0 : start;
    if (partitions !== undefined) asked.partitions = partitions;
    if (partitionBy !== undefined) asked.partition_by = partitionBy;
    this.#membership = new Membership(http, topic, name, asked, commitMs);
    this.#onLoss = onLoss;
  }

  // Ends the loop before its next record.
  stop() {
    this.#membership.end();
  }

  // Yields records until SIGTERM, SIGINT or `stop`. At its end, it commits and leaves the group.
  async *[Symbol.asyncIterator]() {
    const member = this.#membership;
    const off = onSignals(() => this.stop());
    try {
      for (let part; (part = await member.next()); ) {
        if (part.tombstone) await tell(part.tombstone, this.#onLoss);
        let isWhole = true;
        for (const record of part.records) {
          isWhole = !member.signal.aborted && member.isMine(part.share);
          if (!isWhole) break;
          yield record;
          if (member.isDue(part.share, record.seq)) await member.commit();
        }
        if (isWhole) member.isDue(part.share, part.toSeq);
      }
    } finally {
      off();
      member.end();
      await member.leave().catch(() => {}); // the session ends by itself
    }
  }
}
