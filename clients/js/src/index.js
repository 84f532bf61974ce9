export { InvalidAnswer, QueueFull, RecordsLost, Refused, TopicsError, Unreachable } from "./errors.js";
export { createTopicStore } from "./store.js";
export { Retry } from "./worker.js";
export { Topic } from "./topic.js";
export { Topics } from "./client.js";
export { InvalidSignature, Webhook, verified } from "./webhook.js";
