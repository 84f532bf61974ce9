// One WebSocket for publishes and subscriptions. It opens again after each cut, and continues where it was.

import { Refused, Unreachable } from "./errors.js";
import { PATIENCE_MS, backoff, camel, random, sleep, stopwatch } from "./http.js";
import { only, tell, toRecord, toTombstone } from "./records.js";

const MOST_STEPS = 32; // frames that a subscription keeps for the application: a WebSocket cannot be told to wait

export class Socket {
  #address;
  #WebSocket;
  #socket = null;
  #opening = null;
  #ids = 0;
  #tries = 0;
  #commands = new Map(); // by request_id: {text, sinceCall, isSent, resolve, reject}, without an answer yet
  #subscriptions = new Map(); // by topic: {topic, seq, match, limit, signal, steps, wake, id, isKnown, isPaused}
  #isClosed = false;

  #http;

  constructor(http, WebSocket) {
    if (!WebSocket) throw new TypeError("no WebSocket here: give one, such as new Topics(url, key, { WebSocket })");
    this.#http = http;
    // A page cannot send headers with a WebSocket, so the key is in the address.
    this.#address = `${http.url.replace(/^http/, "ws")}/v0/ws${http.key ? `?token=${encodeURIComponent(http.key)}` : ""}`;
    this.#WebSocket = WebSocket;
  }

  // Appends a record. After a cut it is sent again for up to a minute, and stored once.
  async publish(topic, data, { tag, node, meta, idempotencyKey = random() } = {}) {
    return camel(await this.send({ op: "publish", topic, records: [{ data, tag, node, meta }], idempotency_key: idempotencyKey }));
  }

