import '../../core/code-cache/save-memory-here';
import { rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { deserialize, serialize } from 'node:v8';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { Dealer } from 'zeromq';
import { attachGuardian, createStreamBuffer, type Guardian, interruptInStages } from '../../cell';
import { createSender, now, receiveAll, type Seconds } from '../../core';
import { ControlBlock, readStatus } from '../../wire';
import { warnOnStderr } from './folded-lines';
import type { ControlAddress, CourierData, FromRank, StepGrant, ToCourier, ToMain, ToRank } from './messages';
import { LOOK_NAME, MANY_PASSES, SHARED_WORDS } from './shared-words';
import { type Look, type Situation, situationOf } from './situation';

/** A main thread in a collective gets this much time to notice the abort word (in shared memory), even on a busy machine. */
const NOTICE_SECONDS: Seconds = 2;
const LOOK_MS = 20;
/** A main thread that has noticed the abort word gets this much time to end its work with an error. */
const ABORTED_MS = 250;
/** A main thread that has noticed an interrupt but has not ended its work after this time is interrupted again. */
const SETTLE_MS = 150;
/** Calls the main thread's function that says where the thread is. */
const LOOK = `globalThis[Symbol.for('${LOOK_NAME}')]?.()`;
/** A main thread that does not answer within this time is in native code, or waits for the system. */
const LOOK_LIMIT_MS = 250;
/** Prints within this time go into one message, so that a loop of prints does not send one message per print. */
const GATHER_MS = 8;
/** At this size, the gathered prints are sent at once. */
const GATHER_CHARACTERS = 32_768;

/**
 * [Note: the courier] The courier is a rank's second thread. It holds the link to the launcher and the lifeline, and never
 * runs model code, so it also answers while the main thread computes, loops for ever, or waits in a collective.
 */
class Courier {
  readonly #data: CourierData;
  readonly #main: MessagePort;
  readonly #shared: Int32Array;
  readonly #controlBlock: ControlBlock | undefined;
  readonly #link: ReturnType<typeof openCourierLink>;
  readonly #guardian: Guardian;
  /** By group name, the global ranks of each group that the main thread has made. */
  readonly #groups = new Map<string, readonly number[]>();
  /** Number of the work that the main thread got last. */
  #work = 0;
  #isClosing = false;
  /** The situation of a main thread that has not begun its work yet. */
  #beginning: Pick<Situation, 'state' | 'cell' | 'since'> = { state: 'idle', cell: undefined, since: now() };

  constructor(data: CourierData, main: MessagePort) {
    this.#data = data;
    this.#main = main;
    this.#shared = new Int32Array(data.shared);
    this.#controlBlock = data.controlBlock && new ControlBlock(data.controlBlock);
    holdLifeline(data);
    this.#link = openCourierLink(data.rank, data.control, (message) => this.#receive(message));
    main.on('message', (message: ToCourier) => this.#hear(message));
    // `attachGuardian` waits for the main thread, which may still be loading, so this call comes last.
    this.#guardian = attachGuardian(data.unbroken);
    this.#guardian.debug.report((news) => this.#link.send({ type: 'debug', news }));
    this.#tell({ type: 'attached' });
  }

  /** Handles a message of the main thread. */
  #hear(message: ToCourier): void {
    if (message.type === 'close') void this.#close();
    else if (message.type === 'group') this.#groups.set(message.name, message.ranks);
    else this.#link.send(message);
  }

  /** Handles a message of the launcher. */
  #receive(message: ToRank): void {
    switch (message.type) {
      case 'work':
        this.#work = message.id;
        this.#beginning = {
          state: 'running',
          cell: message.work.kind === 'cell' ? message.work.cell : undefined,
          since: now(),
        };
        if (message.work.kind === 'steps') this.#grant(message.work.grant);
        this.#walk(0);
        void this.#begin(message);
        break;
      case 'status':
        void this.#answer(message.id, message.looks);
        break;
      case 'interrupt':
        this.#interrupt(message.delayMs);
        break;
      case 'abort':
        this.#controlBlock?.abort(message.reason);
        break;
      case 'reset':
        this.#controlBlock?.reset(message.epoch);
        break;
      case 'grant':
        this.#grant(message.grant);
        break;
      case 'walk':
        this.#walk(message.passes);
        break;
      case 'debug':
        this.#guardian.debug.follow(message.order);
        break;
      case 'batches':
      case 'noBatches':
        // Only ranks of PyTorch ask for batches.
        break;
      case 'shutdown':
        this.#tell(message);
        break;
      default:
        message satisfies never;
    }
  }

  /** Gives work to the main thread, which a debugger may stop in it. */
  async #begin(message: ToRank & { type: 'work' }): Promise<void> {
    const { work } = message;
    if (work.kind === 'cell' && work.debug !== undefined)
      await this.#guardian.debug.configure(work.debug).catch((failure) => warnOnStderr(String(failure)));
    this.#tell(message);
  }

  #grant({ granted, isFinal }: StepGrant): void {
    // `isFinal` is written last: a rank that reads `isFinal` = 1 must then also read this value of `granted`.
    Atomics.store(this.#shared, SHARED_WORDS.isFinal, 0);
    Atomics.store(this.#shared, SHARED_WORDS.granted, granted);
    Atomics.store(this.#shared, SHARED_WORDS.isFinal, isFinal ? 1 : 0);
    Atomics.notify(this.#shared, SHARED_WORDS.granted);
    Atomics.notify(this.#shared, SHARED_WORDS.isFinal);
  }

  #walk(passes: number): void {
    Atomics.store(this.#shared, SHARED_WORDS.passes, Math.min(passes, MANY_PASSES));
    Atomics.notify(this.#shared, SHARED_WORDS.passes);
  }

  async #answer(id: number, looks: boolean): Promise<void> {
    const { statusBoard, rank } = this.#data;
    const board = situationOf(readStatus(statusBoard), rank, (group) => this.#groups.get(group) ?? []);
    // A main thread that got work and has not begun it is not idle.
    const isBeginning = board.state === 'idle' && this.#runs(this.#work);
    const status: Situation = isBeginning ? { ...board, ...this.#beginning } : board;
    const look = looks && status.state === 'running' && !this.#isClosing ? await this.#look() : undefined;
    const isHalted = Atomics.load(this.#shared, SHARED_WORDS.halted) === 1;
    const { stoppedAt } = this.#guardian.debug;
    this.#link.send({ type: 'status', id, status: { ...status, look, isHalted, stoppedAt } });
  }

  async #look(): Promise<Look | undefined> {
    const answer = await this.#guardian.evaluate(LOOK, LOOK_LIMIT_MS);
    return typeof answer === 'string' ? (JSON.parse(answer) as Look) : undefined;
  }

  /** Begins stage two of [Note: two stages] (supervisor.ts), unless the main thread ends its work within `delayMs`. */
  #interrupt(delayMs: number): void {
    const id = this.#work;
    if (delayMs > 0) setTimeout(() => this.#end(id), delayMs);
    else this.#end(id);
  }

  /** Interrupts work `id`, and interrupts it again if the main thread noticed the interrupt but did not end its work. */
  #end(id: number, requestTime: Seconds = now(), stoodSince?: Seconds): void {
    if (!this.#runs(id)) return;
    this.#guardian.debug.abandon();
    const { collective } = readStatus(this.#data.statusBoard);
    const stands = collective !== undefined && (stoodSince === undefined || stoodSince === collective.since);
    if (stands && now() - requestTime < NOTICE_SECONDS) {
      setTimeout(() => this.#end(id, requestTime, collective.since), LOOK_MS);
      return;
    }
    Atomics.store(this.#shared, SHARED_WORDS.interrupted, id);
    const guardian = this.#guardian;
    const notify = (): void => this.#tell({ type: 'interrupt', id, at: now() });
    const answered = (): boolean => !this.#runs(id) || Atomics.load(this.#shared, SHARED_WORDS.heard) === id;
    // The abort word ends a blocking collective by an error; the code that handles this error gets time to end.
    const isWaiting = collective !== undefined || stoodSince !== undefined;
    interruptInStages({ notify, answered, guardian, ...(isWaiting && { graceMs: ABORTED_MS }) });
    setTimeout(
      () => {
        if (this.#runs(id)) interruptInStages({ notify, answered: () => !this.#runs(id), guardian });
      },
      SETTLE_MS + (isWaiting ? ABORTED_MS : 0),
    );
  }

  #runs(id: number): boolean {
    return id === this.#work && id !== Atomics.load(this.#shared, SHARED_WORDS.ended);
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    // If the guardian stayed open, Node would print on stderr that it waits for a debugger.
    this.#guardian.close();
    await this.#link.close();
    Atomics.store(this.#shared, SHARED_WORDS.closed, 1);
    Atomics.notify(this.#shared, SHARED_WORDS.closed);
  }

  #tell(message: ToMain): void {
    this.#main.postMessage(message);
  }
}

/** When the launcher's end of the pipe closes, ends this rank and the processes that this rank started. */
function holdLifeline({ folder, lifelineFd }: CourierData): void {
  const end = (): void => {
    // The launcher can no longer clean up, so the first rank that gets here removes the folder.
    rmSync(folder, { recursive: true, force: true });
    process.kill(-process.pid, 'SIGKILL');
  };
  new Socket({ fd: lifelineFd, readable: true, writable: false }).on('end', end).on('error', end).resume();
}

/** Connects to the launcher, sends a greeting, and gives every message of the launcher to `receive`. */
function openCourierLink(rank: number, address: ControlAddress, receive: (message: ToRank) => void) {
  const dealer = new Dealer({ sendHighWaterMark: 0, receiveHighWaterMark: 0, linger: 500 });
  dealer.connect(address.endpoint);
  const sender = createSender('courier', dealer, warnOnStderr);
  sender.send(JSON.stringify({ rank, token: address.token }));
  // Only the launcher writes to the job's own link. The loop ends when the socket is closed.
  const hear = ([frame]: readonly Buffer[]): void => {
    if (frame !== undefined) receive(deserialize(frame) as ToRank);
  };
  void receiveAll('courier', dealer, hear, warnOnStderr);
  const post = (message: FromRank): void => sender.send(serialize(message));
  /** Number of the work that printed the gathered text. */
  let id = 0;
  const streams = createStreamBuffer(
    (name, text) => post({ type: 'output', id, output: { kind: 'stream', name, text } }),
    { windowMs: GATHER_MS, maxLength: GATHER_CHARACTERS },
  );
  return {
    send(message: FromRank): void {
      if (message.type === 'output' && message.output.kind === 'stream') {
        if (message.id !== id) streams.flush();
        id = message.id;
        streams.write(message.output.name, message.output.text);
        return;
      }
      streams.flush();
      post(message);
    },
    /** Sends the gathered prints and closes. */
    async close(): Promise<void> {
      streams.flush();
      await sender.drained();
      dealer.close();
    },
  };
}

// rank-main passed workerData; nothing else starts this file.
if (parentPort !== null) new Courier(workerData as CourierData, parentPort);
