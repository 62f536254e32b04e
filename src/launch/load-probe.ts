import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { now, type Seconds } from '../core';

const SPIN = `
  const { parentPort } = require('node:worker_threads');
  parentPort.on('message', (milliseconds) => {
    const end = performance.now() + milliseconds;
    while (performance.now() < end);
    parentPort.postMessage(null);
  });
`;

const SETTLE_MILLISECONDS = 30;

/** Measures how many threads of other programs want a core. */
export type LoadProbe = ReturnType<typeof openLoadProbe>;

/** Starts one spinning thread per core; the threads sleep between probes. */
export function openLoadProbe() {
  const cores = availableParallelism();
  const workers = Array.from({ length: cores }, () => new Worker(SPIN, { eval: true }));
  return {
    cores,
    /**
     * Returns the mean number of other programs' threads that want a core. Waits until threads of ended work sleep, then spins on
     * every core for `seconds`, and measures the time that the operating system gives to other programs.
     */
    async others(seconds: Seconds = 0.15): Promise<number> {
      await setTimeout(SETTLE_MILLISECONDS);
      const [before, started] = [process.cpuUsage(), now()];
      await Promise.all(
        workers.map((worker) => {
          const answer = once(worker, 'message');
          worker.postMessage(seconds * 1e3);
          return answer;
        }),
      );
      const wall = now() - started;
      const { user, system } = process.cpuUsage(before);
      const share = (user + system) / 1e6 / (wall * cores);
      return Math.max(0, cores / share - cores);
    },
    async close(): Promise<void> {
      await Promise.all(workers.map((worker) => worker.terminate()));
    },
  };
}
