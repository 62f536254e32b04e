import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';

/** Version of the Jupyter messaging protocol that the kernel speaks. */
export const PROTOCOL_VERSION = '5.4';

export interface Header {
  readonly msg_id: string;
  readonly session: string;
  readonly username: string;
  readonly date: string;
  readonly msg_type: string;
  readonly version: string;
}

export type Json = Readonly<Record<string, unknown>>;

/** A message of the Jupyter protocol as it was received. */
export interface Message {
  /** Routing frames: whom to answer. */
  readonly identities: readonly Buffer[];
  readonly header: Header;
  readonly metadata: Json;
  readonly content: Json;
  readonly buffers: readonly Buffer[];
}

/** A message to send; frames for routing (a topic on iopub) come before it. */
export interface Outgoing {
  readonly type: string;
  readonly content: Json;
  readonly parent?: Header | undefined;
  readonly identities?: readonly (Buffer | string)[] | undefined;
  readonly metadata?: Json | undefined;
  readonly buffers?: readonly Uint8Array[] | undefined;
}

type Frame = Buffer | string | Uint8Array;

const DELIMITER = Buffer.from('<IDS|MSG>');

/** Writes and reads signed messages of one kernel. Source: Jupyter messaging protocol, "The Wire Protocol" */
export class Wire {
  readonly session = randomUUID();
  readonly #key: string;

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

  /** Reads frames; undefined when they are no message or their signature is wrong. */
  decode(frames: readonly Buffer[]): Message | undefined {
    const at = frames.findIndex((frame) => frame.equals(DELIMITER));
    const [signature, header, parent, metadata, content, ...buffers] = frames.slice(at + 1);
    if (at < 0 || !signature || !header || !parent || !metadata || !content) return undefined;
    const expected = Buffer.from(this.#sign([header, parent, metadata, content]));
    if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) return undefined;
    // Signed by the client: these are the JSON objects that the protocol prescribes.
    return {
      identities: frames.slice(0, at),
      header: JSON.parse(header.toString()) as Header,
      metadata: JSON.parse(metadata.toString()) as Json,
      content: JSON.parse(content.toString()) as Json,
      buffers,
    };
  }

  #sign(parts: readonly (string | Buffer)[]): string {
    if (this.#key === '') return '';
    const hmac = createHmac('sha256', this.#key);
    for (const part of parts) hmac.update(part);
    return hmac.digest('hex');
  }
}
