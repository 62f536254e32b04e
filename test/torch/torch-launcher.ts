import { launch } from '../../src/session/run/launch';
import { GPT } from './torch-fixture';

/** A launcher of ranks of PyTorch that the test kills: tells its ranks' pids when they do what the argument says. */
async function main(): Promise<void> {
  const job = await launch({ engine: 'torch', ranks: 2 });
  const tell = (): void => {
    process.send?.(job.ranks.map(({ pid }) => pid));
  };
  const occupation = process.argv[2] ?? '';
  if (occupation !== 'train') {
    const source = `print("running", flush=True)\n${occupation}`;
    await job.runPython({ source, cell: 1, selection: 'all' }, tell);
    return;
  }
  const run = await job.train({ model: GPT, parallel: { strategy: 'FULL_SHARD' } });
  await run.step(1);
  const steps = run.step(100_000);
  tell();
  await steps;
}

void main();
