import { setImmediate, setTimeout } from 'node:timers/promises';
import type { MessagePort } from 'node:worker_threads';
import { ShardlabError } from '../core/errors';
import { now, type Seconds } from '../core/units';
import type { Warn } from '../core/warn';
import { VALUE_BYTES } from './call';
import type { CommWatcher } from './comm-loop';
import type { CommFailure } from './comm-messages';
import type { ControlBlock } from './control-block';
import { type Landing, LinkClock } from './link-clock';
import { Mailbox } from './mailbox';
import type { GroupIdentity } from './mismatch';
import { ringCost } from './ring-cost';
import type { TicketBoard } from './tickets';
import { guardOf } from './wait';
import { WireBench } from './wire-bench';
import { ZeromqGroupCalls } from './zeromq-collectives';
import type { StagedCall, ZeromqRequest, ZeromqSetup } from './zeromq-messages';

/** How often the thread looks at the launcher's word while calls run. */
const LOOK_MS = 20;
/** A timer may be as late as this. */
const TIMER_MS = 1;

interface Group {
  readonly identity: GroupIdentity;
  readonly calls: ZeromqGroupCalls;
}

export interface ZeromqLoopOptions {
  readonly port: MessagePort;
  readonly tickets: TicketBoard;
  readonly setup: ZeromqSetup;
  readonly control: ControlBlock;
  readonly kernelModule: WebAssembly.Module;
  readonly watcher: CommWatcher;
  /** Gets the error of a socket that fails and then continues. */
  readonly warn: Warn;
}

/** Runs a rank's collectives over zeromq, on the comm thread's event loop: one queue a group and direction. */
export async function runZeromqLoop(options: ZeromqLoopOptions): Promise<void> {
  const { setup } = options;
  const { rank, addresses, token } = setup;
  const opening = Mailbox.open({ rank, addresses, token, warn: options.warn });
  const loop = new ZeromqLoop(options, opening);
  const mailbox = await opening.catch(() => undefined);
  await loop.closed;
  await mailbox?.close();
}

class ZeromqLoop {
  readonly closed: Promise<void>;
  readonly #options: ZeromqLoopOptions;
  readonly #opening: Promise<Mailbox>;
  readonly #bench: WireBench;
  readonly #link: LinkClock | undefined;
  readonly #groups = new Map<number, Promise<Group>>();
  readonly #tails = new Map<string, Promise<void>>();
  readonly #running = new Set<{ readonly group: Group; readonly call: StagedCall }>();
  #numLanding = 0;

  constructor(options: ZeromqLoopOptions, opening: Promise<Mailbox>) {
    this.#options = options;
    this.#opening = opening;
    this.#bench = new WireBench(options.kernelModule);
    const { link } = options.setup;
    this.#link = link === undefined ? undefined : new LinkClock(link);
    this.closed = new Promise((resolve) => {
      const timer = setInterval(() => this.#look(), LOOK_MS);
      const end = (): void => {
        clearInterval(timer);
        options.port.close();
        resolve();
      };
      // Only the main thread's ZeromqPlane holds the other end.
      options.port.on('message', (request: ZeromqRequest) => this.#accept(request, end));
    });
  }

  #accept(request: ZeromqRequest, end: () => void): void {
    switch (request.kind) {
      case 'close':
        end();
        return;
      case 'group':
        this.#groups.set(request.id, this.#openGroup(request.identity, request.path));
        return;
      case 'call':
        this.#enqueue(request.group, request.ticket, request.call);
        return;
      default:
        request satisfies never;
    }
  }

  async #openGroup(identity: GroupIdentity, path: string): Promise<Group> {
    const mailbox = await this.#opening;
    const calls = new ZeromqGroupCalls(mailbox, this.#bench, identity, path, this.#link);
    return { identity, calls };
  }

  #enqueue(id: number, ticket: number, call: StagedCall): void {
    const { op, peer } = call.header;
    const key = op === 'send' || op === 'recv' ? `${id} ${op} ${peer}` : `${id}`;
    const previous = this.#tails.get(key) ?? Promise.resolve();
    this.#tails.set(
      key,
      previous.then(() => this.#run(id, ticket, call)),
    );
  }

