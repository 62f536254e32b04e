import { randomUUID } from 'node:crypto';
import type { CommMessage } from './protocol';

type Data = Readonly<Record<string, unknown>>;
type Buffers = readonly Uint8Array[];

/** A channel between a cell's code and the front end, as widgets use it. Source: Jupyter protocol, custom messages */
export interface Comm {
  readonly id: string;
  readonly target: string;
  send(data: Data, buffers?: Buffers): void;
  close(data?: Data): void;
  onMessage: (data: Data, buffers: Buffers) => void;
  onClose: (data: Data) => void;
}

type Opened = (comm: Comm, data: Data) => void;

/** The comms between this process and the front end. */
export class Comms {
  readonly #send: (message: CommMessage) => void;
  readonly #open = new Map<string, Comm>();
  readonly #targets = new Map<string, Opened>();

  constructor(send: (message: CommMessage) => void) {
    this.#send = send;
  }

  open(target: string, data: Data = {}, metadata: Data = {}): Comm {
    const comm = this.#create(randomUUID(), target);
    this.#send({ type: 'comm', kind: 'open', commId: comm.id, target, data, metadata });
    return comm;
  }

  register(target: string, opened: Opened): void {
    this.#targets.set(target, opened);
  }

  /** Takes a message from the front end; closes the comm of an unknown target, as the protocol requires. */
  receive({ kind, commId, target, data, buffers = [] }: CommMessage): void {
    if (kind === 'open') {
      const opened = this.#targets.get(target);
      if (opened === undefined) this.#send({ type: 'comm', kind: 'close', commId, target, data: {} });
      else opened(this.#create(commId, target), data);
      return;
    }
    const comm = this.#open.get(commId);
    if (kind === 'message') comm?.onMessage(data, buffers);
    else if (this.#open.delete(commId)) comm?.onClose(data);
  }

  #create(id: string, target: string): Comm {
    const comm: Comm = {
      id,
      target,
      send: (data, buffers) =>
        this.#send({ type: 'comm', kind: 'message', commId: id, target, data, buffers }),
      close: (data = {}) => {
        if (this.#open.delete(id)) this.#send({ type: 'comm', kind: 'close', commId: id, target, data });
      },
      onMessage: () => {},
      onClose: () => {},
    };
    this.#open.set(id, comm);
    return comm;
  }
}
