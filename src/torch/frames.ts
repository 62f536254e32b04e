import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/*
 * [Note: control link of Python ranks] A frame is: length of the rest (u32) | HMAC-SHA256 | payload. A payload is: length of the
 * JSON (u32) | JSON | bytes. On connect, the launcher sends a nonce. The rank's hello has a nonce of its own and proves that the
 * rank knows the job's key. Each direction has a key that is made from the job's key and both nonces. The code (HMAC-SHA256) of
 * each later frame also covers the frame's number. So nobody without the job's key can send a frame, and no frame can be sent
 * twice, swapped, or used on another connection.
 */

export const NONCE_BYTES = 32;
const MAC_BYTES = 32;
const LENGTH_BYTES = 4;
/** A hello is short; a longer first frame is not a hello. */
const MOST_HELLO_BYTES = 1024;
/** Tensors of cells and batches travel in frames. */
const MOST_FRAME_BYTES = 2 ** 30;

/** The content of a frame: JSON, and bytes, such as the values of tensors. */
export interface Payload {
  readonly json: unknown;
  readonly bytes: Buffer;
}

/** Makes and checks the frames of one direction of a connection. */
export class FrameKey {
  readonly #key: Buffer;
  #number = 0n;

  constructor(key: Buffer) {
    this.#key = key;
  }

  /** Returns the code of the direction's next frame. */
  next(payload: Buffer): Buffer {
    const number = Buffer.alloc(8);
    number.writeBigUInt64BE(this.#number++);
    return hmac(this.#key, number, payload);
  }
}

/** Returns a new key for a job, or a nonce. */
export function randomKey(): Buffer {
  return randomBytes(NONCE_BYTES);
}

export function helloKey(key: Buffer, launcherNonce: Buffer): Buffer {
  return hmac(key, Buffer.from('hello'), launcherNonce);
}

/** Returns the key of one direction of a connection. */
export function directionKey(
  direction: 'to rank' | 'from rank',
  key: Buffer,
  launcherNonce: Buffer,
  rankNonce: Buffer,
): FrameKey {
  return new FrameKey(hmac(key, Buffer.from(direction), launcherNonce, rankNonce));
}

export function hmac(key: Buffer, ...parts: readonly Buffer[]): Buffer {
  const code = createHmac('sha256', key);
  for (const part of parts) code.update(part);
  return code.digest();
}

/** Returns the payload with this JSON and these bytes. */
export function encodePayload(json: unknown, bytes: Uint8Array = Buffer.alloc(0)): Buffer {
  const text = Buffer.from(JSON.stringify(json));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(text.length);
  return Buffer.concat([length, text, bytes]);
}

/** Returns a payload's content; undefined if the bytes are not a payload. */
export function decodePayload(payload: Buffer): Payload | undefined {
  if (payload.length < LENGTH_BYTES) return undefined;
  const end = LENGTH_BYTES + payload.readUInt32BE();
  if (end > payload.length) return undefined;
  try {
    const json: unknown = JSON.parse(payload.subarray(LENGTH_BYTES, end).toString('utf8'));
    return { json, bytes: payload.subarray(end) };
  } catch {
    return undefined;
  }
}

/** Returns the frame with this code and payload. */
export function encodeFrame(code: Buffer, payload: Buffer): Buffer {
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(code.length + payload.length);
  return Buffer.concat([length, code, payload]);
}

/** Cuts a stream of bytes into frames; a received chunk may begin or end within a frame. */
export class FrameReader {
  #chunks: Buffer[] = [];
  #size = 0;
  #mostBytes = MOST_HELLO_BYTES;

  /** Must be called after the hello, because later frames may be long. */
  allowLong(): void {
    this.#mostBytes = MOST_FRAME_BYTES;
  }

  /** Adds received bytes. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
  }

  /** Returns the next frame; undefined if it has not arrived; 'wrong' if no frame can have its length. */
  next(): { readonly code: Buffer; readonly payload: Buffer } | 'wrong' | undefined {
    if (this.#size < LENGTH_BYTES) return undefined;
    const length = this.#peek(LENGTH_BYTES).readUInt32BE();
    if (length < MAC_BYTES || length > this.#mostBytes) return 'wrong';
    if (this.#size < LENGTH_BYTES + length) return undefined;
    const frame = this.#take(LENGTH_BYTES + length);
    const codeEnd = LENGTH_BYTES + MAC_BYTES;
    return { code: frame.subarray(LENGTH_BYTES, codeEnd), payload: frame.subarray(codeEnd) };
  }

  #peek(bytes: number): Buffer {
    const [first] = this.#chunks;
    if (first !== undefined && first.length >= bytes) return first;
    this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] as Buffer; // the line above has stored this chunk
  }

  #take(bytes: number): Buffer {
    const all = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    this.#chunks = all.length === bytes ? [] : [all.subarray(bytes)];
    this.#size = all.length - bytes;
    return all.subarray(0, bytes);
  }
}

/** Whether two codes are equal; the time of this comparison does not depend on the codes' bytes. */
export function isSameCode(one: Buffer, two: Buffer): boolean {
  return one.length === two.length && timingSafeEqual(one, two);
}
