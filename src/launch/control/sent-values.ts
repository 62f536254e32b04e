import { DefaultDeserializer, serialize } from 'node:v8';
import { ConfigError } from '../../core';
import type { ValueCodec } from '../../wire';
import { PLAIN, requireSendable } from './sendable';

/*
 * [Note: sent values] A value travels as bytes between the notebook and ranks that run JavaScript, so that the threads on its way
 * pass it on without a copy of their own. The bytes are those of structured clone.
 */

/** Returns the bytes of values by their names. Throws: CONFIG, which names the path of the first part that cannot be sent. */
export function encodeSent(values: Readonly<Record<string, unknown>>, caller: string): Buffer {
  for (const [name, value] of Object.entries(values)) requireSendable(value, caller, name, 'JavaScript');
  try {
    return serialize(values);
  } catch (cause) {
    throw new ConfigError(`${caller}: a value cannot be sent (${String(cause)}); ${PLAIN}`);
  }
}

/** Returns the values of `encodeSent`. */
export function decodeSent(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  const reader = new OwnArrays(bytes);
  reader.readHeader();
  return reader.readValue();
}

/** The same for one value, as collectives of values need it. */
export const VALUE_CODEC: ValueCodec = {
  encode: (value, caller) => encodeSent({ value }, caller),
  decode: (bytes) => decodeSent(bytes).value,
};

/** Reads each typed array into memory of its own; Node's own reader returns parts of the message, so `x.buffer` would be the message. */
class OwnArrays extends DefaultDeserializer {
  _readHostObject(): ArrayBufferView {
    // Node calls this method for typed arrays; its typings leave it out.
    const read: unknown = Reflect.get(DefaultDeserializer.prototype, '_readHostObject');
    const view = (read as (this: OwnArrays) => ArrayBufferView).call(this);
    const { buffer, byteOffset, byteLength } = view;
    const own = buffer.slice(byteOffset, byteOffset + byteLength);
    if (Buffer.isBuffer(view)) return Buffer.from(own);
    return Reflect.construct(view.constructor, [own]);
  }
}
