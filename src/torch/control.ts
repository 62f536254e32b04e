import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { unbroken } from '../cell';
import { isIndex, now } from '../core';
import type { ControlServer, FromRank, ToRank } from '../launch';
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
  randomKey,
} from './frames';
import { fromPython, toPython } from './python-messages';
import { RankStore, type StoreAnswer, type StoreRequest } from './rank-store';

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
