import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { readState } from '../../../src/nn/state-values';
import type { StepResult } from '../../../src/training/step-result';
import { createTrainer, type Trainer } from '../../../src/training/trainer';
import { type RankArgs, runAsRank, type TestRank } from '../../support/rank-process';

/** Configs and their twin, trained beside each other and compared element by element on every rank. */
export interface Twins {
  readonly configs: readonly TrainConfigInput[];
  readonly twin: TrainConfigInput;
}

/** The differences of a config and its twin on one rank. */
export interface Apart {
  /** By step. */
  readonly losses: readonly number[];
  readonly twinLosses: readonly number[];
  readonly gradNorms: readonly number[];
  readonly twinGradNorms: readonly number[];
  /** ‖a − b‖ / ‖b‖ over the parameters that the rank holds, and over each state of the optimizer. */
  readonly values: number;
  readonly states: Readonly<Record<string, number>>;
}

interface ShardedArgs extends RankArgs {
  readonly twins: readonly Twins[];
  readonly steps: number;
}

runAsRank<ShardedArgs>((rank) => rank.args.twins.flatMap((twins) => compare(rank, twins)));

/** Returns the differences of each config. */
function compare(rank: TestRank<ShardedArgs>, { configs, twin }: Twins): Apart[] {
  const [other, ...ones] = [twin, ...configs].map((input) => {
    const trainer = createTrainer({ ...rank, config: parseTrainConfig(input) });
    return { trainer, results: [] as StepResult[] };
  }) as [Training, ...Training[]];
  for (let step = 0; step < rank.args.steps; step++)
    for (const { trainer, results } of [...ones, other]) results.push(trainer.step());
  const apart = ones.map(({ trainer, results }) => ({
    losses: results.map(({ loss }) => loss),
    twinLosses: other.results.map(({ loss }) => loss),
    gradNorms: results.map(({ gradNorm }) => gradNorm),
    twinGradNorms: other.results.map(({ gradNorm }) => gradNorm),
    values: distance(rank, trainer, other.trainer, 'values'),
    states: Object.fromEntries(
      trainer.optimizer.stateNames.map((name) => [name, distance(rank, trainer, other.trainer, name)]),
    ),
  }));
  for (const { trainer } of [...ones, other]) trainer.dispose();
  return apart;
}

interface Training {
  readonly trainer: Trainer;
  readonly results: StepResult[];
}

/** The relative distance over the elements that this rank holds of the first; the second holds whole parameters. */
function distance({ engine }: TestRank<ShardedArgs>, one: Trainer, other: Trainer, what: string): number {
  const read = (trainer: Trainer, buffer: Parameters<typeof readState>[1], offset: number, length: number) =>
    what === 'values'
      ? readState(engine, buffer, 'values', offset, length)
      : trainer.optimizer.readState(buffer, what, offset, length);
  const whole = new Map(other.model.parameters().map((parameter) => [parameter.name, parameter.state]));
  let [difference, size] = [0, 0];
  for (const buffer of one.model.states()) {
    for (const { parameter, offset, length, start } of buffer.slices) {
      const state = whole.get(parameter.name);
      if (state === undefined) throw new Error(`${parameter.name} is missing`);
      const a = read(one, buffer, offset, length);
      const b = read(other, state, start, length);
      a.forEach((value, i) => {
        difference += (value - (b[i] ?? 0)) ** 2;
        size += (b[i] ?? 0) ** 2;
      });
    }
  }
  return difference === 0 ? 0 : Math.sqrt(difference / size);
}
