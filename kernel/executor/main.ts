import '../../src/core/code-cache/use';
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
  writeExitCall,
} from '../../src/cell';
import { CellRunner } from './cell-runner';
import { trackTimers } from './cell-timers';
import { Comms } from './comms';
import { OutputChannel } from './output-channel';
import { type ExecutorSettings, LIFELINE_FD, type ToExecutor } from './protocol';

/** Runs the notebook's cells on the main thread of the executor process, which the front starts and ends. */
async function main(settings: ExecutorSettings): Promise<void> {
  const channel = new OutputChannel();
  const comms = new Comms((message) => channel.comm(message));
  const timers = trackTimers(channel);
  const prompt: CellRunner['prompt'] = (message, options) => runner.prompt(message, options);
  const evaluator = createEvaluator({ ...settings, globals: { comms, prompt } });
  const runner = new CellRunner(evaluator, channel, timers);
  captureConsole(channel.write);
  registerDisplay(channel.sink);
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
