import {
  type CellOutput,
  createStreamBuffer,
  Excerpt,
  metadataOf,
  type StreamName,
  shortenedBundle,
} from '../../src/cell';
import type { CommMessage } from '../executor/protocol';
import type { Sockets } from './sockets';
import type { Header, JsonObject } from './wire';

/** Within these limits, several prints become one message, so that a loop of prints does not send one message per print. */
const STREAM_LIMITS = { windowMs: 20, maxLength: 65_536 };

/**
 * Sends messages on iopub; each message names the request that caused it. Joins prints into fewer messages and preserves their
 * order.
 */
export class Publisher {
  readonly #sockets: Sockets;
  readonly #streams = createStreamBuffer(
    (name, text) => this.#send('stream', { name, text }, this.#streamParent),
    STREAM_LIMITS,
  );
  #streamParent: Header | undefined;
  /** Per request, the excerpts that shorten long prints; a print after the request's end begins a new excerpt. */
  readonly #excerpts = new WeakMap<Header, Record<StreamName, Excerpt>>();

  constructor(sockets: Sockets) {
    this.#sockets = sockets;
  }

  publish(type: string, content: JsonObject, parent: Header | undefined, extra: PublishExtra = {}): void {
    this.#streams.flush();
    this.#send(type, content, parent, extra);
  }

  stream(name: StreamName, text: string, parent: Header | undefined): void {
    this.#write(name, parent === undefined ? text : this.#excerptsOf(parent)[name].add(text), parent);
  }

  /** Ends a request's prints, and sends the text that their excerpts still hold. */
  endStreams(parent: Header): void {
    const excerpts = this.#excerpts.get(parent);
    if (excerpts === undefined) return;
    this.#excerpts.delete(parent);
    for (const name of ['stdout', 'stderr'] as const) this.#write(name, excerpts[name].end(), parent);
  }

  #excerptsOf(parent: Header): Record<StreamName, Excerpt> {
    const excerpts = this.#excerpts.get(parent) ?? { stdout: new Excerpt(), stderr: new Excerpt() };
    this.#excerpts.set(parent, excerpts);
    return excerpts;
  }

  #write(name: StreamName, text: string, parent: Header | undefined): void {
    if (text === '') return;
    if (parent !== this.#streamParent) this.#streams.flush();
    this.#streamParent = parent;
    this.#streams.write(name, text);
  }

  output(output: CellOutput, parent: Header | undefined): void {
    switch (output.kind) {
      case 'stream':
        this.stream(output.name, output.text, parent);
        return;
      case 'display':
      case 'update': {
        const { displayId } = output;
        const metadata = { ...metadataOf(output.bundle), ...output.metadata };
        const bundle = shortenedBundle(output.bundle);
        const transient = displayId === undefined ? {} : { display_id: displayId };
        const type = output.kind === 'display' ? 'display_data' : 'update_display_data';
        this.publish(type, { data: bundle, metadata, transient }, parent);
        return;
      }
      case 'clear':
        this.publish('clear_output', { wait: output.wait }, parent);
        return;
      default:
        output satisfies never;
    }
  }

  comm(message: CommMessage, parent: Header | undefined): void {
    const { kind, commId, target, data, metadata = {}, buffers = [] } = message;
    const content =
      kind === 'open' ? { comm_id: commId, target_name: target, data } : { comm_id: commId, data };
    const type = kind === 'message' ? 'comm_msg' : `comm_${kind}`;
    this.publish(type, content, parent, { metadata, buffers });
  }

  status(state: 'starting' | 'busy' | 'idle', parent: Header | undefined): void {
    this.publish('status', { execution_state: state }, parent);
  }

  #send(type: string, content: JsonObject, parent: Header | undefined, extra: PublishExtra = {}): void {
    this.#sockets.send('iopub', { type, content, parent, identities: [type], ...extra });
  }
}

interface PublishExtra {
  readonly metadata?: JsonObject;
  readonly buffers?: readonly Uint8Array[];
}
