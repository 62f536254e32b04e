import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { unbroken } from '../cell';
import { isIndex, now } from '../core';
import type { CellStep, ControlServer, FromRank, RankOutcome, ToRank } from '../launch';
import type { StepRecord } from '../ledger';
import {
  decodePayload,
  directionKey,
  encodeFrame,
  encodePayload,
  type FrameKey,
  FrameReader,
  helloKey,
  hmac,
  isSameCode,
  NONCE_BYTES,
  type Payload,
  randomKey,
} from './frames';
import { decodeValue } from './value-codec';

/** A connection is closed if its peer has not proved within this time that it knows the job's key. */
const HELLO_MS = 10_000;
/** The most connections that may be open without a proof; a further connection closes the oldest. */
const MOST_STRANGERS = 64;

/** The address of the launcher for Python ranks, and the key that proves that a rank belongs to the job. */
export interface TorchAddress {
  readonly host: string;
  readonly port: number;
  readonly key: string;
}

/** Receives news and messages of ranks. */
export interface TorchListener {
  receive(rank: number, message: FromRank): void;
  /** A rank has connected and proved that it knows the job's key. */
  connected(rank: number, pid: number): void;
  /** A rank's connection has ended: the process has ended, or ends now. `reason` says why this side ended the connection. */
  lost(rank: number, reason?: string): void;
}

/** The launcher's end of the links to Python ranks. */
export interface TorchControl extends ControlServer {
  readonly address: TorchAddress;
  /** Ends a rank by ending its connection. */
  drop(rank: number): void;
}

/**
 * [Note: links between hosts] If the network fails, neither side learns that the connection has ended. So both sides
 * of a link between hosts regularly send a message. The launcher ends the connection if a rank was silent for
 * `silentSeconds`; a rank waits a little longer before it ends its process.
 */
export interface LinkPatience {
  readonly beatSeconds: number;
  readonly silentSeconds: number;
}

/** The host on which a control link listens. `patience` is set if ranks are on other hosts. */
export interface LinkPlace {
  readonly host: string;
  readonly patience?: LinkPatience | undefined;
}

/** Listens for `numRanks` Python ranks on an address of this host. [Note: control link of Python ranks] Throws: system errors. */
export async function openTorchControl(
  numRanks: number,
  listener: TorchListener,
  { host, patience }: LinkPlace = { host: '127.0.0.1' },
): Promise<TorchControl> {
  const key = randomKey();
  const links = new Map<number, RankLink>();
  const strangers = new Set<Socket>();
  const store = new RankStore();
  const server = createServer((socket) => {
    // A stranger may reset the connection; this reset is no error of the job.
    socket.on('error', () => socket.destroy());
    // A rank proves itself at once. So the oldest connection is closed, and strangers that stay connected cannot keep ranks out.
    const [oldest] = strangers;
    if (oldest !== undefined && strangers.size >= MOST_STRANGERS) {
      oldest.destroy();
      strangers.delete(oldest);
    }
    strangers.add(socket);
    socket.once('close', () => strangers.delete(socket));
    greet(socket, key, (hello) => {
      strangers.delete(socket);
      const { rank, pid } = hello;
      const isFree = isIndex(rank, numRanks) && !links.has(rank);
      if (!isFree) return undefined;
      const link = new RankLink(socket, hello);
      links.set(rank, link);
      const silence = patience && watchSilence(link, socket, patience);
      socket.once('close', () => {
        store.left(rank);
        listener.lost(rank, silence?.());
      });
      listener.connected(rank, pid);
      const ask = (request: StoreRequest): void =>
        store.perform(rank, request, (answer) => link.answer(request.id, answer));
      return (payload) => hear(payload, rank, { listener, ask });
    });
  });
  await listening(server, host);
  const { port } = server.address() as AddressInfo; // `server` listens on a port
  return {
    address: { host, port, key: key.toString('hex') },
    send: (rank, message) => links.get(rank)?.send(message),
    drop: (rank) => links.get(rank)?.drop(),
    close(): void {
      server.close();
      for (const socket of strangers) socket.destroy();
      for (const link of links.values()) link.close();
    },
  };
}

