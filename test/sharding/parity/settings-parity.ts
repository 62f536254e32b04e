import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { TrainConfigInput } from '../../../src/config/train-config';
import { casesOf, type Extent } from '../contract-cases';
import { requireSameGradients, requireSameStates } from './parity-checks';
import type { ParityRun } from './parity-rank';
import { EPS, finishRuns, referenceConfig, temporaryFolder } from './parity-runs';

/** Each defect of defects.slow shows within two steps. */
const STEPS = 2;

const folder = temporaryFolder();
after(() => folder.remove());

/** Compares the settings of the contract in a world with one process. */
export function testSettings(world: number, extent: Extent): void {
  test(`${world} ranks equal one process under every setting of the contract`, async (t) => {
    const runs = [...casesOf(world, extent)].flatMap(([name, input]) =>
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

/** Low precision has its own bounds, ignored modules have their own values. */
function hasOtherValues({ mixedPrecision, parallel }: TrainConfigInput): boolean {
  return (mixedPrecision ?? null) !== null || (parallel?.ignoredModules ?? []).length > 0;
}

export function runOf(world: number, name: string, input: TrainConfigInput): ParityRun {
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
  const adapters = lora === null ? '' : lora.useDora === true ? ', magnitudes' : ', adapters';
  return `single, ${accumulation} microbatches, frozen ${frozen.join(' ')}${adapters}`;
}

export function singleOf(world: number, config: TrainConfigInput): ParityRun {
  const { accumulation = 1, batch = 0, model, frozen = [], lora = null } = config;
  const more = { model, frozen, lora, batch: batch * world * accumulation, steps: STEPS };
  const single = referenceConfig(EPS.smooth, { ...more, parallel: { strategy: 'NO_SHARD' } });
  return {
    ...runOf(world, singleName(config), single),
    config: single,
    concatenated: { ranks: world, micros: accumulation },
  };
}
