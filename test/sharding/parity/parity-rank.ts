import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { modelShape } from '../../../src/config/settings/model';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import { loadState } from '../../../src/nn/load-state';
import { readState } from '../../../src/nn/state-values';
import { type NaiveTraining, naiveTrain } from '../../../src/sharding/naive/train';
import { type BatchSource, targetsOf, tokenInputsOf } from '../../../src/training/data/batch';
import { syntheticBatches } from '../../../src/training/data/batches';
import { createTrainer, type Trainer } from '../../../src/training/trainer';
import { onRanks } from '../../support/on-ranks';
import { testData } from '../../support/paths';
import type { RankArgs, TestRank } from '../../support/rank-process';
import { readSafetensors } from '../../support/safetensors';
import { type CombinationDefect, damaged } from '../combinations/combination-defects';
import { type NaiveName, naively } from '../naive';
import { type Mutation, mutated } from './mutated-group';
import { type DumpManifest, readStep } from './state-dump';

/** One training run of the parity suite. */
export interface ParityRun {
  readonly name: string;
  readonly config: TrainConfigInput;
  /** The folder into which every rank writes its state after every step. */
  readonly folder: string;
  /** Ranks and microbatches per step whose batches this process computes together; default only its own. */
  readonly concatenated?: { readonly ranks: number; readonly micros: number };
  readonly mutation?: Mutation;
  readonly defect?: CombinationDefect;
  /** Trains by a naive form in place of the config's strategy. */
  readonly naive?: NaiveName | undefined;
  /** Trains the trainer's model by the naive loop in place of the trainer's own steps. */
  readonly byNaiveLoop?: boolean | undefined;
  /** Before each step takes the parameters of another run's ranks at that step, so that gradients are of the same parameters. */
  readonly follow?: { readonly folder: string; readonly world: number };
  /** Initial weights from the config's seed instead of torch's recorded ones. */
  readonly seeded?: boolean;
}

/** The report of one rank on one run. */
export interface ParityResult {
  readonly losses: readonly number[];
  readonly gradNorms: readonly number[];
}

/** Trains on ranks, which write their states after each step. */
export const trainParity = onRanks(__filename, train);

function train(rank: TestRank<RankArgs>, run: ParityRun): ParityResult {
  const config = parseTrainConfig(run.config);
  const { concatenated, mutation } = run;
  const trainer = createTrainer({
    ...rank,
    config,
    parallelize: naively(run.naive),
    group: mutation === undefined ? rank.group : mutated(rank.group, rank.engine, mutation),
    initialState: run.seeded
      ? undefined
      : readSafetensors(testData('torch_reference', 'gpt_tiny_init.safetensors')),
    ...(concatenated === undefined ? {} : { batches: concatenatedBatches(concatenated, run) }),
    ...(run.defect === undefined ? {} : damaged(rank, config, run.defect)),
  });
  mkdirSync(run.folder, { recursive: true });
  writeManifest(trainer, run, rank.group.rank);
  const losses: number[] = [];
  const gradNorms: number[] = [];
  const loop = naiveTrain(naiveTraining(rank, trainer, config), rank);
  for (let step = 0; step < config.steps; step++) {
    if (run.follow !== undefined && step > 0) takeParameters(rank.engine, trainer, run.follow, step - 1);
    const { loss, gradNorm } = run.byNaiveLoop === true ? loop.next().value : trainer.step();
    losses.push(loss);
    gradNorms.push(gradNorm);
    writeStates(rank.engine, trainer, join(run.folder, `step${step}.rank${rank.group.rank}.bin`));
  }
  trainer.dispose();
  return { losses, gradNorms };
}

/** The training of a language model on synthetic batches by the naive loop. */
function naiveTraining({ group }: TestRank<RankArgs>, trainer: Trainer, config: TrainConfig): NaiveTraining {
  const { model, optimizer } = trainer;
  const { batch, accumulation, clipNorm } = config;
  const shape = modelShape(config);
  if (!('vocab' in shape)) throw new Error('parity runs train language models');
  const { seq, vocab } = shape;
  const source = syntheticBatches({ batch, seq, vocab });
  return {
    model,
    optimizer,
    accumulation,
    clipNorm,
    batch(index) {
      const tokens = source.batch(group.rank, index);
      return {
        ids: tf.tensor(tokenInputsOf(tokens), [batch, seq], 'int32'),
        targets: tf.tensor(targetsOf(tokens), [batch * seq], 'int32'),
      };
    },
  };
}

/** The batches of several ranks and microbatches as one, on which a single process trains for comparison. */
function concatenatedBatches(
  of: { readonly ranks: number; readonly micros: number },
  run: ParityRun,
): BatchSource {
  const { batch = 0 } = run.config;
  const shape = modelShape(parseTrainConfig(run.config));
  if (!('vocab' in shape)) throw new Error('parity runs train language models');
  const { seq, vocab } = shape;
  const source = syntheticBatches({ batch: batch / (of.ranks * of.micros), seq, vocab });
  return {
    name: 'concatenated',
    batch(_rank, step) {
      const parts = Array.from({ length: of.ranks * of.micros }, (_, i) => {
        return source.batch(i % of.ranks, step * of.micros + Math.floor(i / of.ranks));
      });
      return { batch, seq, tokens: Int32Array.from(parts.flatMap(({ tokens }) => [...tokens])) };
    },
  };
}

function takeParameters(
  engine: Engine,
  trainer: Trainer,
  { folder, world }: NonNullable<ParityRun['follow']>,
  step: number,
): void {
  const states = readStep(folder, world, step);
  const values = [...trainer.model.namedParameters()].map(([name, { shape }]) => {
    return [name, { shape, values: states.get(name)?.values ?? new Float32Array() }] as const;
  });
  loadState(engine, trainer.model, new Map(values));
}

function writeManifest(trainer: Trainer, run: ParityRun, rank: number): void {
  const manifest: DumpManifest = trainer.model.states().map((buffer) => ({
    size: buffer.size,
    slices: buffer.slices.map(({ parameter, offset, length, start }) => {
      const { name, shape, size, split } = parameter;
      const cut = split && { dim: split.dim, ranges: split.ranges, wholeShape: split.wholeShape };
      return { parameter: name, shape, size, split: cut, offset, length, start };
    }),
  }));
  writeFileSync(join(run.folder, `manifest.rank${rank}.json`), JSON.stringify(manifest));
}

/** Values, gradient and moments of every buffer, one after another. */
function writeStates(engine: Engine, trainer: Trainer, file: string): void {
  const parts = trainer.model.states().flatMap((buffer) => {
    const moments = ['exp_avg', 'exp_avg_sq'].map((name) => trainer.optimizer.readState(buffer, name));
    return [readState(engine, buffer), readState(engine, buffer, 'grad'), ...moments].map((values) =>
      Buffer.from(values.buffer, values.byteOffset, values.byteLength),
    );
  });
  writeFileSync(file, Buffer.concat(parts));
}
