// Any error of this package.
export class TopicsError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }

  // Whether the same call may succeed later, without a change.
  get canPass() {
    return false;
  }
}

// The server did not answer, or the connection ended within the answer.
export class Unreachable extends TopicsError {
  get canPass() {
    return true;
  }
}

// The answer does not come from a topics server.
export class InvalidAnswer extends TopicsError {}

// A batch with full: "refuse" has no room.
export class QueueFull extends TopicsError {}

// Records were lost before this reader read them. `tombstone` says which, and why.
export class RecordsLost extends TopicsError {
  constructor(tombstone) {
    super(
      `the records ${tombstone.gapFrom} to ${tombstone.gapTo} are lost (${tombstone.reason}): decide how to react, ` +
        'then read with onLoss: "ignore" or a function',
    );
    this.tombstone = tombstone;
  }
}

const RETRIED = [429, 500, 502, 503, 504];

// The server refused the call. `code` is for programs (docs/errors.md), `detail` has values to the message. `status` is HTTP's, and
// null over a WebSocket. `retryAfterMs`: how long the server asked to wait, or null.
// `isRepeat`: an earlier try of the call ended without a definite answer, so it may have been carried out.
export class Refused extends TopicsError {
  constructor(text, { code, status = null, detail = {}, retryAfterMs = null }) {
    super(`${text} (${status === null ? code : `${status} ${code}`})`);
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryAfterMs = retryAfterMs;
    this.isRepeat = false;
  }

  get canPass() {
    return RETRIED.includes(this.status);
  }
}

// Returns the error of an answer without success.
export async function refusal(response) {
  const { status } = response;
  const seconds = Number.parseFloat(response.headers.get("retry-after"));
  const retryAfterMs = Number.isNaN(seconds) ? null : seconds * 1000;
  const error = parsed(await response.text())?.error;
  if (error?.code) return new Refused(error.message, { status, retryAfterMs, ...error });
  if (RETRIED.includes(status)) return new Refused("the server answered", { code: "", status, retryAfterMs }); // a proxy
  const answered = status || "with a redirect"; // whose status a page does not see
  return new InvalidAnswer(`the server answered ${answered} without an error code: check that the URL is of a topics server`);
}

export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
