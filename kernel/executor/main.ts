import '../../src/core/code-cache/use';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import {
  captureConsole,
  clearUnbroken,
  createEvaluator,
  markUnbroken,
  registerDisplay,
  unbroken,
  watchStrayErrors,
  widgets,
  writeExitCall,
} from '../../src/cell';
import { CellRunner } from './cell-runner';
import { trackTimers } from './cell-timers';
import { createMagics } from './magics';
import { OutputChannel } from './output-channel';
import { type CommMessage, type ExecutorSettings, LIFELINE_FD, type ToExecutor } from './protocol';

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
class Comms {
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

/** Runs the notebook's cells on the main thread of the executor process, which the front starts and ends. */
async function main(settings: ExecutorSettings): Promise<void> {
  const channel = new OutputChannel();
  const comms = new Comms((message) => channel.comm(message));
  const timers = trackTimers(channel);
  const prompt: CellRunner['prompt'] = (message, options) => runner.prompt(message, options);
  const __magic = createMagics(settings.baseDir, () => channel.current);
  const evaluator = createEvaluator({ ...settings, globals: { comms, prompt, __magic } });
  const runner = new CellRunner(evaluator, channel, timers);
  captureConsole(channel.write);
  registerDisplay(channel.sink);
  widgets.registerComms({
    open: (...place) => comms.open(...place),
    register: (...target) => comms.register(...target),
    call: (work, heard) => runner.call(work, heard),
    connected: () => channel.cells.offer(),
  });
  watchStrayErrors((stray) => runner.reportStray(stray));
  process.on('exit', endAll);
  await startGuardian(() => {
    evaluator.repair();
    void runner.interrupt();
  });
  process.on('message', (message: ToExecutor) => {
    evaluator.repair();
    if (message.type === 'run') void runner.run(message);
    else if (message.type === 'ranks') void runner.runInRanks(message);
    else if (message.type === 'debug') runner.passToRanks(message);
    else if (message.type === 'input') runner.answer(message.value);
    else comms.receive(message);
  });
  channel.send({ type: 'ready' });
}

/** Starts the guardian thread; `interrupted` is called on the main thread when the user interrupts. */
async function startGuardian(interrupted: () => void): Promise<void> {
  const heard = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(join(__dirname, 'guardian-thread.js'), {
    workerData: { heard, unbroken: markUnbroken() },
  });
  await once(worker, 'message');
  worker.on('message', (request: number) => {
    // The guardian repeats a request until the main thread has noticed it; this request was noticed before.
    if (request <= Atomics.load(heard, 0)) return;
    clearUnbroken();
    unbroken(interrupted);
    Atomics.store(heard, 0, request);
  });
}

/**
 * Runs when a cell calls process.exit(code): reports this call to the front. Then kills the process and its child processes,
 * because an open inspector would keep Node alive.
 */
function endAll(code: number): void {
  writeExitCall(LIFELINE_FD, code);
  process.kill(-process.pid, 'SIGKILL');
}

// The front passes the settings as the only argument.
void main(JSON.parse(process.argv[2] ?? '{}') as ExecutorSettings);
