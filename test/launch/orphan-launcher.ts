import { launch } from '../../src/session/run/launch';

/** A launcher that the test kills: prints its ranks' pids and starts the argument's code on them. */
async function main(): Promise<void> {
  const job = await launch({ ranks: 2, blas: 'none' });
  const tell = (): void => {
    process.send?.(job.ranks.map(({ pid }) => pid));
  };
  const js = process.argv[2] ?? '';
  if (js === 'train') {
    const run = await job.train({ steps: 1 });
    const steps = run.step(100_000);
    tell();
    await steps;
    return;
  }
  if (js === '') return tell();
  await job.runCell({ js: `console.log("running"); ${js}`, cell: 1, selection: 'all' }, tell);
}

void main();
