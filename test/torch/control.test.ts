import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { FromRank } from '../../src/launch/control/messages';
import { openTorchControl, type TorchControl } from '../../src/torch/control';
import {
  directionKey,
  encodeFrame,
  encodePayload,
  type FrameKey,
  FrameReader,
  helloKey,
  hmac,
  randomKey,
} from '../../src/torch/frames';

/** What the launcher heard. */
interface Heard {
  readonly messages: { readonly rank: number; readonly message: FromRank }[];
  readonly connected: number[];
  readonly lost: number[];
  /** Resolves at the next event. */
  next(): Promise<void>;
}

async function openFor(context: TestContext, numRanks = 2): Promise<{ control: TorchControl; heard: Heard }> {
  let wake = (): void => undefined;
  const heard: Heard = {
    messages: [],
    connected: [],
    lost: [],
    next: () =>
      new Promise((resolve) => {
        wake = resolve;
      }),
  };
  const control = await openTorchControl(numRanks, {
    receive: (rank, message) => {
      heard.messages.push({ rank, message });
      wake();
    },
    connected: (rank) => {
      heard.connected.push(rank);
      wake();
    },
    lost: (rank) => {
      heard.lost.push(rank);
      wake();
    },
  });
  context.after(() => control.close());
  return { control, heard };
}

interface Rank {
  readonly socket: Socket;
  readonly hello: Buffer;
  readonly fromRank: FrameKey;
  readonly reader: FrameReader;
  readonly toRank: FrameKey;
}

function dial({ address }: TorchControl): Promise<{ readonly socket: Socket; readonly nonce: Buffer }> {
  const socket = connect(address.port, address.host);
  socket.on('error', () => undefined);
  return new Promise((resolve) => socket.once('data', (nonce) => resolve({ socket, nonce })));
}

/** Connects as a rank does. */
async function join(
  control: TorchControl,
  rank: number,
  key: Buffer = Buffer.from(control.address.key, 'hex'),
): Promise<Rank> {
  const { socket, nonce } = await dial(control);
  const own = randomKey();
  const payload = encodePayload({ rank, pid: 1000 + rank, nonce: own.toString('hex') });
  const hello = encodeFrame(hmac(helloKey(key, nonce), payload), payload);
  socket.write(hello);
  const reader = new FrameReader();
  reader.allowLong();
  socket.on('data', (chunk) => reader.push(chunk));
  const fromRank = directionKey('from rank', key, nonce, own);
  return { socket, hello, fromRank, reader, toRank: directionKey('to rank', key, nonce, own) };
}

function say({ socket, fromRank }: Rank, message: unknown): Buffer {
  const payload = encodePayload(message);
  const frame = encodeFrame(fromRank.next(payload), payload);
  socket.write(frame);
  return frame;
}

const closed = (socket: Socket): Promise<void> =>
  socket.destroyed ? Promise.resolve() : new Promise((resolve) => socket.once('close', () => resolve()));

test('a rank with the key is heard, and hears the launcher', async (context) => {
  const { control, heard } = await openFor(context);
  const rank = await join(control, 1);
  await heard.next();
  assert.deepEqual(heard.connected, [1]);
  say(rank, { type: 'progress', id: 3, progress: { done: 1, total: 2 } });
  await heard.next();
  assert.deepEqual(heard.messages[0], {
    rank: 1,
    message: { type: 'progress', id: 3, progress: { done: 1, total: 2 } },
  });
  const tensors = [
    { shape: [1, 1, 2], values: Int32Array.of(5, 6, 7).subarray(1) },
    { shape: [1, 1], values: Float32Array.of(-2) },
  ];
  const made = { run: 1, first: 0, tensors, lrs: [[0.1]] };
  control.send(1, { type: 'batches', id: 3, made });
  let frame = rank.reader.next();
  for (; frame === undefined; frame = rank.reader.next())
    await new Promise((resolve) => setImmediate(resolve));
  assert.ok(frame !== 'wrong');
  assert.deepEqual(frame.code, rank.toRank.next(frame.payload));
  const length = frame.payload.readUInt32BE();
  assert.deepEqual(JSON.parse(frame.payload.subarray(4, 4 + length).toString()), {
    ...{ type: 'batches', id: 3, run: 1, first: 0, lrs: [[0.1]] },
    tensors: [
      { shape: [1, 1, 2], dtype: 'int32' },
      { shape: [1, 1], dtype: 'float32' },
    ],
  });
  assert.deepEqual([...frame.payload.subarray(4 + length)], [6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0xc0]);
  rank.socket.destroy();
  await heard.next();
  assert.deepEqual(heard.lost, [1]);
});

test('strangers that stay connected do not keep a rank out, and only some of them stay', async (context) => {
  const { control, heard } = await openFor(context);
  const strangers = Array.from({ length: 200 }, () => connect(control.address.port, '127.0.0.1'));
  context.after(() => {
    for (const stranger of strangers) stranger.destroy();
  });
  for (const stranger of strangers) stranger.on('error', () => undefined).resume();
  await Promise.all(strangers.slice(0, 200 - 64).map(closed));
  await join(control, 1);
  await heard.next();
  assert.deepEqual(heard.connected, [1]);
});

test('random bytes, a wrong key, a replayed hello and a taken rank are refused, and disturb no rank', async (context) => {
  const { control, heard } = await openFor(context);
  const rank = await join(control, 0);
  await heard.next();
  for (const bytes of [Buffer.alloc(200, 7), Buffer.from([0, 0, 0, 40, ...randomKey(), ...randomKey()])]) {
    const { socket } = await dial(control);
    socket.write(bytes);
    await closed(socket);
  }
  await closed((await join(control, 1, randomKey())).socket);
  await closed((await join(control, 0)).socket);
  await closed((await join(control, 2)).socket);
  const { socket } = await dial(control);
  socket.write(rank.hello);
  await closed(socket);
  assert.deepEqual(heard.connected, [0]);
  say(rank, { type: 'progress', id: 1, progress: { done: 1, total: 1 } });
  await heard.next();
  assert.equal(heard.messages.length, 1);
});

test('a frame that was sent before, and a changed frame, end the connection and reach nobody', async (context) => {
  const { control, heard } = await openFor(context);
  const rank = await join(control, 0);
  await heard.next();
  const frame = say(rank, { type: 'progress', id: 1, progress: { done: 1, total: 1 } });
  await heard.next();
  rank.socket.write(frame);
  await closed(rank.socket);
  const other = await join(control, 1);
  await heard.next();
  const payload = encodePayload({ type: 'progress', id: 1, progress: { done: 1, total: 1 } });
  const changed = encodeFrame(other.fromRank.next(payload), payload);
  changed[changed.length - 2] = (changed.at(-2) ?? 0) ^ 1;
  other.socket.write(changed);
  await closed(other.socket);
  assert.equal(heard.messages.length, 1);
});

test('frames survive any division into chunks', () => {
  const reader = new FrameReader();
  reader.allowLong();
  const payloads = [0, 1, 500, 3].map((length) => encodePayload({ length }, Buffer.alloc(length, length)));
  const bytes = Buffer.concat(payloads.map((payload) => encodeFrame(Buffer.alloc(32), payload)));
  for (const size of [1, 3, 7, 100, bytes.length]) {
    const found: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      reader.push(bytes.subarray(at, at + size));
      for (let frame = reader.next(); frame !== undefined; frame = reader.next()) {
        assert.ok(frame !== 'wrong');
        found.push(frame.payload);
      }
    }
    assert.deepEqual(found, payloads as Uint8Array[]);
  }
});
