import type { CommMessage } from '../executor/protocol';
import { type Json, type Message, readText } from './wire';

/** The open comms, whoever opened them. */
export class CommRegistry {
  readonly #targets = new Map<string, string>();

  /** Notes a message of a comm, either way. */
  note({ kind, commId, target }: CommMessage): void {
    if (kind === 'open') this.#targets.set(commId, target);
    if (kind === 'close') this.#targets.delete(commId);
  }

  /** Content of comm_info_reply. */
  info(content: Json): Json {
    const wanted = content.target_name;
    const open = [...this.#targets].filter(
      ([, target]) => wanted === undefined || wanted === '' || wanted === target,
    );
    return {
      status: 'ok',
      comms: Object.fromEntries(open.map(([id, target]) => [id, { target_name: target }])),
    };
  }

  clear(): void {
    this.#targets.clear();
  }

  /**
   * A front end's comm message for the executor; undefined when the request is not a comm message. Throws: CONFIG for a
   * wrong type.
   */
  read({ header, content, metadata, buffers }: Message): CommMessage | undefined {
    const kind = KINDS.get(header.msg_type);
    if (kind === undefined) return undefined;
    const commId = readText(content, 'comm_id');
    const target = readText(content, 'target_name') || (this.#targets.get(commId) ?? '');
    const data = typeof content.data === 'object' && content.data !== null ? { ...content.data } : {};
    return { type: 'comm', kind, commId, target, data, metadata, buffers };
  }
}

const KINDS: ReadonlyMap<string, CommMessage['kind']> = new Map([
  ['comm_open', 'open'],
  ['comm_msg', 'message'],
  ['comm_close', 'close'],
]);
