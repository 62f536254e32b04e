import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { createEvaluator } from '../../src/cell/evaluator';
import { markUnbroken, unbroken } from '../../src/cell/unbroken';
import type { InterruptOutcome } from './interrupt-outcomes';

/** Ways in which a cell can keep the main thread, or itself, busy; begin() reports that it now does. */
export const FORMS: Readonly<Record<string, string>> = {
  'a busy loop': 'begin(); while (true) {}',
  'a busy loop after an await': 'await 1; begin(); while (true) {}',
  'a wait': 'begin(); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'a wait after an await': 'await 1; begin(); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'a pending promise': 'begin(); await new Promise(() => {})',
  'a loop in a timer': 'setTimeout(() => { begin(); while (true) {} }, 1); await new Promise(() => {})',
  'a loop in a callback of the file system':
    "require('node:fs').readFile('/dev/null', () => { begin(); while (true) {} }); await new Promise(() => {})",
};

/** A cell that waits while the library does unbroken work, which takes much longer than a termination. */
export const UNBROKEN = 'unbroken work, which ends before the cell does';
const UNBROKEN_CODE = `const ranMs = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e3; };
const work = () => { begin(); for (const from = ranMs(); ranMs() < from + 200; ); kept++; };
setTimeout(() => unbroken(work), 1); await new Promise(() => {})`;

/** Time between the start of a cell and the request of its interrupt. */
const WAIT_BEFORE_MS = 60;

// node:test tracks asynchronous contexts, which a termination breaks; so this runs in its own process.
async function main(): Promise<void> {
  const worker = new Worker(join(__dirname, 'guardian-worker.js'), {
    workerData: { unbroken: markUnbroken() },
  });
  let begun = 0;
  const begin = (): void => {
    begun = performance.now();
    worker.postMessage({ after: WAIT_BEFORE_MS });
  };
  const evaluator = createEvaluator({ baseDir: __dirname, globals: { begin, unbroken } });
  await once(worker, 'message');
  const answers = new Int32Array(new SharedArrayBuffer(4));
  worker.postMessage({ answers });
  worker.on('message', (request: number) => {
    if (request <= Atomics.load(answers, 0)) return;
    evaluator.interrupt();
    Atomics.store(answers, 0, request);
  });
  for (const [form, code] of Object.entries({ ...FORMS, [UNBROKEN]: UNBROKEN_CODE })) {
    await evaluator.evaluate('let kept = 41', { name: 'In[1]' });
    const result = await evaluator.evaluate(code, { name: 'In[2]' });
    const milliseconds = performance.now() - begun - WAIT_BEFORE_MS;
    await delay(10);
    const next = await evaluator.evaluate('await new Promise((r) => setTimeout(r, 5)); ++kept', {
      name: 'In[3]',
    });
    const outcome: InterruptOutcome = {
      form,
      ename: result.ok ? undefined : result.error.ename,
      milliseconds,
      kept: next.ok ? next.value : next.error.evalue,
    };
    process.stdout.write(`${JSON.stringify(outcome)}\n`);
  }
  process.kill(process.pid, 'SIGKILL');
}

if (require.main === module) void main();
