import assert from 'node:assert/strict';
import type { TrainConfigInput } from '../../src/config/train-config';
import { COMBINATIONS, type Combination, type CombinationName } from './combinations/combinations';
import { observeReplicas } from './replicas-rank';

/** Every element is on one rank only. */
const SHARDED = ['FULL_SHARD', 'SHARD_GRAD_OP', 'ZERO_1', 'ZERO_2'];

/** Trains each combination for two steps; all replicas must be equal, and a changed bit must be found. */
export async function checkReplicas(world: number, names: readonly CombinationName[]): Promise<void> {
  const combinations: readonly Combination[] = names.map((name) => COMBINATIONS[name]);
  const configs = combinations.map(({ config }): TrainConfigInput => ({ data: 'synthetic', ...config }));
  const [results = []] = await observeReplicas(world, configs);
  for (const [i, name] of names.entries()) {
    const { numReplicated, differing, changed, afterChange } = results[i] ?? assert.fail(name);
    assert.deepEqual(differing, [], name);
    const { strategy = '' } = combinations[i]?.config.parallel ?? {};
    if (!SHARDED.includes(strategy)) assert.ok(numReplicated > 0, `${name}: nothing is compared`);
    assert.deepEqual(
      afterChange.map((one) => one.name),
      changed === null ? [] : [changed],
      name,
    );
  }
}

/** The names of the combinations for a number of ranks. */
export function namesFor(world: number): CombinationName[] {
  const names = Object.keys(COMBINATIONS) as CombinationName[]; // the keys are the names
  return names.filter((name) => COMBINATIONS[name].world === world);
}
