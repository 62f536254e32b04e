import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { ConfigError, ShardlabError } from '../../src/core';

/** Version of the Jupyter messaging protocol that the kernel speaks. */
export const PROTOCOL_VERSION = '5.4';

export interface Header {
  readonly msg_id: string;
  readonly session: string;
  readonly username: string;
  readonly date: string;
  readonly msg_type: string;
  readonly version: string;
  /** The subshell of a request. Source: Jupyter Enhancement Proposal 91 */
  readonly subshell_id?: string | undefined;
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** A received message of the Jupyter protocol. */
export interface Message {
  /** Routing frames, which name the receiver of the answer. */
  readonly identities: readonly Buffer[];
  readonly header: Header;
  readonly metadata: JsonObject;
  readonly content: JsonObject;
  readonly buffers: readonly Buffer[];
}

/** A message to send. `identities` are the first frames, which zeromq uses for routing; on iopub, there is one: the topic. */
export interface Outgoing {
  readonly type: string;
  readonly content: JsonObject;
  readonly parent?: Header | undefined;
  readonly identities?: readonly (Buffer | string)[] | undefined;
  readonly metadata?: JsonObject | undefined;
  readonly buffers?: readonly Uint8Array[] | undefined;
}

type Frame = Buffer | string | Uint8Array;

/** The largest number of stored signatures. Source: jupyter_client, Session.digest_history_size */
const MOST_SIGNATURES = 2 ** 16;

const DELIMITER = Buffer.from('<IDS|MSG>');

/** Writes and reads signed messages of one kernel. Source: Jupyter messaging protocol, "The Wire Protocol" */
export class Wire {
  readonly session = randomUUID();
  readonly #key: string;
  readonly #seen = new SeenSignatures();

  constructor(key: string) {
    this.#key = key;
  }

  encode({ type, content, parent, identities = [], metadata = {}, buffers = [] }: Outgoing): Frame[] {
    const header: Header = {
      msg_id: randomUUID(),
      session: this.session,
      username: 'kernel',
      date: new Date().toISOString(),
      msg_type: type,
      version: PROTOCOL_VERSION,
    };
    const parts = [header, parent ?? {}, metadata, content].map((part) => JSON.stringify(part));
    return [...identities, DELIMITER, this.#sign(parts), ...parts, ...buffers];
  }

  /**
   * Reads a message. Throws: TRANSPORT if frames are missing or invalid, if the signature is wrong, or if the message was
   * received before.
   */
  decode(frames: readonly Buffer[]): Message {
    const at = frames.findIndex((frame) => frame.equals(DELIMITER));
    const [signature, header, parent, metadata, content, ...buffers] = frames.slice(at + 1);
    if (at < 0 || !signature || !header || !parent || !metadata || !content) throw refused('it lacks frames');
    this.#check(signature, [header, parent, metadata, content]);
    return {
      identities: frames.slice(0, at),
      header: readHeader(header),
      metadata: readObject('metadata', metadata),
      content: readObject('content', content),
      buffers,
    };
  }

  #check(signature: Buffer, parts: readonly Buffer[]): void {
    if (this.#key === '') return;
    const expected = Buffer.from(this.#sign(parts));
    if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) {
      throw refused("it is not signed with this kernel's key");
    }
    if (!this.#seen.note(signature.toString())) throw refused('its signature was received before');
  }

  #sign(parts: readonly (string | Buffer)[]): string {
    if (this.#key === '') return '';
    const hmac = createHmac('sha256', this.#key);
    for (const part of parts) hmac.update(part);
    return hmac.digest('hex');
  }
}

/**
 * Reads a request's header, which the reply contains again. Omits fields whose values are objects, because the protocol has no
 * such fields.
 */
function readHeader(frame: Buffer): Header {
  const fields = Object.entries(readObject('header', frame));
  const header = Object.fromEntries(fields.filter(([, value]) => typeof value !== 'object'));
  for (const name of ['msg_id', 'msg_type']) {
    if (typeof header[name] !== 'string') throw refused(`its header lacks the text ${name}`);
  }
  if (!['string', 'undefined'].includes(typeof header.subshell_id))
    throw refused('its subshell_id is not a text');
  // The kernel reads only these three fields; the other fields return to the client unchanged.
  return header as unknown as Header;
}

function readObject(name: string, frame: Buffer): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(frame.toString());
  } catch {
    throw refused(`its ${name} is not JSON`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw refused(`its ${name} is not a JSON object`);
  }
  // An object of JSON is a record.
  return value as JsonObject;
}

function refused(why: string): ShardlabError {
  return new ShardlabError('TRANSPORT', why);
}

/** Returns the field `key` of a message's content; '' if the field is missing. Throws: CONFIG if it is not a string. */
export function readText(content: JsonObject, key: string): string {
  const value = content[key] ?? '';
  if (typeof value === 'string') return value;
  throw new ConfigError(`${key} of the request has type ${typeof value}, but must be a string`);
}

/** Stores the signatures of messages, so that a repeated message is refused. */
export class SeenSignatures {
  // The signatures are in the order of their arrival.
  readonly #seen = new Set<string>();
  readonly #most: number;

  constructor(most = MOST_SIGNATURES) {
    this.#most = most;
  }

  /** Stores a signature; returns false if it was stored before. */
  note(signature: string): boolean {
    if (this.#seen.has(signature)) return false;
    this.#seen.add(signature);
    if (this.#seen.size > this.#most) this.#cull();
    return true;
  }

  /** Forgets the oldest tenth of the signatures (jupyter_client forgets a random tenth). */
  #cull(): void {
    let left = Math.max(1, Math.floor(this.#seen.size / 10));
    for (const signature of this.#seen) {
      if (left-- === 0) return;
      this.#seen.delete(signature);
    }
  }
}
