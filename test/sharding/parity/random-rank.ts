import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { seeded } from '../../../src/core/random';
import * as tf from '../../../src/core/tf';
import { readState } from '../../../src/nn/state-values';
import type { Task } from '../../../src/training/task';
import { createTrainer } from '../../../src/training/trainer';
import { onRanks } from '../../support/on-ranks';
import type { RankArgs, TestRank } from '../../support/rank-process';
import { randomModel } from './random-models';
import { randomSettings } from './random-settings';

/** A random model and settings, from a seed. */
export interface RandomRun {
  readonly seed: number;
  /** The number of ranks of the settings; one process then computes the batches of all. */
  readonly world: number;
  readonly alone: boolean;
}

/** A range of a parameter or of an optimizer state on one rank. */
export interface Part {
  /** Field and parameter. */
  readonly name: string;
  readonly start: number;
  readonly values: readonly number[];
}

/** Results of one rank. */
export interface RandomResult {
  readonly losses: readonly number[];
  readonly gradNorms: readonly number[];
  readonly parts: readonly Part[];
  /** Bytes that the engine still holds after everything was disposed. */
  readonly left: number;
}

/** Each defect of defects.slow shows within two steps. */
export const STEPS = 2;
const BATCH = 2;

/** Trains random models on ranks. */
export const trainRandom = onRanks(__filename, train);

function train(rank: TestRank<RankArgs>, run: RandomRun): RandomResult {
  const { engine } = rank;
  const before = engine.memory.bytes;
  const settings = randomSettings(run.seed, run.world);
  const config = parseTrainConfig(run.alone ? plain(settings) : settings);
  const numMicros = settings.accumulation ?? 1;
  const task = taskOf(run, numMicros);
  const trainer = createTrainer({ ...rank, config, task });
  const results = Array.from({ length: STEPS }, () => trainer.step());
  const parts = trainer.model.states().flatMap((state) =>
    state.slices.flatMap(({ parameter, offset, length, start }): Part[] => {
      const fields = {
        values: readState(engine, state, 'values', offset, length),
        ...Object.fromEntries(
          trainer.optimizer.stateNames.map((name) => [
            name,
            trainer.optimizer.readState(state, name, offset, length),
          ]),
        ),
      };
      return Object.entries(fields).map(([field, values]) => {
        return { name: `${field} of ${parameter.name}`, start, values: [...values] };
      });
    }),
  );
  trainer.dispose();
  return {
    losses: results.map(({ loss }) => loss),
    gradNorms: results.map(({ gradNorm }) => gradNorm),
    parts,
    left: engine.memory.bytes - before,
  };
}

/** The settings that do not concern placement. */
function plain({ optimizer, clipNorm, frozen }: TrainConfigInput): TrainConfigInput {
  return { parallel: { strategy: 'NO_SHARD' }, optimizer, clipNorm, frozen };
}

function taskOf({ seed, world, alone }: RandomRun, numMicros: number): Task {
  const { model, width } = randomModel(seed);
  const values = (what: string, rank: number, micro: number): tf.Tensor => {
    const random = seeded(seed, what, rank, micro);
    const numbers = Float32Array.from({ length: BATCH * width }, () => random.normal());
    return tf.tensor(numbers, [BATCH, width]);
  };
  const together = (what: string, step: number): tf.Tensor => {
    const parts = Array.from({ length: world * numMicros }, (_, i) => {
      return values(what, i % world, step * numMicros + Math.floor(i / world));
    });
    return tf.tidy(() => tf.concat(parts));
  };
  return {
    model,
    batch: (rank, index) => ({
      tensors: tf.tidy(() =>
        ['x', 'target'].map((what) => (alone ? together(what, index) : values(what, rank, index))),
      ),
      count: BATCH,
    }),
    lossOf: ({ tensors }) => model.apply(...tensors),
  };
}
