import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { casesOf } from '../contract-cases';
import { RELATIVE_BOUND } from './compare-states';
import { requireSameGradients, requireSameStates } from './parity-checks';
import type { ParityRun } from './parity-rank';
import { EPS, finishRuns, referenceConfig, temporaryFolder } from './parity-runs';
import { partsOf } from './state-dump';

/** Each defect of defects.slow shows within two steps. */
const STEPS = 2;

const folder = temporaryFolder();
after(() => folder.remove());

for (const world of [1, 2, 3, 4]) {
  test(`${world} ranks equal one process under every setting of the contract`, async (t) => {
    const runs = [...casesOf(world)].flatMap(([name, input]) =>
      hasOtherValues(input) ? [] : [runOf(world, name, input)],
    );
    const singles = new Map(runs.map((run) => [singleName(run.config), singleOf(world, run.config)]));
    const alone = await finishRuns(1, 'auto', [...singles.values()]);
    for (const finished of await finishRuns(world, 'auto', runs)) {
      await t.test(finished.run.name, (sub) => {
        const single = alone.find(
          ({ run }) => run.name === singles.get(singleName(finished.run.config))?.name,
        );
        assert.ok(single);
        requireSameGradients(finished, single, sub);
        requireSameStates(finished, single, 'smooth', sub);
      });
    }
  });
}

test("ignored modules have each rank's own gradients, whose mean is the whole batch's", async () => {
  const [input] = [...casesOf(2)]
    .filter(([name]) => name === 'an ignored module')
    .map(([, config]) => config);
  assert.ok(input);
  const run = { ...runOf(2, 'ignored', input) };
  const [single] = await finishRuns(1, 'auto', [singleOf(2, run.config)]);
  await finishRuns(2, 'auto', [run]);
  const gradOf = (at: ParityRun, rank: number): Float32Array =>
    partsOf(at.folder, rank, 0).find(({ slice }) => slice.parameter === 'ln_f.weight')?.fields.grad ??
    new Float32Array();
  assert.ok(single);
  const whole = gradOf(single.run, 0);
  const [first, second] = [gradOf(run, 0), gradOf(run, 1)];
  assert.ok(whole.length > 0);
  assert.notDeepEqual(first, second);
  const size = Math.hypot(...whole);
  const difference = Math.hypot(...whole.map((value, i) => value - ((first[i] ?? 0) + (second[i] ?? 0)) / 2));
  assert.ok(difference <= RELATIVE_BOUND * size, `${difference} of ${size}`);
});

/** Low precision has its own bounds, ignored modules have their own values. */
function hasOtherValues({ mixedPrecision, parallel }: TrainConfigInput): boolean {
  return (mixedPrecision ?? null) !== null || (parallel?.ignoredModules ?? []).length > 0;
}

function runOf(world: number, name: string, input: TrainConfigInput): ParityRun {
  const config = referenceConfig(EPS.smooth, { ...input, steps: STEPS });
  return {
    name,
    config,
    folder: join(folder.path, `${world}-${name.replaceAll(/\W+/g, '-')}`),
    seeded: true,
  };
}

/** Runs with the same training are compared with one process. */
function singleName({ accumulation = 1, frozen = [], lora = null }: TrainConfigInput): string {
  return `single, ${accumulation} microbatches, frozen ${frozen.join(' ')}${lora === null ? '' : ', adapters'}`;
}

function singleOf(world: number, config: TrainConfigInput): ParityRun {
  const { accumulation = 1, batch = 0, model, frozen = [], lora = null } = config;
  const more = { model, frozen, lora, batch: batch * world * accumulation, steps: STEPS };
  const single = referenceConfig(EPS.smooth, { ...more, parallel: { strategy: 'NO_SHARD' } });
  return {
    ...runOf(world, singleName(config), single),
    config: single,
    concatenated: { ranks: world, micros: accumulation },
  };
}