  // Sends a command (docs/websocket.md) and returns its answer. For up to a minute, it waits for the socket to open, and is sent again
  // after a cut, so a claim can be carried out twice.
  async send(command) {
    if (this.#isClosed) throw new Unreachable("the socket is closed");
    const id = ++this.#ids;
    const text = JSON.stringify({ ...command, request_id: id }); // throws before the socket knows the command
    return new Promise((resolve, reject) => {
      const waiting = { text, sinceCall: stopwatch(), isSent: false, resolve, reject };
      this.#commands.set(id, waiting);
      if (this.#isOpen) this.#write(waiting);
      else this.#open();
    });
  }

  // Yields the records of a topic as they come, each once and in order, through every cut, until `signal` is aborted. One subscription for
  // each topic.
  async *subscribe(topic, { start = "earliest", onLoss = "raise", match, limit, signal, ...others } = {}) {
    only(others, "start", "onLoss", "match", "limit", "signal");
    if (this.#subscriptions.has(topic)) throw new TypeError(`this socket is subscribed to ${topic}: use that subscription, or another socket`);
    if (this.#isClosed) throw new Unreachable("the socket is closed");
    if (signal?.aborted) return;
    const subscription = { topic, seq: start, match, limit, signal, steps: [], wake: () => {} };
    JSON.stringify(subscription); // throws before the socket knows it
    this.#subscriptions.set(topic, subscription);
    const end = () => subscription.wake();
    signal?.addEventListener("abort", end, { once: true });
    try {
      this.#follow(subscription);
      for (let step; (step = await this.#next(subscription)); ) {
        if (step.error) throw step.error;
        if (step.tombstone) await tell(step.tombstone, onLoss);
        for (const record of step.records ?? []) {
          if (signal?.aborted) return;
          yield record;
        }
      }
    } finally {
      signal?.removeEventListener("abort", end);
      this.#subscriptions.delete(topic);
      this.#leave(topic);
    }
  }

  // Ends all subscriptions, and rejects what has no answer yet.
  close() {
    this.#isClosed = true;
    this.#socket?.close();
    clearInterval(this.#socket?.timer);
    for (const { reject } of this.#commands.values()) reject(new Unreachable("the socket is closed"));
    this.#commands.clear();
    for (const { wake } of this.#subscriptions.values()) wake();
  }

  get #isOpen() {
    return this.#socket?.readyState === 1;
  }

  #write(command) {
    command.isSent = true;
    this.#socket.send(command.text);
  }

  // Subscribes to a topic where its subscription shall continue. Frames before the answer belong to an earlier one.
  #follow(subscription) {
    Object.assign(subscription, { id: ++this.#ids, isKnown: false, isPaused: false });
    if (!this.#isOpen) return this.#open();
    const { topic, seq, match, limit, id } = subscription;
    const start = seq === "head" ? { tail: true } : { from_seq: seq === "earliest" ? 0 : seq };
    const topics = { [topic]: { ...start, match } };
    this.#socket.send(JSON.stringify({ op: "subscribe", topics, limit, include_tags: true, request_id: id }));
  }

  // Ends a subscription at the server. Another socket has none.
  #leave(topic) {
    if (this.#isOpen) this.#socket.send(JSON.stringify({ op: "unsubscribe", topic }));
  }

  // Returns the next step of a subscription, or undefined at the end.
  async #next(subscription) {
    const { steps, signal } = subscription;
    if (subscription.isPaused && !steps.length) this.#follow(subscription);
    while (!steps.length && !this.#isClosed && !signal?.aborted) await new Promise((resolve) => (subscription.wake = resolve));
    return signal?.aborted ? undefined : steps.shift();
  }

  // Opens a WebSocket unless there is one. One that is being opened sends what waits, and `#ended` opens the next one.
  #open() {
    if (this.#socket) return;
    const done = () => (this.#opening = null);
    this.#opening ??= this.#connect().finally(done).catch((error) => this.#fail(error)); // no WebSocket for this address
  }

  async #connect() {
    if (this.#tries) await sleep(backoff(this.#tries - 1));
    this.#tries++;
    if (this.#isClosed) return;
    const socket = (this.#socket = new this.#WebSocket(this.#address));
    socket.onmessage = ({ data }) => {
      socket.silence = 0;
      if (socket === this.#socket) this.#told(JSON.parse(data));
    };
    socket.onclose = ({ code, reason }) => this.#ended(socket, code, reason);
    socket.onerror = () => {
      if (!socket.wasOpen) this.#ended(socket); // in Node.js 20, no close follows then
    };
    socket.onopen = () => {
      socket.wasOpen = true;
      for (const subscription of this.#subscriptions.values()) if (!subscription.isPaused) this.#follow(subscription);
      this.#expire();
      for (const command of this.#commands.values()) this.#write(command);
    };
    this.#attend(socket);
  }

  // Asks a silent server for an answer, and replaces the socket if none comes, or if it does not open. The server's own pings cannot be
  // seen here.
  #attend(socket) {
    socket.silence = 0; // turns of the timer without a frame
    socket.timer = setInterval(() => {
      socket.silence++;
      if (!this.#isOpen) this.#expire();
      if (socket.silence > 2 || (socket.silence === 2 && !this.#isOpen)) {
        socket.close();
        this.#ended(socket);
      } else if (socket.silence === 2) {
        socket.send('{"op":"ping"}');
      }
    }, this.#http.timeoutMs / 2);
    socket.timer.unref?.(); // in Node.js
  }

  // Rejects commands that are a minute old, as calls do: sent again, they could be stored twice, because topics forget idempotency keys.
  #expire() {
    for (const [id, { sinceCall, isSent, reject }] of this.#commands) {
      if (sinceCall() <= PATIENCE_MS) continue;
      this.#commands.delete(id);
      const cut = "the connection ended, and no answer came for a minute: the command may have been carried out";
      reject(new Unreachable(isSent ? cut : `${this.#http.url} opened no socket for a minute: the command was not sent`));
    }
  }

  async #ended(socket, code, reason) {
    if (socket !== this.#socket || this.#isClosed) return;
    this.#socket = null;
    clearInterval(socket.timer);
    if (code === 1008) {
      this.#fail(new Refused(reason || "the key was refused", { code: "unauthorized", status: 401 }));
    } else if (!socket.wasOpen) {
      // A page does not see why a handshake was refused. A call does.
      await this.#http.call("GET", "/v0/topics", { query: { limit: 1 }, patienceMs: 0 }).catch((error) => {
        if (error.status === 401) this.#fail(error);
      });
    }
    this.#expire();
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

  // Gives records or a loss up to a seq. If too many wait, the subscription ends at the server until they are taken.
  #advance(subscription, seq, step) {
    subscription.seq = seq;
    this.#give(subscription, step);
    if (subscription.steps.length < MOST_STEPS) return;
    Object.assign(subscription, { isKnown: false, isPaused: true });
    this.#leave(subscription.topic);
  }

  #told(frame) {
    this.#tries = 0;
    const { op, request_id: id, topic, ...rest } = frame;
    const subscription = this.#subscriptions.get(topic);
    if (op === "record" && subscription?.isKnown) {
      this.#advance(subscription, rest.to_seq, { records: rest.records.map((record) => ({ ...toRecord(record), topic })) });
    } else if (op === "tombstone" && subscription?.isKnown) {
      this.#advance(subscription, rest.gap_to, { tombstone: toTombstone({ topic, ...rest }) });
    } else if (op === "subscribed") {
      for (const [name, { from_seq: seq }] of Object.entries(rest.topics)) {
        const begun = this.#subscriptions.get(name);
        if (begun?.id === id) Object.assign(begun, { seq, isKnown: true });
      }
    }
    const asked = this.#commands.get(id);
    this.#commands.delete(id);
    if (op === "error") {
      const error = new Refused(rest.message, rest);
      asked?.reject(error);
      const refused = [...this.#subscriptions.values()].find((each) => each.id === id);
      if (refused) this.#give(refused, { error });
    } else if (asked) {
      const { performance, ...answer } = rest;
      asked.resolve(answer);
    }
  }
}
