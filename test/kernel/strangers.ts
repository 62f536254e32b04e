import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { Dealer, Push, Request, Router, XSubscriber } from 'zeromq';
import type { Random } from '../../src/core/random';
import { type JupyterClient, resultText } from './jupyter-client';

/** Fails unless the kernel answers, and a cell with `code` gives `text`. */
export async function assertAlive(client: JupyterClient, code: string, text: string): Promise<void> {
  const ended = new Promise<never>((_, reject) => {
    const end = (): void => reject(new Error('the kernel ended'));
    if (client.process.exitCode !== null || client.process.signalCode !== null) end();
    client.process.once('exit', end);
  });
  const answers = async (): Promise<void> => {
    const info = await client.request('kernel_info_request');
    assert.equal(info.content.status, 'ok');
    let exchange = await client.execute(code);
    // Messages that were sent before may abort or interrupt a cell.
    for (let i = 0; i < 20 && exchange.reply.content.status !== 'ok'; i++)
      exchange = await client.execute(code);
    assert.equal(resultText(exchange), text);
  };
  await Promise.race([answers(), ended]);
}

/** How long a stranger's bytes may take to be sent before the test closes its connection. */
const LINGER_MS = 200;
/** If the kernel refuses a kind of socket, a message would wait for ever. */
const OPTIONS = { linger: LINGER_MS, sendTimeout: 2 };
/** Frames per connection. */
const BATCH = 50;

/**
 * Sends `numFrames` seeded random frames to a port as any local user could: without the kernel's key, as raw bytes
 * (malformed and well-formed ZMTP) and as multipart messages of the wrong and the right kinds of sockets.
 */
export async function pester(port: number, numFrames: number, random: Random): Promise<void> {
  for (let sent = 0; sent < numFrames; sent += BATCH) {
    const count = Math.min(BATCH, numFrames - sent);
    const kind = random.integer(KINDS.length);
    await KINDS[kind]?.(port, count, random);
  }
}

type Stranger = (port: number, numFrames: number, random: Random) => Promise<void>;

const KINDS: readonly Stranger[] = [
  // Random bytes.
  (port, count, random) =>
    sendRaw(
      port,
      many(count, () => bytes(random, 64)),
    ),
  // ZMTP 1.0: the length, flags, the frame; the first one is the identity.
  (port, count, random) => sendRaw(port, [Buffer.of(1, 0), ...many(count, () => oldFrame(random))]),
  // ZMTP 3.0 up to the end of the greeting or of the handshake, then frames with any flags and lengths.
  (port, count, random) => sendRaw(port, [greeting(), ...many(count, () => newFrame(random))]),
  (port, count, random) =>
    sendRaw(port, [greeting(), ready(pick(random, PEERS)), ...many(count, () => newFrame(random))]),
  // Sockets of the library.
  (port, count, random) => dealer(port, count, random),
  (port, count, random) => dealer(port, count, random),
  (port, count, random) => subscriber(port, count, random),
  (port, count, random) => requests(port, count, random),
  (port, count, random) => router(port, count, random),
  (port, count, random) => push(port, count, random),
];

const PEERS = ['DEALER', 'REQ', 'ROUTER', 'SUB', 'XSUB', 'PUSH', 'nonsense'];

/** Writes bytes to a port and closes the connection. */
export async function sendRaw(port: number, chunks: readonly Buffer[]): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  // The kernel may close the connection at any of the chunks.
  socket.on('error', () => undefined);
  socket.resume();
  for (const chunk of chunks) socket.write(chunk);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.end();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  await closed;
  clearTimeout(timer);
}

async function dealer(port: number, count: number, random: Random): Promise<void> {
  await sendParts(new Dealer(OPTIONS), port, count, random);
}

async function push(port: number, count: number, random: Random): Promise<void> {
  await sendParts(new Push(OPTIONS), port, count, random);
}

/** A REQ socket that does not wait for replies; `correlate` sends a frame before the delimiter. */
async function requests(port: number, count: number, random: Random): Promise<void> {
  const correlate = random.uniform() < 0.5;
  await sendParts(new Request({ ...OPTIONS, relaxed: true, correlate }), port, count, random);
}

async function sendParts(
  socket: Dealer | Push | Request,
  port: number,
  count: number,
  random: Random,
): Promise<void> {
  socket.connect(`tcp://127.0.0.1:${port}`);
  for (let left = count; left > 0; ) {
    const message = parts(random, left);
    left -= message.length;
    await socket.send(message).catch(() => undefined);
  }
  socket.close();
}

async function subscriber(port: number, count: number, random: Random): Promise<void> {
  const socket = new XSubscriber(OPTIONS);
  socket.connect(`tcp://127.0.0.1:${port}`);
  for (let i = 0; i < count; i++) {
    const verb = random.integer(4) === 3 ? random.integer(256) : random.integer(3);
    await socket.send(Buffer.concat([Buffer.of(verb), bytes(random, 32)])).catch(() => undefined);
  }
  socket.close();
}

/** A ROUTER reaches only peers whose names it knows: the names of the kernel's sockets are those that the ROUTER invents. */
async function router(port: number, count: number, random: Random): Promise<void> {
  const socket = new Router({ ...OPTIONS, probeRouter: true });
  socket.connect(`tcp://127.0.0.1:${port}`);
  await socket.send([bytes(random, 5), ...parts(random, count)]).catch(() => undefined);
  socket.close();
}

function greeting(): Buffer {
  const whole = Buffer.alloc(64);
  whole.set([0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0]);
  whole.write('NULL', 12);
  return whole;
}

function ready(kind: string): Buffer {
  const property = (name: string, value: string): Buffer =>
    Buffer.concat([
      Buffer.of(name.length),
      Buffer.from(name),
      Buffer.of(0, 0, 0, value.length),
      Buffer.from(value),
    ]);
  const body = Buffer.concat([
    Buffer.of(5),
    Buffer.from('READY'),
    property('Socket-Type', kind),
    property('Identity', ''),
  ]);
  return Buffer.concat([Buffer.of(4, body.length), body]);
}

function oldFrame(random: Random): Buffer {
  const body = bytes(random, 40);
  const flags = random.integer(8) === 0 ? random.integer(256) : random.integer(2);
  return Buffer.concat([Buffer.of(body.length + 1, flags), body]);
}

function newFrame(random: Random): Buffer {
  const body = bytes(random, 40);
  const flags = random.integer(8) === 0 ? random.integer(256) : random.integer(2);
  const length = random.integer(16) === 0 ? random.integer(256) : body.length;
  return Buffer.concat([Buffer.of(flags, length), body]);
}

function parts(random: Random, most: number): Buffer[] {
  const frames = many(1 + random.integer(Math.min(8, most)), () => {
    const kind = random.integer(6);
    if (kind === 0) return Buffer.alloc(0);
    return kind === 1 ? Buffer.from('<IDS|MSG>') : bytes(random, 40);
  });
  return frames;
}

function bytes(random: Random, most: number): Buffer {
  return Buffer.from(many(random.integer(most), () => random.integer(256)));
}

function many<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make);
}

function pick<T>(random: Random, list: readonly T[]): T {
  // Never out of range.
  return list[random.integer(list.length)] as T;
}
