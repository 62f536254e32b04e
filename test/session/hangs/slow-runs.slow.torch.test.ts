import { join } from 'node:path';
import { test } from 'node:test';
import type { Job } from '../../../src/session/run/job';
import { GPT, launchTorch } from '../../torch/torch-fixture';
import { temporaryFolder } from '../job-fixture';
import { checkQuiet, SLOW_SECONDS } from './slow-runs';

/** Slow work of rank 1, for which rank 0 waits: until `end`, the rank runs `body` again and again. */
const whileOthersWait = (body: string): string => `import time
end = time.monotonic() + ${SLOW_SECONDS}
kept = []
while rank == 1 and time.monotonic() < end:
    ${body}
dist.barrier()`;

/** Each cell compiles another function, so that the compiler finds nothing in its cache. */
const compiling = (number: number): string => `def f(x):
    for i in range(12):
        x = torch.relu(x * (i + ${number}.25)) + torch.softmax(x, -1) @ torch.ones(8, 8)
    return x
torch._dynamo.reset()
if rank == 1:
    torch.compile(f)(torch.ones(8, 8, requires_grad=True)).sum().backward()
dist.barrier()`;

const cellOf = (job: Job, source: () => string) => async (): Promise<void> => {
  await job.runPython({ source: source(), cell: 7, selection: 'all' }, () => undefined);
};

test('prepared data, native code, compilers, steps and checkpoints of PyTorch give no note', async (context) => {
  const job = await launchTorch(context, { ranks: 2 });
  const { path } = temporaryFolder(context);
  const run = await job.train({ model: GPT, batch: 4, parallel: { strategy: 'FULL_SHARD' } });
  const compiled = await job.train({ model: GPT, batch: 4 }, { compile: true });
  const pipeline = await job.train({ model: GPT, batch: 4, parallel: { pp: 2, microbatches: 4 } });
  let numRuns = 0;
  await checkQuiet(
    context,
    {
      'the first step of a compiled run': () => compiled.step(2),
      'a compiler on one rank': cellOf(job, () => compiling(numRuns++)),
      'a rank that computes': cellOf(job, () => whileOthersWait('torch.ones(64, 64) @ torch.ones(64, 64)')),
      'a rank that makes rows of text': cellOf(job, () =>
        whileOthersWait("kept = [f'{i}.5'.split('.') for i in range(100_000)]"),
      ),
      'a rank in one long operation': cellOf(job, () =>
        whileOthersWait('torch.linalg.svd(torch.rand(900, 900))'),
      ),
      'a rank in native code that is no operation': cellOf(job, () =>
        whileOthersWait('import zlib; zlib.compress(bytes(300_000_000), 9)'),
      ),
      'a rank whose child process computes': cellOf(
        job,
        () => `import subprocess, sys
if rank == 1:
    subprocess.run([sys.executable, '-c', 'import time; end = time.time() + ${SLOW_SECONDS}\\nwhile time.time() < end: pass'])
dist.barrier()`,
      ),
      'steps and checkpoints': () =>
        run.step(20, { saveSteps: 10, outputDir: join(path, `run-${numRuns++}`) }),
      'steps of a pipeline': () => pipeline.step(20),
    },
    2,
  );
});
