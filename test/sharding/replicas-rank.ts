import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { readState, writeState } from '../../src/nn/state-values';
import { type DifferingReplica, differingReplicas, replicaSums } from '../../src/sharding/replica-sums';
import { exchange } from '../../src/training/checkpoint/state/agreement';
import { createTrainer } from '../../src/training/trainer';
import { onRanks } from '../support/on-ranks';
import type { RankArgs, TestRank } from '../support/rank-process';

/** What the checksums of all ranks say after two steps of a config. */
export interface ReplicasResult {
  /** Number of parts of parameters, and of those on several ranks. */
  readonly numParts: number;
  readonly numReplicated: number;
  readonly differing: readonly DifferingReplica[];
  /** The replicated part of which the last rank that holds it then changed one element by one bit. */
  readonly changed: string | null;
  readonly afterChange: readonly DifferingReplica[];
}

/** Trains on ranks, and compares the checksums of their replicas. */
export const observeReplicas = onRanks(__filename, observe);

function observe({ engine, group, observer }: TestRank<RankArgs>, input: TrainConfigInput): ReplicasResult {
  const trainer = createTrainer({ engine, group, observer, config: parseTrainConfig(input) });
  for (let i = 0; i < 2; i++) trainer.step();
  const trained = trainer.model.parameters().filter(({ requiresGrad }) => requiresGrad);
  const all = () => exchange({ engine, group }, 'sums', replicaSums(engine, trained));
  const sums = all();
  const holders = new Map<string, number[]>();
  sums.forEach((own, rank) => {
    for (const { name, part } of own)
      holders.set(`${name} ${part}`, [...(holders.get(`${name} ${part}`) ?? []), rank]);
  });
  const replicated = [...holders].filter(([, ranks]) => ranks.length > 1);
  const [key, ranks] = replicated[0] ?? [];
  const before = differingReplicas(new Map(sums.entries()));
  if (key !== undefined && ranks?.at(-1) === group.rank) {
    const parameter = trained.find(({ name }) => key.startsWith(`${name} `));
    const slice = parameter?.state.slices.find((one) => one.parameter === parameter);
    if (parameter !== undefined && slice !== undefined) {
      const values = readState(engine, parameter.state, 'values', slice.offset, slice.length);
      const bits = new Int32Array(values.buffer);
      bits[bits.length - 1] = (bits.at(-1) ?? 0) ^ 1;
      writeState(engine, parameter.state, slice.offset, values);
    }
  }
  const afterChange = differingReplicas(new Map(all().entries()));
  trainer.dispose();
  const changed = key?.split(' ')[0] ?? null;
  return {
    numParts: holders.size,
    numReplicated: replicated.length,
    differing: before,
    changed,
    afterChange,
  };
}