  /**
   * Moves a call's data; the next of its queue may begin while a shaped link still carries it.
   * Never rejects: the outcome goes to the ticket.
   */
  async #run(id: number, ticket: number, call: StagedCall): Promise<void> {
    const started = now();
    this.#options.watcher.began(call.header);
    try {
      const group = await this.#groups.get(id);
      const ready = await this.#runIn(group, call);
      if (group === undefined || this.#link === undefined) this.#finish(ticket, false, started);
      else void this.#land(this.#link, ready, { group, ticket, call }); // Never rejects.
    } catch (error) {
      this.#fail(ticket, started, error);
    }
  }

  #fail(ticket: number, started: Seconds, error: unknown): void {
    this.#options.port.postMessage({ ticket, error: errorJson(error) } satisfies CommFailure);
    this.#finish(ticket, true, started);
  }

  #finish(ticket: number, failed: boolean, started: Seconds): void {
    const { tickets, watcher } = this.#options;
    if (this.#running.size + this.#numLanding === 0) watcher.ended();
    tickets.finish(ticket, failed, { started, ended: now() });
  }

  async #runIn(group: Group | undefined, call: StagedCall): Promise<Seconds> {
    if (group === undefined) throw new ShardlabError('INTERNAL', 'the zeromq thread does not know the group');
    const entry = { group, call };
    this.#running.add(entry);
    try {
      this.#check(group, call);
      return await group.calls.run(call);
    } finally {
      this.#running.delete(entry);
    }
  }

  /** Waits until a shaped link would have carried the call. Never rejects. */
  async #land(
    link: LinkClock,
    ready: Seconds,
    { group, ticket, call }: { readonly group: Group; readonly ticket: number; readonly call: StagedCall },
  ): Promise<void> {
    const { rank, ranks } = group.identity;
    const { op, wireDType, epoch } = call.header;
    const lengths = (lists: readonly SharedArrayBuffer[]): number[] =>
      lists.map(({ byteLength }) => byteLength / VALUE_BYTES);
    const sizes = { op, wireDType, inputs: lengths(call.inputs), outputs: lengths(call.outputs) };
    const landing = link.carry(epoch, ready, ringCost(sizes, rank, ranks.length));
    this.#numLanding++;
    try {
      await untilLanded(landing, () => this.#check(group, call));
      this.#numLanding--;
      this.#finish(ticket, false, landing.started);
    } catch (error) {
      this.#numLanding--;
      this.#fail(ticket, landing.started, error);
    }
  }

  #check(group: Group, { header }: StagedCall): void {
    const what = (): string => `${header.op} number ${header.number} of group ${header.group}`;
    guardOf(this.#options.control, group.identity, header.epoch, what).check();
  }

  /** Gives up what runs when the launcher said so. */
  #look(): void {
    for (const { group, call } of this.#running) {
      try {
        this.#check(group, call);
      } catch (error) {
        void this.#opening.then((mailbox) => mailbox.giveUp(call.header.epoch, () => error));
      }
    }
  }
}

/** Timers are exact to about a millisecond: what is left then is spun, with a look at the sockets in between. */
async function untilLanded(landing: Landing, check: () => void): Promise<void> {
  while (!landing.ready()) {
    const spare = Math.min(landing.spareMilliseconds - TIMER_MS, LOOK_MS);
    if (spare > 1) await setTimeout(spare, undefined, { ref: false });
    else await setImmediate();
    check();
  }
}

function errorJson(error: unknown): CommFailure['error'] {
  if (error instanceof ShardlabError) return error.toJSON();
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: 'TRANSPORT', message: `a collective over zeromq failed: ${text}` };
}
