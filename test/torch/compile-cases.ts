import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrainConfigInput } from '../../src/config/train-config';
import { GPT, largestDifference, launchTorch } from './torch-fixture';

const BASE = { model: GPT, batch: 2, optimizer: { lr: 3e-3 }, seed: 5 } as const;
/** Compiled code adds in another order. */
const BOUND = 1e-5;
/** The first two steps of a run track memory, and run the blocks' own code. */
const STEPS = 6;

const CASES: Readonly<Record<string, TrainConfigInput>> = {
  DDP: { ...BASE, parallel: { strategy: 'NO_SHARD' } },
  'FSDP2 with recompute': { ...BASE, parallel: { strategy: 'FULL_SHARD' }, activationCheckpointing: 'full' },
};

/** Declares a test that blocks which a backend of torch.compile has compiled train as before. */
export function compareCompiled(compile: true | string): void {
  test(`a run with compile: ${compile} has the losses of the same run without it`, async (context) => {
    const job = await launchTorch(context, { ranks: 2 });
    const numGraphs = "int(torch._dynamo.utils.counters['stats']['unique_graphs'])";
    const graphs = async (): Promise<number> => Number((await job.on(0).python(numGraphs))[0]);
    for (const [name, config] of Object.entries(CASES)) {
      const [plain, compiled] = [await job.train(config), await job.train(config, { compile })];
      await plain.step(STEPS);
      // Models of one class would share compiled code.
      await job.on('all').python('torch._dynamo.reset()');
      const before = await graphs();
      await compiled.step(STEPS);
      const said: unknown[] = [];
      await job.runPython({ source: 'rank', cell: 1, selection: 'all' }, (event) => said.push(event.kind));
      assert.deepEqual(said, ['result', 'result'], 'there is no note about torch.compile');
      assert.equal(await graphs(), before + 1, `${name}: the blocks share one compiled function`);
      assert.ok(
        largestDifference(compiled.losses, plain.losses) <= BOUND,
        `${name}: ${compiled.losses}; ${plain.losses}`,
      );
      const causes = [compiled, plain].map((run) =>
        run.records.newest()[0]?.collectives.map(({ cause }) => cause),
      );
      assert.deepEqual(causes[0], causes[1]);
      for (const run of [plain, compiled]) await run.dispose();
    }
  });
}
