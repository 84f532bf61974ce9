// The types of @topics/client. README.md says what the calls do.

export type Filter = string | [string, string, string];
export type Start = number | "earliest" | "head";
export type OnLoss = "raise" | "ignore" | ((tombstone: Tombstone) => void | Promise<void>);
export type Meta = Record<string, unknown>;
/** A JSON object with the fields of docs/wire.md. */
export type Fields = Record<string, any>;

export interface Options {
  headers?: Record<string, string>;
  timeoutMs?: number;
  fetch?: typeof fetch;
  WebSocket?: new (url: string) => any;
}

export interface TopicRecord<T = any> {
  seq: number;
  /** Time of the append, in ms since the epoch. */
  ts: number;
  data: T;
  tag: string | null;
  node: string | null;
  meta: Meta | null;
}

/** A record of a watch, a group or a socket. `share`: of a group. */
export interface Streamed<T = any> extends TopicRecord<T> {
  topic: string;
  share?: number;
}

/** Lost records: the seqs from `gapFrom` to `gapTo`. */
export interface Tombstone {
  reason: string;
  gapFrom: number;
  gapTo: number;
  earliestSeq: number;
  headSeq: number;
  missedEstimate: number;
  /** After a crash of the server: the first lost seq. If it is below `gapFrom`, this reader may have read lost records. */
  lostFrom: number | null;
  topic?: string;
  share?: number;
}

export interface Window<T = any> {
  records: TopicRecord<T>[];
  /** Losses before the records. */
  tombstone: Tombstone | null;
  nextFromSeq: number;
  headSeq: number;
  earliestSeq: number;
  caughtUp: boolean;
  lag: number;
}

export interface Appended {
  firstSeq: number;
  lastSeq: number;
  headSeq: number;
  count: number;
  created: boolean;
  /** The topic already had the records. */
  deduped: boolean;
  seqs?: number[];
}

export interface Job<T = any> {
  seq: number;
  ts: number;
  leaseId: string;
  /** The first end of the lease, in ms since the epoch. */
  deadline: number;
  /** With this one. */
  deliveries: number;
  data: T;
  tag: string | null;
  meta: Meta | null;
}

export interface Cursor {
  topic: string;
  cursor: string;
  kind: string;
  seq: number;
  lag: number;
  updatedTs: number;
}

export interface New<T = any> {
  data: T;
  tag?: string;
  node?: string;
  meta?: Meta;
}

export interface AppendOptions {
  idempotencyKey?: string;
  expectedHead?: number;
  create?: boolean;
  patienceMs?: number;
  signal?: AbortSignal;
}

export interface ReadOptions {
  limit?: number;
  match?: Filter;
  waitMs?: number;
  patienceMs?: number;
  signal?: AbortSignal;
}

export interface PagesOptions {
  cursor?: string;
  start?: Start;
  match?: Filter;
  limit?: number;
  wait?: boolean;
  signal?: AbortSignal;
}

export interface FollowOptions extends PagesOptions {
  commitMs?: number;
  onLoss?: OnLoss;
}

export interface GroupOptions {
  member?: string;
  start?: Start;
  partitions?: number;
  partitionBy?: string;
  sessionMs?: number;
  commitMs?: number;
  onLoss?: OnLoss;
}

export interface WorkerOptions<T = any> {
  concurrency?: number;
  leaseMs?: number;
  retryMs?: number | ((job: Job<T>) => number);
  node?: string;
  log?: { warn(text: string): void };
}

export interface BatchOptions {
  maxRecords?: number;
  maxMs?: number;
  maxBytes?: number;
  queue?: number;
  full?: "wait" | "refuse";
}

export interface WatchOptions {
  start?: Start | Record<string, Start>;
  match?: Filter;
  onLoss?: OnLoss;
  limit?: number;
  consistency?: "eventual" | "strong";
  signal?: AbortSignal;
}

export interface StoreOptions<T, State> {
  /** The records of a store without `reduce`: 1,000. */
  keep?: number;
  reduce?: (state: State, record: Streamed<T>) => State;
  initial?: State;
  onLoss?: (tombstone: Tombstone) => void;
  onError?: (error: Error) => void;
  start?: Start | Record<string, Start>;
  match?: Filter;
  limit?: number;
  consistency?: "eventual" | "strong";
}

/** What useSyncExternalStore of React takes. */
export interface TopicStore<State> {
  subscribe(listener: () => void): () => void;
  getSnapshot(): State;
  getServerSnapshot(): State;
}

