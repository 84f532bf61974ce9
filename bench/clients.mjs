// The work of bench/clients.py in Node.js: prints records and jobs a second as JSON.
import { Topics } from "../clients/js/src/index.js";

const [topic, many, queue, appends, records, jobs, pad] = process.argv.slice(2);
const data = { kind: "bench", pad };
const topics = new Topics();
const rates = {};

async function rate(what, count, work) {
  const began = performance.now();
  await work();
  rates[what] ??= (count / (performance.now() - began)) * 1000;
}

await rate("append", appends, async () => {
  for (let n = 0; n < appends; n++) await topics.topic(topic).append(data);
});
await rate("batch", records, async () => {
  const batch = topics.topic(many).batch();
  for (let n = 0; n < records; n++) await batch.append(data);
  await batch.close();
});
await rate("follow", records, async () => {
  let left = records;
  for await (const _ of topics.topic(many).follow({ cursor: "bench", wait: false })) left--;
});
await rate("worker", jobs, async () => {
  const worker = topics.worker(queue, { concurrency: 8 });
  const began = performance.now();
  let done = 0;
  await worker.run(() => {
    if (++done < jobs) return;
    rates.worker = (jobs / (performance.now() - began)) * 1000; // without the end of the worker
    worker.stop();
  });
});
console.log(JSON.stringify(rates));
