// The records of topics as a store that React's useSyncExternalStore reads, and any other user interface can.

import { only } from "./records.js";
import { startOfEach, steps } from "./watch.js";

// Keeps the last `keep` records, or what `reduce(state, record)` makes of them, beginning with `initial`. It watches while it has
// subscribers, and continues after the last record that it saw. `onError`: gets what ends the watch, such as Refused.
export function createTopicStore(topics, names, { keep = 1000, reduce, initial, onLoss, onError, start, ...options } = {}) {
  only(options, "match", "limit", "consistency");
  const last = (state, record) => (state.length < keep ? [...state, record] : [...state.slice(1 - keep), record]);
  const step = reduce ?? last;
  const watched = [names].flat();
  const starts = startOfEach(watched, start);
  const listeners = new Set();
  let state = reduce ? initial : [];
  let running = null;

  async function run(signal) {
    try {
      for await (const { records, tombstone } of steps(topics.http, watched, { ...options, start: starts, signal })) {
        if (tombstone) {
          starts[tombstone.topic] = tombstone.gapTo;
          onLoss?.(tombstone);
          continue;
        }
        for (const record of records) starts[record.topic] = record.seq;
        state = records.reduce(step, state);
        for (const listener of [...listeners]) listener();
      }
    } catch (error) {
      if (!onError) throw error;
      onError(error);
    }
  }

  return {
    getSnapshot: () => state,
    getServerSnapshot: () => state,
    subscribe(listener) {
      listeners.add(listener);
      if (!running) {
        running = new AbortController();
        run(running.signal);
      }
      return () => {
        listeners.delete(listener);
        if (!listeners.size) {
          running?.abort();
          running = null;
        }
      };
    },
  };
}