/** The content of a rank's hello, and the keys of the rank's connection. */
interface Hello {
  readonly rank: number;
  readonly pid: number;
  readonly fromRank: FrameKey;
  readonly toRank: FrameKey;
}

/** Returns the function that gets the payloads of an accepted rank; undefined if the rank is refused. */
type Accept = (hello: Hello) => ((payload: Buffer) => boolean) | undefined;

/** Sends a nonce, waits for a hello with the job's key, then gives every payload to the accepted rank's function. */
function greet(socket: Socket, key: Buffer, accept: Accept): void {
  const nonce = randomKey();
  const reader = new FrameReader();
  let hello: Hello | undefined;
  let heard: ((payload: Buffer) => boolean) | undefined;
  const timer = setTimeout(() => socket.destroy(), HELLO_MS);
  socket.once('close', () => clearTimeout(timer));
  socket.setNoDelay(true);
  socket.write(nonce);
  const take = (code: Buffer, payload: Buffer): boolean => {
    if (hello !== undefined)
      return isSameCode(code, hello.fromRank.next(payload)) && heard?.(payload) === true;
    hello = readHello(code, payload, key, nonce);
    heard = hello && accept(hello);
    clearTimeout(timer);
    reader.allowLong();
    return heard !== undefined;
  };
  socket.on('data', (chunk) => {
    reader.push(chunk);
    for (let frame = reader.next(); frame !== undefined; frame = reader.next()) {
      if (frame === 'wrong' || !take(frame.code, frame.payload)) {
        socket.destroy();
        return;
      }
    }
  });
}

function readHello(code: Buffer, payload: Buffer, key: Buffer, nonce: Buffer): Hello | undefined {
  if (!isSameCode(code, hmac(helloKey(key, nonce), payload))) return undefined;
  const json = decodePayload(payload)?.json;
  if (typeof json !== 'object' || json === null) return undefined;
  const { rank, pid, nonce: text } = json as { rank?: unknown; pid?: unknown; nonce?: unknown };
  const rankNonce = Buffer.from(typeof text === 'string' ? text : '', 'hex');
  if (typeof rank !== 'number' || typeof pid !== 'number' || rankNonce.length !== NONCE_BYTES)
    return undefined;
  return {
    rank,
    pid,
    fromRank: directionKey('from rank', key, nonce, rankNonce),
    toRank: directionKey('to rank', key, nonce, rankNonce),
  };
}

/** Who gets a rank's messages: the listener, and the store of the job's ranks. */
interface Ears {
  readonly listener: TorchListener;
  readonly ask: (request: StoreRequest) => void;
}

/** Passes on a rank's message; returns false if the payload is not a message. */
function hear(payload: Buffer, rank: number, { listener, ask }: Ears): boolean {
  const content = decodePayload(payload);
  if (content === undefined) return false;
  const { type } = content.json as { type?: unknown };
  if (type === 'alive') return true;
  if (type === 'store') {
    unbroken(() => ask(content.json as StoreRequest)); // the sender knew the job's key, so it is our own program
    return true;
  }
  unbroken(() => listener.receive(rank, fromPython(content)));
  return true;
}

/** A connected rank. */
class RankLink {
  readonly #socket: Socket;
  readonly #key: FrameKey;

  constructor(socket: Socket, { toRank }: Hello) {
    this.#socket = socket;
    this.#key = toRank;
  }

  send(message: ToRank): void {
    const { json, bytes } = toPython(message);
    this.#write(json, bytes);
  }

  /** Sends the store's answer to a request. */
  answer(id: number, answer: StoreAnswer): void {
    this.#write({ type: 'store', id, answer });
  }

