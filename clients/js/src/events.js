// A stream of server-sent events that opens again after each cut.

import { Unreachable } from "./errors.js";
import { backoff, sleep } from "./http.js";

export class EventStream {
  #stream = null;
  #events = [];
  #tries = 0;
  #ending = new AbortController();

  constructor() {
    this.signal.addEventListener("abort", () => this.hangUp());
  }

  // Opens the stream where it shall continue. A subclass has it.
  // async connect()

  // Called before each wait for the server.
  async beforeWait() {}

  get signal() {
    return this.#ending.signal;
  }

  // Ends the wait for the next event, and all later ones.
  end() {
    this.#ending.abort();
  }

  // Returns the next event, or null after `end`. The pause before each try grows until an event comes.
  async event() {
    while (!this.#events.length) {
      await this.beforeWait();
      if (this.signal.aborted) return null;
      try {
        if (!this.#stream) {
          if (this.#tries) await sleep(backoff(this.#tries - 1), this.signal);
          this.#tries++;
          this.#stream = await this.connect();
        }
        const events = await this.#stream.receive();
        if (events) this.#events.push(...events);
        else this.hangUp();
      } catch (error) {
        if (this.signal.aborted) return null;
        if (!(error instanceof Unreachable)) throw error;
        this.hangUp();
      }
    }
    this.#tries = 0;
    return this.#events.shift();
  }

  // Closes the stream. The next event comes from another one.
  hangUp() {
    this.#stream?.close();
    this.#stream = null;
    this.#events = [];
  }
}