export class Topics {
  constructor(url?: string, key?: string, options?: Options);
  topic<T = any>(name: string): Topic<T>;
  worker<T = any>(name: string, options?: WorkerOptions<T>): Worker<T>;
  watch<T = any>(topics: string | string[], options?: WatchOptions): AsyncGenerator<Streamed<T>, void>;
  socket(): Socket;
  topics(prefix?: string): Promise<Fields[]>;
  routers(query?: { prefix?: string; source?: string; dest?: string }): Promise<Fields[]>;
  router(name: string): Promise<Fields>;
  putRouter(name: string, fields: Fields): Promise<Fields>;
  deleteRouter(name: string): Promise<Fields>;
  webhook(name: string): Webhook;
  webhooks(prefix?: string): Promise<Fields[]>;
}

/** Returns the JSON of a webhook's call. Rejects with InvalidSignature. */
export function verified(
  secret: string | string[],
  headers: Headers | Record<string, string | string[] | undefined>,
  body: string | ArrayBuffer | Uint8Array,
  options?: { maxAgeS?: number },
): Promise<any>;

export class InvalidSignature extends TopicsError {}

export class Webhook {
  readonly name: string;
  put(url: string, topics: string[], fields?: Fields): Promise<Fields>;
  info(): Promise<Fields>;
  delete(): Promise<Fields>;
  pause(): Promise<Fields>;
  resume(): Promise<Fields>;
  test(): Promise<Fields>;
  rotate(secret?: string): Promise<string>;
  deliveries(query?: Fields): Promise<Fields[]>;
  replay(fields: Fields): Promise<number>;
}

export class Topic<T = any> {
  readonly name: string;
  append(data: T, options?: Omit<New, "data"> & AppendOptions): Promise<Appended & { seq: number }>;
  appendAll(records: New<T>[], options?: AppendOptions): Promise<Appended>;
  batch(options?: BatchOptions): Batch<T>;
  read(fromSeq?: number, options?: ReadOptions): Promise<Window<T>>;
  pages(options?: PagesOptions): AsyncGenerator<Window<T>, void>;
  follow(options?: FollowOptions): AsyncGenerator<TopicRecord<T>, void>;
  group(name: string, options?: GroupOptions): Group<T>;
  worker(options?: WorkerOptions<T>): Worker<T>;
  configure(fields?: Fields): Promise<Fields>;
  info(): Promise<Fields>;
  delete(): Promise<Fields>;
  cursor(name: string): Promise<Cursor | null>;
  cursors(): Promise<Fields[]>;
  setCursor(name: string, to: { seq?: number; at?: "head" | "earliest"; expectedSeq?: number }): Promise<number>;
  deleteCursor(name: string): Promise<Fields>;
  schedule(name: string, data: T, fields: Fields): Promise<Fields>;
  schedules(): Promise<Fields[]>;
  deleteSchedule(name: string): Promise<Fields>;
  redrive(fields?: Fields): Promise<number>;
}

export interface Batch<T = any> {
  append(data: T, options?: Omit<New, "data">): Promise<{ seq: Promise<number> }>;
  close(): Promise<void>;
}

export interface Group<T = any> extends AsyncIterable<Streamed<T>> {
  stop(): void;
}

export interface Worker<T = any> extends AsyncIterable<Job<T>> {
  run(handler: (job: Job<T>) => unknown): Promise<void>;
  fail(job: Job<T>, error: Error | string, options?: { delayMs?: number }): void;
  stop(): void;
}

export interface Socket {
  publish<T = any>(topic: string, data: T, options?: Omit<New, "data"> & { idempotencyKey?: string }): Promise<Appended>;
  subscribe<T = any>(
    topic: string,
    options?: { start?: Start; match?: Filter; onLoss?: OnLoss; limit?: number; signal?: AbortSignal },
  ): AsyncGenerator<Streamed<T>, void>;
  send(command: Fields): Promise<Fields>;
  close(): void;
}

export function createTopicStore<T = any>(topics: Topics, names: string | string[], options?: StoreOptions<T, Streamed<T>[]>): TopicStore<Streamed<T>[]>;
export function createTopicStore<T, State>(
  topics: Topics,
  names: string | string[],
  options: StoreOptions<T, State> & { reduce: (state: State, record: Streamed<T>) => State; initial: State },
): TopicStore<State>;

/** A handler of a worker throws this to give its job back. */
export class Retry extends Error {
  constructor(error?: string, options?: { delayMs?: number });
}

export class TopicsError extends Error {
  /** Whether the same call may succeed later, without a change. */
  readonly canPass: boolean;
}
export class Unreachable extends TopicsError {}
export class InvalidAnswer extends TopicsError {}
export class QueueFull extends TopicsError {}
export class RecordsLost extends TopicsError {
  readonly tombstone: Tombstone;
}
export class Refused extends TopicsError {
  readonly code: string;
  /** Null over a WebSocket. */
  readonly status: number | null;
  readonly detail: Fields;
  readonly retryAfterMs: number | null;
}