  /** Sends the regular message that says that this side runs. */
  beat(): void {
    this.#write({ type: 'alive' });
  }

  #write(json: unknown, bytes?: Uint8Array): void {
    if (this.#socket.destroyed) return;
    const payload = encodePayload(json, bytes);
    unbroken(() => this.#socket.write(encodeFrame(this.#key.next(payload), payload)));
  }

  /** Ends the connection at once. */
  drop(): void {
    this.#socket.destroy();
  }

  /** Sends the queued messages, and closes the connection. */
  close(): void {
    this.#socket.end();
  }
}

/**
 * Regularly sends a message that says that this side runs, and ends a silent connection. The returned function returns the
 * reason if the connection was silent.
 */
function watchSilence(
  link: RankLink,
  socket: Socket,
  { beatSeconds, silentSeconds }: LinkPatience,
): () => string | undefined {
  let heard = now();
  let reason: string | undefined;
  socket.on('data', () => {
    heard = now();
  });
  const timer = setInterval(() => {
    link.beat();
    if (now() - heard < silentSeconds) return;
    reason = `its host was silent for ${silentSeconds} s`;
    socket.destroy();
  }, beatSeconds * 1e3);
  socket.once('close', () => clearInterval(timer));
  return () => reason;
}

function listening(server: Server, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** A message in the form that Python ranks get. */
interface PythonMessage {
  readonly json: unknown;
  readonly bytes?: Uint8Array;
}

/** Returns the form of a message that Python reads: JSON, and the values of batches and variables as bytes. */
function toPython(message: ToRank): PythonMessage {
  if (message.type === 'work' && 'coded' in message.work) {
    const { coded, ...work } = message.work;
    return { json: { ...message, work }, bytes: coded ?? Buffer.alloc(0) };
  }
  if (message.type !== 'batches') return { json: message };
  const { tensors, ...made } = message.made;
  const parts = tensors.map(({ values }) => Buffer.from(values.buffer, values.byteOffset, values.byteLength));
  const described = tensors.map(({ shape, values }) => ({
    shape,
    dtype: values instanceof Int32Array ? 'int32' : 'float32',
  }));
  return {
    json: { type: 'batches', id: message.id, ...made, tensors: described },
    bytes: Buffer.concat(parts),
  };
}

/**
 * Returns a message of a Python rank. The writer knew the job's key, so the message is from our own program and has the
 * fields of its type.
 */
function fromPython({ json, bytes }: Payload): FromRank {
  const message = json as FromRank;
  if (message.type === 'need') {
    const { type: _, id, ...need } = json as FromRank & { type: 'need' } & Record<string, unknown>;
    return { type: 'need', id, need } as unknown as FromRank; // `json` has the request's fields beside `id`
  }
  if (message.type === 'ended' && 'isCoded' in message.outcome) {
    return { ...message, outcome: decoded(bytes) };
  }
  if (message.type === 'cellStep') return { ...message, step: cellStepFromPython(message.step) };
  if (message.type !== 'step') return message;
  const { step, ...rest } = message;
  const { loss, gradNorm } = step.result;
  const result = { ...step.result, loss: Number(loss), gradNorm: Number(gradNorm) };
  return { ...rest, step: { result, record: recordFromPython(step.record) } };
}

/** Numbers that are not finite come as texts. */
function cellStepFromPython(step: CellStep): CellStep {
  const { loss, lr, gradNorm, record } = step;
  return {
    ...step,
    loss: numberFromPython(loss),
    lr: numberFromPython(lr),
    gradNorm: numberFromPython(gradNorm),
    record: recordFromPython(record),
  };
}

function recordFromPython(record: StepRecord | null): StepRecord | null {
  return record && { ...record, loss: numberFromPython(record.loss) };
}

function numberFromPython(value: number | null): number | null {
  return value === null ? null : Number(value);
}

/** Returns the outcome of work whose value is in some bytes. An error, as of memory, must not end the launcher. */
function decoded(bytes: Buffer): RankOutcome {
  try {
    return { ok: true, value: decodeValue(bytes) };
  } catch (error) {
    const evalue = `the value of ${bytes.length} bytes cannot be read: ${String(error)}`;
    return { ok: false, error: { code: 'INTERNAL', ename: 'ValueNotRead', evalue, traceback: [evalue] } };
  }
}

/** What a rank asks of the store. Values are bytes in base64. */
export interface StoreRequest {
  readonly id: number;
  readonly op: 'set' | 'await' | 'have' | 'add' | 'append' | 'exchange' | 'remove' | 'count' | 'forget';
  readonly keys: readonly string[];
  readonly values?: readonly string[];
  readonly number?: number;
}

/** The answer to a request: values, a number, or whether keys exist; null if there is nothing to say. */
export type StoreAnswer = readonly string[] | number | boolean | null;

interface Waiting {
  readonly rank: number;
  readonly request: StoreRequest;
  readonly answer: (answer: StoreAnswer) => void;
}

/**
 * The store by which the ranks of a job find each other when they make a group. [Note: store of Python ranks] torch's own
 * TCPStore listens on all interfaces and trusts everybody who connects. This store is in the launcher, and only a rank that
 * has proved the job's key on its control link can ask it.
 */
export class RankStore {
  readonly #values = new Map<string, string>();
  readonly #waiting = new Set<Waiting>();

  /** Performs a rank's request; `answer` gets the answer when there is one. */
  perform(rank: number, request: StoreRequest, answer: (answer: StoreAnswer) => void): void {
    if (request.op === 'await') {
      this.#waiting.add({ rank, request, answer });
      this.#answerWaiting();
      return;
    }
    answer(this.#done(request));
    this.#answerWaiting();
  }

  /** Drops the requests of a rank that has ended. */
  left(rank: number): void {
    for (const waiting of this.#waiting) if (waiting.rank === rank) this.#waiting.delete(waiting);
  }

  #done({ op, keys, values = [], number = 0 }: StoreRequest): StoreAnswer {
    const [key = ''] = keys;
    const [value = '', other = ''] = values;
    switch (op) {
      case 'set':
        for (const [i, one] of keys.entries()) this.#values.set(one, values[i] ?? '');
        return null;
      case 'have':
        return keys.every((one) => this.#values.has(one));
      case 'add':
        return this.#add(key, number);
      case 'append':
        this.#values.set(key, encoded(Buffer.concat([this.#bytes(key), Buffer.from(value, 'base64')])));
        return null;
      case 'exchange':
        return [this.#exchange(key, value, other)];
      case 'remove':
        return this.#values.delete(key);
      case 'forget':
        for (const one of this.#values.keys()) if (one.startsWith(key)) this.#values.delete(one);
        return null;
      default:
        return this.#values.size;
    }
  }

  /** Adds to a number, which torch's stores hold as text. */
  #add(key: string, number: number): number {
    const sum = Number(this.#bytes(key).toString()) + number;
    this.#values.set(key, encoded(Buffer.from(String(sum))));
    return sum;
  }

  /** Replaces a value that is as expected; an absent value is as expected if nothing is. Returns what a reader now gets. */
  #exchange(key: string, expected: string, desired: string): string {
    const now = this.#values.get(key);
    if ((now ?? '') !== expected) return now ?? expected;
    this.#values.set(key, desired);
    return desired;
  }

  #bytes(key: string): Buffer {
    return Buffer.from(this.#values.get(key) ?? '', 'base64');
  }

  #answerWaiting(): void {
    for (const waiting of this.#waiting) {
      const values = waiting.request.keys.map((key) => this.#values.get(key));
      if (values.includes(undefined)) continue;
      this.#waiting.delete(waiting);
      waiting.answer(values as string[]); // the line above has left out absent values
    }
  }
}

function encoded(bytes: Buffer): string {
  return bytes.toString('base64');
}
