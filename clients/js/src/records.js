// The values that calls return.

import { RecordsLost } from "./errors.js";
import { camel } from "./http.js";

export function toRecord({ $seq, $ts, $tag, $node, data, meta }) {
  return { seq: $seq, ts: $ts, data, tag: $tag ?? null, node: $node ?? null, meta: meta ?? null };
}

export function toTombstone(told) {
  return { missedEstimate: 0, lostFrom: null, ...camel(told) };
}

// Tells the application of a loss. Throws RecordsLost if it has not decided.
export async function tell(tombstone, onLoss) {
  if (typeof onLoss === "function") await onLoss(tombstone);
  else if (onLoss === "raise") throw new RecordsLost(tombstone);
  else if (onLoss !== "ignore") throw new TypeError(`invalid onLoss ${onLoss}: expected "raise", "ignore" or a function`);
}

// Refuses options that a call does not have.
export function only(options, ...names) {
  const unknown = Object.keys(options).filter((name) => !names.includes(name));
  if (unknown.length) throw new TypeError(`unknown option ${unknown[0]}: expected ${names.join(", ")}`);
}
