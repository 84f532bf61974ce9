// One WebSocket for publishes and subscriptions. It opens again after each cut, and continues where it was.

import { Refused, Unreachable } from "./errors.js";
import { backoff, camel, random, sleep } from "./http.js";
import { only, tell, toRecord, toTombstone } from "./records.js";

const RESUME = "resume "; // and a topic: the request_id of a subscription after a cut

export class Socket {
  #address;
  #WebSocket;
  #socket = null;
  #opening = null;
  #ids = 0;
  #tries = 0;
  #commands = new Map(); // by request_id: {command, resolve, reject}, without an answer yet
  #subscriptions = new Map(); // by topic: {seq, options, steps, wake}
  #isClosed = false;

  #http;

  constructor(http, WebSocket) {
    if (!WebSocket) throw new TypeError("no WebSocket here: give one, such as new Topics(url, key, { WebSocket })");
    this.#http = http;
    // A page cannot send headers with a WebSocket, so the key is in the address.
    this.#address = `${http.url.replace(/^http/, "ws")}/v0/ws${http.key ? `?token=${encodeURIComponent(http.key)}` : ""}`;
    this.#WebSocket = WebSocket;
  }

  // Appends a record. After a cut it is sent again, and stored once.
  async publish(topic, data, { tag, node, meta, idempotencyKey = random() } = {}) {
    return camel(await this.send({ op: "publish", topic, records: [{ data, tag, node, meta }], idempotency_key: idempotencyKey }));
  }

  // Sends a command (docs/websocket.md) and returns its answer. After a cut it is sent again, so a claim can be carried out twice.
  async send(command) {
    if (this.#isClosed) throw new Unreachable("the socket is closed");
    return new Promise((resolve, reject) => {
      const id = ++this.#ids;
      const whole = { ...command, request_id: id };
      this.#commands.set(id, { command: whole, resolve, reject });
      if (this.#isOpen) this.#write(whole);
      else this.#open();
    });
  }

  // Yields the records of a topic as they come, each once and in order, through every cut. One subscription for each topic.
  async *subscribe(topic, { start = "earliest", onLoss = "raise", match, limit, ...others } = {}) {
    only(others, "start", "onLoss", "match", "limit");
    if (this.#subscriptions.has(topic)) throw new TypeError(`this socket is subscribed to ${topic}: use that subscription, or another socket`);
    const subscription = { seq: start, match, limit, steps: [], wake: () => {} };
    this.#subscriptions.set(topic, subscription);
    try {
      await this.send(this.#subscribing(topic, subscription));
      for (;;) {
        while (!subscription.steps.length && !this.#isClosed) await new Promise((resolve) => (subscription.wake = resolve));
        const step = subscription.steps.shift();
        if (!step) return;
        if (step.error) throw step.error;
        if (step.tombstone) await tell(step.tombstone, onLoss);
        else yield* step.records;
      }
    } finally {
      this.#subscriptions.delete(topic);
      if (!this.#isClosed) this.send({ op: "unsubscribe", topic }).catch(() => {});
    }
  }

  // Ends all subscriptions, and rejects what has no answer yet.
  close() {
    this.#isClosed = true;
    this.#socket?.close();
    for (const { reject } of this.#commands.values()) reject(new Unreachable("the socket is closed"));
    this.#commands.clear();
    for (const { wake } of this.#subscriptions.values()) wake();
  }

  get #isOpen() {
    return this.#socket?.readyState === 1;
  }

  #write(command) {
    this.#socket.send(JSON.stringify(command));
  }

  #subscribing(topic, { seq, match, limit }) {
    const start = seq === "head" ? { tail: true } : { from_seq: seq === "earliest" ? 0 : seq };
    return { op: "subscribe", topics: { [topic]: { ...start, match } }, limit, include_tags: true };
  }

  // Opens a WebSocket unless there is one. One that is being opened sends what waits, and `#ended` opens the next one.
  #open() {
    if (!this.#socket) this.#opening ??= this.#connect().finally(() => (this.#opening = null));
  }

  async #connect() {
    if (this.#tries) await sleep(backoff(this.#tries - 1));
    this.#tries++;
    if (this.#isClosed) return;
    const socket = (this.#socket = new this.#WebSocket(this.#address));
    socket.onmessage = ({ data }) => this.#told(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.#ended(socket, code, reason);
    socket.onerror = () => {}; // a close follows
    socket.onopen = () => {
      socket.wasOpen = true;
      // A subscription that the server knew continues after its last record. Another one is among the commands.
      for (const [topic, subscription] of this.#subscriptions) {
        if (subscription.isKnown) this.#write({ ...this.#subscribing(topic, subscription), request_id: RESUME + topic });
      }
      for (const { command } of this.#commands.values()) this.#write(command);
    };
  }

  async #ended(socket, code, reason) {
    if (socket !== this.#socket || this.#isClosed) return;
    this.#socket = null;
    if (code === 1008) {
      this.#fail(new Refused(reason || "the key was refused", { code: "unauthorized", status: 401 }));
    } else if (!socket.wasOpen) {
      // A page does not see why a handshake was refused. A call does.
      await this.#http.call("GET", "/v0/topics", { query: { limit: 1 }, patienceMs: 0 }).catch((error) => {
        if (error.status === 401) this.#fail(error);
      });
    }
    if (this.#commands.size || this.#subscriptions.size) this.#open();
  }

  #fail(error) {
    for (const { reject } of this.#commands.values()) reject(error);
    this.#commands.clear();
    for (const subscription of this.#subscriptions.values()) this.#give(subscription, { error });
    this.#subscriptions.clear();
  }

  #give(subscription, step) {
    subscription.steps.push(step);
    subscription.wake();
  }

  #told(frame) {
    this.#tries = 0;
    const { op, request_id: id, topic, ...rest } = frame;
    const subscription = this.#subscriptions.get(topic);
    if (op === "record" && subscription) {
      subscription.seq = rest.to_seq;
      this.#give(subscription, { records: rest.records.map((record) => ({ ...toRecord(record), topic })) });
    } else if (op === "tombstone" && subscription) {
      subscription.seq = rest.gap_to;
      this.#give(subscription, { tombstone: toTombstone({ topic, ...rest }) });
    } else if (op === "subscribed") {
      for (const [name, { from_seq: seq }] of Object.entries(rest.topics)) {
        const known = this.#subscriptions.get(name);
        if (known && !known.isKnown) Object.assign(known, { seq, isKnown: true });
      }
    }
    const asked = this.#commands.get(id);
    this.#commands.delete(id);
    if (op === "error") {
      const error = new Refused(rest.message, rest);
      asked?.reject(error);
      const resumed = String(id).startsWith(RESUME) && this.#subscriptions.get(id.slice(RESUME.length));
      if (resumed) this.#give(resumed, { error });
    } else if (asked) {
      const { performance, ...answer } = rest;
      asked.resolve(answer);
    }
  }
}
