// Programs of the tests: node parts.mjs PART TOPIC COUNT prints JSON.
import { InvalidSignature, Retry, Topics, createTopicStore, verified } from "../../../clients/js/src/index.js";

const [part, name, count, more] = process.argv.slice(2);
const total = Number(count);
const FEW = 5; // records of an event: so that one fits between two cuts
const topics = new Topics();
const topic = topics.topic(name);
const numbers = Array.from({ length: total }, (_, n) => n);
const show = (value) => console.log(JSON.stringify(value));

async function seqs(records) {
  const seen = [];
  if (total) {
    for await (const { seq } of records) {
      seen.push(seq);
      if (seen.length === total) break;
    }
  }
  return seen;
}

// Lets each clock tell for ever a time that is so many ms from now.
function moveClocks([dateMs, timeMs]) {
  const [date, time] = [Date.now(), performance.now()];
  Date.now = () => date + dateMs;
  performance.now = () => time + timeMs;
}

// Appends a record, loses the answer, and calls `meanwhile` within the pause. Returns the error's name, and the number of tries.
async function lossy(meanwhile) {
  let tries = 0;
  const own = async (...given) => {
    const response = await fetch(...given);
    if (tries++) return response;
    setTimeout(meanwhile); // before the pause ends, which lasts longer
    throw new TypeError("cut");
  };
  const told = await new Topics(undefined, undefined, { fetch: own }).topic(name).append(1).catch(({ name: kind }) => kind);
  return [told, tries];
}

