import { setImmediate, setTimeout } from 'node:timers/promises';
import type { MessagePort } from 'node:worker_threads';
import { errorJson, now, type Seconds, ShardlabError } from '../../core';
import { VALUE_BYTES } from './call';
import type { CommThreadInput } from './comm-client';
import { ControlBlock } from './control-block';
import { compileKernels } from './kernels/load';
import type { Landing } from './link-clock';
import { Links, type SharedLinks } from './links';
import { Mailbox } from './mailbox';
import type { GroupIdentity } from './mismatch';
import { StatusWriter } from './status-board';
import { type CommFailure, TicketBoard } from './tickets';
import { checkControl } from './wait';
import { WireBench } from './wire-bench';
import { runZeromqCall, type StagedCall, type ZeromqGroup } from './zeromq-collectives';

/** A message from the main thread to the comm thread of the zeromq plane. */
export type ZeromqRequest =
  | { readonly kind: 'group'; readonly id: number; readonly path: string; readonly identity: GroupIdentity }
  | { readonly kind: 'call'; readonly group: number; readonly ticket: number; readonly call: StagedCall }
  | { readonly kind: 'close' };

/** Setup data of the comm thread of the zeromq plane. */
export interface ZeromqSetup {
  readonly rank: number;
  readonly addresses: readonly string[];
  readonly token: string;
  readonly control: SharedArrayBuffer;
  readonly links: SharedLinks | undefined;
  readonly statusBoard: SharedArrayBuffer;
}

/** Time between two checks of the control block while calls run, in milliseconds. */
const LOOK_MS = 20;
/** Time by which a timer may be late, in milliseconds. */
const TIMER_MS = 1;

/** A call that runs, or that a shaped link still carries. */
interface Running {
  readonly group: ZeromqGroup;
  readonly ticket: number;
  readonly call: StagedCall;
  /** Whether an earlier look found that the launcher has aborted the call. */
  isAborted: boolean;
}

/** Runs a rank's collectives over zeromq on the comm thread's event loop, in one queue per group and direction. */
export async function runZeromqLoop(input: CommThreadInput<ZeromqSetup>): Promise<void> {
  const { rank, addresses, token } = input.setup;
  const warn = (message: string): void => void process.stderr.write(`warning: ${message}\n`);
  const opening = Mailbox.open({ rank, addresses, token, warn });
  const loop = new ZeromqLoop(input, opening);
  const mailbox = await opening.catch(() => undefined);
  await loop.closed;
  await mailbox?.close();
}

class ZeromqLoop {
  readonly closed: Promise<void>;
  readonly #port: MessagePort;
  readonly #tickets: TicketBoard;
  readonly #status: StatusWriter;
  readonly #control: ControlBlock;
  readonly #opening: Promise<Mailbox>;
  readonly #bench = new WireBench(compileKernels());
  readonly #links: Links | undefined;
  readonly #groups = new Map<number, Promise<ZeromqGroup>>();
  readonly #tails = new Map<string, Promise<void>>();
  readonly #running = new Set<Running>();
  #numLanding = 0;

