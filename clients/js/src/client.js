import { Http, path } from "./http.js";
import { Socket } from "./socket.js";
import { Topic } from "./topic.js";
import { watch } from "./watch.js";
import { Webhook } from "./webhook.js";

// A server. `url` and `key` come from TOPICS_URL and TOPICS_KEY if they are not given, and in a page `url` is the page's origin.
// Options: `headers`, `timeoutMs` (30,000), `fetch`, and `WebSocket` where the platform has none.
export class Topics {
  constructor(url, key, options = {}) {
    this.http = new Http(url, key, options);
    this.WebSocket = options.WebSocket ?? globalThis.WebSocket;
  }

  // Returns a topic, without a request.
  topic(name) {
    return new Topic(this.http, name);
  }

  // Returns a worker of a queue (Topic.worker).
  worker(name, options) {
    return this.topic(name).worker(options);
  }

  // Yields the records of up to 256 topics as they come, each once and in the order of its topic, through every cut and restart.
  watch(topics, options = {}) {
    return watch(this.http, [topics].flat(), options);
  }

  // Opens a WebSocket that stays open: publish, subscribe, and any other command of docs/websocket.md.
  socket() {
    return new Socket(this.http, this.WebSocket);
  }

  // Returns the topics whose names begin with the prefix.
  async topics(prefix = "") {
    return this.http.every("/v0/topics", "topics", { prefix });
  }

  // Returns the routers. `query`: `prefix`, `source` or `dest`.
  async routers(query = {}) {
    return this.http.every("/v0/routers", "routers", query);
  }

  async router(name) {
    return this.http.call("GET", path("routers", name));
  }

  // Creates or changes a router. `fields`: see docs/wire.md.
  async putRouter(name, fields) {
    return this.http.call("PUT", path("routers", name), { body: JSON.stringify(fields) });
  }

  // Deletes a router. The records that it has forwarded stay.
  async deleteRouter(name) {
    return this.http.call("DELETE", path("routers", name));
  }

  // Returns a webhook, without a request.
  webhook(name) {
    return new Webhook(this.http, name);
  }

  // Returns the webhooks whose names begin with the prefix.
  async webhooks(prefix = "") {
    return this.http.every("/v0/webhooks", "webhooks", { prefix });
  }
}