const parts = {
  async append() {
    for (const n of numbers) await topic.append(n);
  },
  async batch() {
    const batch = topic.batch({ maxRecords: 7, queue: 20 });
    const outcomes = [];
    for (const n of numbers) outcomes.push(await batch.append(n));
    await batch.close();
    return Promise.all(outcomes.map(({ seq }) => seq));
  },
  async publish() {
    const socket = topics.socket();
    for (const n of numbers) await socket.publish(name, n);
    socket.close();
  },
  follow: () => seqs(topic.follow({ cursor: "js", commitMs: 0 })),
  watch: () => seqs(topics.watch([name], { limit: FEW })),
  watchFrom: () => seqs(topics.watch([name], { start: JSON.parse(more) })),
  async subscribe() {
    const socket = topics.socket();
    const seen = await seqs(socket.subscribe(name, { limit: FEW }));
    socket.close();
    return seen;
  },
  // A member until SIGTERM: a line for each record.
  async group() {
    for await (const { seq } of topic.group("both", { partitions: 8, sessionMs: 3000, commitMs: 0 })) show(seq);
  },
  // A worker until SIGTERM: a line for each job.
  async work() {
    const worker = topic.worker({ concurrency: 4, leaseMs: 2000, retryMs: 0 });
    await worker.run(async ({ data, deliveries }) => {
      show(data);
      await new Promise((resolve) => setTimeout(resolve, 10));
      if (data === 0 && deliveries === 1) throw new Error("é".repeat(2000));
      if (data === 1 && deliveries === 1) throw new Retry("later", { delayMs: 10 });
    });
  },
  // The errors of calls with names that would lead to another path.
  async names() {
    const calls = [
      topic.deleteCursor(".."),
      topic.deleteSchedule("."),
      topics.topic("").delete(),
      topics.deleteRouter(".."),
      topics.webhook("..").delete(),
    ];
    return (await Promise.allSettled(calls)).map(({ reason }) => `${reason?.name}: ${reason?.message}`);
  },
  // A worker whose handler throws nothing of value.
  async zero() {
    const worker = topic.worker({ retryMs: 3_600_000 });
    await worker.run(() => {
      worker.stop();
      throw 0;
    });
    return null;
  },
  // A worker whose policy fails ends, so that another one gets its job.
  async policy() {
    const retryMs = () => {
      throw new RangeError("no delay");
    };
    const broken = topic.worker({ leaseMs: 300, retryMs });
    const told = await broken.run(() => Promise.reject(new Error("bad"))).catch(({ name: kind, message }) => [kind, message]);
    for await (const { deliveries } of topic.worker()) return [told, deliveries];
  },
  // The WebSockets that are made if a second command comes while the first one opens, and the seqs of both commands.
  async early() {
    let made = 0;
    class Counted extends WebSocket {
      constructor(...given) {
        super(...given);
        made++;
      }
    }
    const socket = new Topics(undefined, undefined, { WebSocket: Counted }).socket();
    const first = socket.publish(name, 1);
    for (let turn = 0; turn < 10; turn++) await null; // the handshake takes longer
    const second = socket.publish(name, 2);
    const appended = [(await first).firstSeq, (await second).firstSeq];
    await new Promise((resolve) => setTimeout(resolve, 200)); // a second one would open after at most 50 ms
    socket.close();
    return [made, appended];
  },
  // How a publish ends whose answer was lost, if the socket opens again after more than a minute. And how often it was sent. `more`: the
  // ms by which each clock moves meanwhile.
  async late() {
    let sent = 0;
    class Lossy extends WebSocket {
      send(text) {
        super.send(text);
        if (JSON.parse(text).op !== "publish" || sent++) return;
        this.onmessage = null;
        moveClocks(JSON.parse(more));
        this.close();
      }
    }
    const socket = new Topics(undefined, undefined, { WebSocket: Lossy }).socket();
    const told = await socket.publish(name, 1).catch(({ name: kind }) => kind);
    return [told, sent, (await socket.publish(name, 2)).count];
  },
  // How a publish ends if no socket opens for more than a minute. `more`: the ms by which each clock moves meanwhile.
  async unopened() {
    let made = 0;
    class Late extends WebSocket {
      constructor(...given) {
        super(...given);
        if (++made === 2) moveClocks(JSON.parse(more));
      }
    }
    const socket = new Topics(undefined, undefined, { WebSocket: Late }).socket();
    return await socket.publish(name, 1).catch(({ name: kind, message }) => [kind, message]);
  },
  // How an append ends whose answer was lost, if the machine sleeps within the pause after it, and how often it was sent.
  async slept() {
    const { now } = Date;
    return lossy(() => (Date.now = () => now() + 3_600_000));
  },
  // The same, if the clock is set back within a minute without an answer.
  async setBack() {
    const [date, time] = [Date.now(), performance.now()];
    return lossy(() => {
      Date.now = () => date - 600_000;
      performance.now = () => time + 61_000;
    });
  },
  // The seqs of a subscription, and of a second one while frames of the first are on their way.
  async again() {
    const socket = topics.socket();
    const seen = [];
    for await (const { seq } of socket.subscribe(name, { limit: 1 })) {
      seen.push(seq);
      if (seq === 3) break;
    }
    for await (const { seq } of socket.subscribe(name, { start: 3, limit: 1 })) {
      seen.push(seq);
      if (seq === total) break;
    }
    return seen;
  },
  // A subscription: a line for each record.
  async silent() {
    const socket = new Topics(undefined, undefined, { timeoutMs: 1000 }).socket();
    for await (const { seq } of socket.subscribe(name)) show(seq);
  },
  // Whether the server was told to wait before it had sent all records of a topic, and the seqs.
  async slow() {
    let [frames, ends] = [0, 0];
    class Counted extends WebSocket {
      constructor(...given) {
        super(...given);
        this.addEventListener("message", ({ data }) => (frames += JSON.parse(data).op === "record"));
      }

      send(text) {
        super.send(text);
        ends += JSON.parse(text).op === "unsubscribe";
      }
    }
    const socket = new Topics(undefined, undefined, { WebSocket: Counted }).socket();
    const seen = [];
    for await (const { seq } of socket.subscribe(name, { limit: 1 })) {
      while (!seen.length && !ends && frames < total) await new Promise((resolve) => setTimeout(resolve, 10));
      seen.push(seq);
      if (seq === total) break;
    }
    return [ends > 1, seen]; // one at the end
  },
  // How a subscription without records ends when its signal is aborted, and the seqs of the next one to the topic, which ends within its
  // first record.
  async quiet() {
    const socket = topics.socket();
    const [first, second] = [new AbortController(), new AbortController()];
    const waiting = socket.subscribe(name, { signal: first.signal }).next();
    await socket.send({ op: "ping" }); // the server knows the subscription
    first.abort();
    const { done } = await waiting;
    await topic.appendAll([{ data: 1 }, { data: 2 }]);
    const seen = [];
    for await (const { seq } of socket.subscribe(name, { signal: second.signal })) {
      seen.push(seq);
      second.abort();
    }
    return [done, seen];
  },
  // The errors of values without JSON, and what a cut after them leaves: the publishes of before and after it.
  async poison() {
    const made = [];
    class Kept extends WebSocket {
      constructor(...given) {
        super(...given);
        made.push(this);
      }
    }
    const socket = new Topics(undefined, undefined, { WebSocket: Kept }).socket();
    const appended = [(await socket.publish(name, 1)).firstSeq];
    const tried = await Promise.allSettled([socket.publish(name, 10n), socket.subscribe(name, { start: 10n }).next()]);
    made[0].close();
    appended.push((await socket.publish(name, 2)).firstSeq);
    return [tried.map(({ reason }) => reason?.name), appended];
  },
  // The errors of a socket whose WebSocket cannot be made, each time.
  async unmade() {
    class Unmade {
      constructor() {
        throw new SyntaxError("no address");
      }
    }
    const socket = new Topics(undefined, undefined, { WebSocket: Unmade }).socket();
    const errors = [];
    for (let turn = 0; turn < 2; turn++) await socket.publish(name, 1).catch((error) => errors.push(error.name));
    await socket.subscribe(name).next().catch((error) => errors.push(error.name));
    return errors;
  },
  // How many jobs another worker gets while one runs for longer than its lease, and the clock is set back.
  async backward() {
    const { now } = Date;
    const worker = topic.worker({ leaseMs: 300 });
    let count;
    await worker.run(async () => {
      Date.now = () => now() - 3_600_000;
      const body = JSON.stringify({ node: "other", wait_ms: 1200 });
      ({ count } = await topics.http.call("POST", `/v0/topics/${name}/claim`, { body }));
      worker.stop();
    });
    return count;
  },
  async loop() {
    const worker = topic.worker();
    const seen = [];
    for await (const job of worker) {
      seen.push(job.data);
      if (job.data === 1) worker.fail(job, "no good", { delayMs: 60_000 });
      if (job.data === 2) break;
    }
    return seen;
  },
  // A loop that fails its job with an error and a delay.
  async failed() {
    const worker = topic.worker({ retryMs: 60_000 });
    for await (const job of worker) {
      worker.fail(job, new Error("no image"), { delayMs: 0 });
      worker.stop();
    }
  },
  async store() {
    const sum = createTopicStore(topics, name, { initial: 0, reduce: (state, { data }) => state + data });
    const reached = (most) =>
      new Promise((resolve) => {
        const off = sum.subscribe(() => sum.getSnapshot() >= most && resolve(off()));
      });
    await reached(3); // of 1 and 2
    await topic.append(4); // while nobody is subscribed
    await reached(7);
    return sum.getSnapshot();
  },
  // The cursor within record 5 of a loop that is to commit once a minute, and after the loop.
  async patient() {
    let within;
    for await (const { seq } of topic.follow({ cursor: "patient", limit: 2, commitMs: 60_000, wait: false })) {
      within = await topic.cursor("patient");
      if (seq === 5) break;
    }
    return [within, (await topic.cursor("patient")).seq];
  },
  // Whether the read ahead ends with a loop that is left. It would not end by itself.
  async left() {
    const reads = [];
    const hung = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const own = (url, init) => (url.endsWith("/diff") && reads.push(init.signal) > 1 ? hung(url, init) : fetch(url, init));
    for await (const _ of new Topics(undefined, undefined, { fetch: own }).topic(name).follow({ limit: 2 })) break;
    return reads.map(({ aborted }) => aborted);
  },
  // The seqs of a loop whose signal is aborted within its first commit, and the cursor.
  async aborted() {
    const ending = new AbortController();
    const own = (url, init) => {
      if (init.method === "PUT") ending.abort();
      return fetch(url, init);
    };
    const seen = [];
    const ended = new Topics(undefined, undefined, { fetch: own }).topic(name);
    for await (const { seq } of ended.follow({ cursor: "aborted", commitMs: 0, signal: ending.signal })) seen.push(seq);
    return [seen, (await topic.cursor("aborted")).seq];
  },
  // Outcomes of calls that move a cursor from 0, if the first answer is another one, and another consumer was first.
  async fenced() {
    const lost = [
      null,
      () => new Response("", { status: 429 }),
      () => new Response("", { status: 503 }),
      () => {
        throw new TypeError("cut");
      },
    ];
    const outcomes = [];
    for (const [n, first] of lost.entries()) {
      let calls = 0;
      await topic.setCursor(`c${n}`, { seq: 1 });
      const own = (...given) => (first && !calls++ ? first() : fetch(...given));
      const mine = new Topics(undefined, undefined, { fetch: async (...given) => own(...given) }).topic(name);
      outcomes.push(await mine.setCursor(`c${n}`, { seq: 1, expectedSeq: 0 }).catch(({ code }) => code));
    }
    return outcomes;
  },
  // The steps of three loops, and the cursor after each. Before the first read of the second one, the topic is created again.
  async recreated() {
    const said = [];
    let turn = 0;
    let isOld = true;
    const own = async (url, init) => {
      if (isOld && turn === 1 && url.endsWith("/diff")) {
        isOld = false;
        await topic.delete();
        await topic.configure();
      }
      return fetch(url, init);
    };
    const followed = new Topics(undefined, undefined, { fetch: own }).topic(name);
    const onLoss = ({ reason }) => said.push(reason);
    await topic.appendAll([{ data: 1 }, { data: 2 }]);
    for (; turn < 3; turn++) {
      for await (const { seq } of followed.follow({ cursor: "c", wait: false, onLoss })) said.push(seq);
      said.push(await topic.cursor("c").then((cursor) => cursor?.seq));
      await topic.append("next");
    }
    return said;
  },
  // The steps of a loop that commits each record, and the cursor after it. Within the second record, the topic is created again.
  async recreatedWithin() {
    const said = [];
    await topic.appendAll([{ data: 1 }, { data: 2 }, { data: 3 }]);
    const onLoss = ({ reason }) => said.push(reason);
    for await (const { seq } of topic.follow({ cursor: "c", commitMs: 0, wait: false, onLoss })) {
      said.push(seq);
      if (seq !== 2) continue;
      await topic.delete();
      await topic.configure();
      await topic.append("new");
    }
    return [...said, (await topic.cursor("c")).seq];
  },
  async refused() {
    const errors = [];
    const attempts = [
      () => topics.topic("none").read(),
      () => topic.setCursor("c", { seq: 1, expectedSeq: 7 }),
      () => topics.topic("none").worker().run(() => {}),
      () => new Topics("http://127.0.0.1:1").topic("t").append(1, { patienceMs: 0 }),
      () => topic.append(1, { tagg: "x" }),
      () => topics.socket().send({ op: "subscribe", topic: "none" }),
      async () => {
        for await (const _ of topic.follow({ start: 1, wait: false })); // the cap has removed the next record
      },
    ];
    for (const attempt of attempts) {
      await attempt().catch(({ name: kind, code, message }) => {
        errors.push(message.includes("undefined") ? message : code ? `${kind} ${code}` : kind);
      });
    }
    return errors;
  },
  // The errors of an append, a batch and a watch.
  async redirected() {
    const batch = topic.batch();
    const { seq } = await batch.append(2);
    const tried = await Promise.allSettled([topic.append(1), seq, seqs(topics.watch(name))]);
    return tried.map(({ reason }) => reason && `${reason.name}: ${reason.message}`);
  },
  // What a receiver makes of calls: their JSON, or null. `name`: its secrets.
  async verify() {
    const outcomes = [];
    const { maxAgeS, calls } = JSON.parse(more);
    for (const { headers, body } of calls) {
      const outcome = verified(JSON.parse(name), headers, body, { maxAgeS });
      outcomes.push(
        await outcome.catch((error) => {
          if (!(error instanceof InvalidSignature)) throw error;
          return null;
        }),
      );
    }
    return outcomes;
  },
  rotate: () => topics.webhook(more).rotate(),
  async replay() {
    const webhook = topics.webhook(more);
    const counts = [{ topic: name }, {}].map((of) => webhook.replay({ failed: true, dry_run: true, ...of }));
    return Promise.all(counts);
  },
  async webhook() {
    const webhook = topics.webhook(more);
    const said = [(await webhook.put("https://localhost:1/hooks", [name])).created, (await webhook.pause()).state];
    said.push((await topics.webhooks(more)).length, (await webhook.resume()).state, "test_ts" in (await webhook.test()));
    const secret = `whsec_${"A".repeat(32)}`;
    said.push((await webhook.rotate(secret)) === secret, await webhook.replay({ failed: true, dry_run: true }));
    said.push((await webhook.info()).webhook, (await webhook.deliveries({ state: "delivered" })).length);
    return [...said, (await webhook.delete()).deleted];
  },
};

show((await parts[part]()) ?? null);
process.exit();
