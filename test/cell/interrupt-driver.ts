import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { createEvaluator } from '../../src/cell/evaluator';

/** What one interrupt did, as the driver prints it, one JSON line a form. */
export interface InterruptOutcome {
  readonly form: string;
  readonly ename: string | undefined;
  /** From the request to the settled cell. */
  readonly milliseconds: number;
  /** A variable of an earlier cell, added to by the next one. */
  readonly kept: unknown;
}

/** Ways in which a cell can keep the main thread, or itself, busy. */
export const FORMS: Readonly<Record<string, string>> = {
  'a busy loop': 'while (true) {}',
  'a busy loop after an await': 'await 1; while (true) {}',
  'a wait': 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'a wait after an await': 'await 1; Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'a pending promise': 'await new Promise(() => {})',
  'a loop in a timer': 'setTimeout(() => { while (true) {} }, 1); await new Promise(() => {})',
  'a loop in a callback of the file system':
    "require('node:fs').readFile('/dev/null', () => { while (true) {} }); await new Promise(() => {})",
};

// node:test tracks asynchronous contexts, which a termination upsets; so this runs in a process of its own.
async function main(): Promise<void> {
  const evaluator = createEvaluator({ baseDir: __dirname });
  const worker = new Worker(join(__dirname, 'guardian-worker.js'));
  await once(worker, 'message');
  const answers = new Int32Array(new SharedArrayBuffer(4));
  worker.postMessage({ answers });
  worker.on('message', (request: number) => {
    Atomics.store(answers, 0, request);
    evaluator.interrupt();
  });
  const waitBefore = 60;
  for (const [form, code] of Object.entries(FORMS)) {
    await evaluator.evaluate('let kept = 41', { name: 'In[1]' });
    const started = performance.now();
    worker.postMessage({ after: waitBefore });
    const result = await evaluator.evaluate(code, { name: 'In[2]' });
    const milliseconds = performance.now() - started - waitBefore;
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
