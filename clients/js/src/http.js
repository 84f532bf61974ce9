// Calls with retries, and streams. fetch does the rest.

import { InvalidAnswer, Refused, TopicsError, Unreachable, parsed, refusal } from "./errors.js";

export const PATIENCE_MS = 60_000; // below the two minutes for which a topic remembers an idempotency key
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
const HEARTBEAT_MS = 15_000; // a stream without an event sends a comment so often

// Returns the pause after a number of failed tries. A part of it is random, so that clients do not come back together.
export function backoff(tries) {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(tries, 10)) * (0.5 + Math.random() / 2);
}

// Waits. Rejects with the signal's reason when it is aborted.
export function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

// Returns a function that tells the ms since now. It takes the clock that has moved further, because `performance` may stand still while
// the machine sleeps, and somebody can set `Date` back.
export function stopwatch() {
  const [date, time] = [Date.now(), performance.now()];
  return () => Math.max(Date.now() - date, performance.now() - time);
}

export function random() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// "/v0/topics/…" of these names. Throws TypeError for a name that would lead to another path, as a cursor ".." to its topic.
export function path(kind, ...names) {
  const invalid = names.find((name) => /^\.*$/.test(name));
  if (invalid !== undefined) throw new TypeError(`invalid name "${invalid}": expected a name other than . and ..`);
  return ["/v0", kind, ...names.map(encodeURIComponent)].join("/");
}

// {gap_from: 1} as {gapFrom: 1}: the first level alone, because what is below may be the application's.
export function camel(object) {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name.replace(/_(.)/g, (_, c) => c.toUpperCase()), value]));
}

export class Http {
  constructor(url, key, { headers = {}, timeoutMs = 30_000, fetch = globalThis.fetch } = {}) {
    const address = url ?? globalThis.process?.env?.TOPICS_URL ?? globalThis.location?.origin;
    const secret = key ?? globalThis.process?.env?.TOPICS_KEY;
    if (!address) throw new TypeError('no URL: set TOPICS_URL, or give one, such as new Topics("http://127.0.0.1:4000")');
    const { protocol, search, hash } = new URL(address);
    if (!["http:", "https:"].includes(protocol) || search || hash) {
      throw new TypeError(`invalid URL ${address}: expected http://host:4000 or https://host`);
    }
    this.url = address.replace(/\/+$/, "");
    this.key = secret;
    this.headers = { ...headers, accept: "application/json", ...(secret ? { authorization: `Bearer ${secret}` } : {}) };
    this.timeoutMs = timeoutMs;
    this.fetch = (...given) => fetch(...given);
  }

  // Sends a request until the server answers it, and returns the answer.
  //
  // The pauses between tries grow, and are as long as the server asks at least. Throws Refused at once if a retry would be refused
  // again, and the last error if the next try would come after `patienceMs`. `waitMs`: how long the server may hold the answer back.
  async call(method, at, { body, query, waitMs = 0, patienceMs = PATIENCE_MS, signal } = {}) {
    return this.#retried({ method, at, body, query, headers: this.headers, waitMs, signal }, patienceMs, async (response) => {
      const answer = parsed(await response.text());
      if (answer === undefined) throw new InvalidAnswer("the answer is not JSON: check that the URL is of a topics server");
      delete answer.performance;
      return answer;
    });
  }

  // Returns all objects of a list, page by page.
  async every(at, kind, query = {}) {
    const found = [];
    for (let cursor; cursor !== null; ) {
      const page = await this.call("GET", at, { query: { ...query, ...(cursor ? { cursor } : {}) } });
      found.push(...page[kind]);
      cursor = page.next_cursor || null;
    }
    return found;
  }

  // Opens a stream of events, and tries until it is open.
  async open(at, { query, headers, signal } = {}) {
    const asked = { ...this.headers, ...headers, accept: "text/event-stream" };
    return this.#retried({ method: "GET", at, query, headers: asked, waitMs: HEARTBEAT_MS, signal }, Infinity, (response, cut) => {
      return new Stream(response.body.getReader(), cut, this.timeoutMs + HEARTBEAT_MS);
    });
  }

  async #retried(request, patienceMs, read) {
    const passed = stopwatch();
    let isRepeat = false;
    for (let tries = 0; ; tries++) {
      try {
        return await this.#attempt(request, read);
      } catch (error) {
        if (error instanceof Refused) error.isRepeat = isRepeat;
        if (!error.canPass) throw error;
        isRepeat ||= error.status !== 429; // which is a refusal for sure
        const pause = Math.max(error.retryAfterMs ?? 0, backoff(tries));
        if (passed() + pause > patienceMs) throw error;
        await sleep(pause, request.signal);
        if (passed() > patienceMs) throw error; // the machine has slept, and the topic may have forgotten the idempotency key
      }
    }
  }

  async #attempt({ method, at, body, query, headers, waitMs, signal }, read) {
    const asked = query && Object.keys(query).length ? `?${new URLSearchParams(query)}` : "";
    const cut = new AbortController();
    const end = () => cut.abort(signal.reason);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", end, { once: true });
    const timer = setTimeout(() => cut.abort(), this.timeoutMs + waitMs);
    try {
      const given = body === undefined ? { headers } : { headers: { ...headers, "content-type": "application/json" }, body };
      // fetch would follow a redirect of a POST with a GET, whose answer is a success that stored nothing.
      const response = await this.fetch(this.url + at + asked, { method, ...given, redirect: "manual", signal: cut.signal });
      if (!response.ok) throw await refusal(response);
      return await read(response, cut);
    } catch (error) {
      if (error instanceof TopicsError) throw error;
      signal?.throwIfAborted();
      throw new Unreachable(`${this.url} does not answer: ${error.cause?.message || error.message}`, { cause: error });
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
    }
  }
}

// An open answer, as events {name, data, id}.
class Stream {
  #rest = "";
  #decoder = new TextDecoder();

  constructor(reader, cut, silenceMs) {
    this.reader = reader;
    this.cut = cut;
    this.silenceMs = silenceMs;
  }

  // Returns the next events (none, after a comment), or null at the end. Throws Unreachable after a cut.
  async receive() {
    const timer = setTimeout(() => this.close(), this.silenceMs);
    try {
      const { done, value } = await this.reader.read();
      if (done) return null;
      const blocks = (this.#rest + this.#decoder.decode(value, { stream: true })).split("\n\n");
      this.#rest = blocks.pop();
      return blocks.map(event).filter(({ name }) => name);
    } catch (error) {
      throw new Unreachable(`a stream was cut: ${error.message}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  close() {
    this.cut.abort();
  }
}

function event(block) {
  const fields = { event: "", data: [], id: "" };
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    const name = line.slice(0, at);
    if (name === "data") fields.data.push(line.slice(at + 2));
    else if (name in fields) fields[name] = line.slice(at + 2);
  }
  return { name: fields.event, data: fields.data.join("\n"), id: fields.id };
}