  constructor({ port, tickets, setup }: CommThreadInput<ZeromqSetup>, opening: Promise<Mailbox>) {
    this.#port = port;
    this.#tickets = new TicketBoard(tickets);
    this.#status = new StatusWriter(setup.statusBoard, 'comm');
    this.#control = new ControlBlock(setup.control);
    this.#opening = opening;
    this.#links = setup.links === undefined ? undefined : new Links(setup.links);
    this.closed = new Promise((resolve) => {
      const timer = setInterval(() => this.#look(), LOOK_MS);
      const end = (): void => {
        clearInterval(timer);
        port.close();
        resolve();
      };
      // Only the main thread's ZeromqPlane writes to the other end.
      port.on('message', (request: ZeromqRequest) => this.#accept(request, end));
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
        this.#enqueue(request);
        return;
      default:
        request satisfies never;
    }
  }

  async #openGroup(identity: GroupIdentity, path: string): Promise<ZeromqGroup> {
    const mailbox = await this.#opening;
    const link = this.#links?.ofGroup(identity);
    return { mailbox, bench: this.#bench, identity, path, link, brokenEpoch: 0 };
  }

  #enqueue(request: ZeromqRequest & { readonly kind: 'call' }): void {
    const { op, peer } = request.call.header;
    const key = op === 'send' || op === 'recv' ? `${request.group} ${op} ${peer}` : `${request.group}`;
    const previous = this.#tails.get(key) ?? Promise.resolve();
    this.#tails.set(
      key,
      previous.then(() => this.#run(request)),
    );
  }

  /**
   * Moves a call's data. The queue's next call may begin while a shaped link still carries this call. Never rejects, because
   * the outcome goes to the ticket.
   */
  async #run({ group: id, ticket, call }: ZeromqRequest & { readonly kind: 'call' }): Promise<void> {
    const started = now();
    this.#status.enter(call.header);
    try {
      const group = await this.#groups.get(id);
      if (group === undefined) {
        throw new ShardlabError('INTERNAL', 'the zeromq thread does not know the group');
      }
      const running = { group, ticket, call, isAborted: false };
      const ready = await this.#move(running);
      const landing = group.link?.carry(call.header, ready, listsOf(call));
      if (landing === undefined) this.#finish(ticket, false, started);
      else void this.#land(landing, running); // #land never rejects.
    } catch (error) {
      this.#fail(ticket, started, error);
    }
  }

  #fail(ticket: number, started: Seconds, error: unknown): void {
    const json = errorJson(error, 'TRANSPORT', 'a collective over zeromq failed: ');
    this.#port.postMessage({ ticket, error: json } satisfies CommFailure);
    this.#finish(ticket, true, started);
  }

  #finish(ticket: number, failed: boolean, started: Seconds): void {
    if (this.#running.size + this.#numLanding === 0) this.#status.leave();
    this.#tickets.finish(ticket, failed, { started, ended: now() });
  }

  async #move(running: Running): Promise<Seconds> {
    this.#running.add(running);
    try {
      this.#check(running);
      return await runZeromqCall(running.group, running.call);
    } finally {
      this.#running.delete(running);
    }
  }

  /** Waits until a shaped link would have carried the call. Never rejects. */
  async #land(landing: Landing, running: Running): Promise<void> {
    const { ticket } = running;
    this.#numLanding++;
    try {
      await untilLanded(landing, () => this.#check(running));
      this.#numLanding--;
      this.#finish(ticket, false, landing.started);
    } catch (error) {
      this.#numLanding--;
      this.#fail(ticket, landing.started, error);
    }
  }

  #check({ group, call }: Running): void {
    checkControl(this.#control, group.identity, call.header);
  }

  /**
   * Gives up the running calls if the launcher has aborted them. If another rank failed, the call is given up one look later: the
   * other rank's letter may still be on its way, and it shows how the calls of both ranks differ.
   */
  #look(): void {
    for (const running of this.#running) {
      try {
        this.#check(running);
      } catch (error) {
        const isFailure = error instanceof ShardlabError && error.code === 'ABORTED';
        const isNew = isFailure && !running.isAborted;
        running.isAborted = true;
        if (isNew) continue;
        running.group.mailbox.giveUp(running.call.header.epoch, () => error);
      }
    }
  }
}

/** Returns the lengths of a call's lists, in elements. */
function listsOf(call: StagedCall): { readonly inputs: number[]; readonly outputs: number[] } {
  const lengths = (lists: readonly SharedArrayBuffer[]): number[] =>
    lists.map(({ byteLength }) => byteLength / VALUE_BYTES);
  return { inputs: lengths(call.inputs), outputs: lengths(call.outputs) };
}

/**
 * Waits for the end of a transfer. Timers are exact only to about a millisecond, so the thread spins for the last two
 * milliseconds; it serves sockets between two checks.
 */
async function untilLanded(landing: Landing, check: () => void): Promise<void> {
  while (!landing.ready()) {
    const spare = Math.min(landing.spareMilliseconds - TIMER_MS, LOOK_MS);
    if (spare > 1) await setTimeout(spare, undefined, { ref: false });
    else await setImmediate();
    check();
  }
}
