import { captureConsole } from '../../src/cell/console-capture';
import { registerDisplay } from '../../src/cell/display';
import { createEvaluator } from '../../src/cell/evaluator';
import { writeExitCall } from '../../src/cell/exit-call';
import { watchStrayErrors } from '../../src/cell/stray-errors';
import { CellRunner } from './cell-runner';
import { trackTimers } from './cell-timers';
import { Comms } from './comms';
import { startGuardian } from './interrupts';
import { OutputChannel } from './output-channel';
import { Person } from './person';
import { type ExecutorSettings, LIFELINE_FD, type ToExecutor } from './protocol';

/** The executor process: runs the notebook's cells on its main thread. The front starts it and ends it. */
async function main(settings: ExecutorSettings): Promise<void> {
  const channel = new OutputChannel();
  const person = new Person(channel);
  const comms = new Comms((message) => channel.comm(message));
  const timers = trackTimers(channel);
  const evaluator = createEvaluator({
    ...settings,
    globals: {
      comms,
      prompt: (message?: string, options?: { readonly password?: boolean }) =>
        person.prompt(message, options),
    },
  });
  const runner = new CellRunner({
    evaluator,
    channel,
    timers,
    person,
    rankCells: async () => new (await import('./rank-cells.js')).RankCells(channel.sink),
  });
  captureConsole(channel.write);
  registerDisplay(channel.sink);
  watchStrayErrors((stray) => runner.reportStray(stray));
  process.on('exit', endAll);
  await startGuardian(() => void runner.interrupt());
  process.on('message', (message) => handle(message as ToExecutor, runner, person, comms));
  channel.ready();
}

/**
 * If a cell ends the process, this ends all of it, because an open inspector would keep Node alive. It first reports
 * the reason to the front.
 */
function endAll(code: number): void {
  writeExitCall(LIFELINE_FD, code);
  process.kill(-process.pid, 'SIGKILL');
}

function handle(message: ToExecutor, runner: CellRunner, person: Person, comms: Comms): void {
  switch (message.type) {
    case 'run':
      void runner.run(message);
      return;
    case 'ranks':
      void runner.runInRanks(message);
      return;
    case 'input':
      person.answer(message.value);
      return;
    case 'comm':
      comms.receive(message);
      return;
    default:
      message satisfies never;
  }
}

// The front writes its settings there.
void main(JSON.parse(process.argv[2] ?? '{}') as ExecutorSettings);
