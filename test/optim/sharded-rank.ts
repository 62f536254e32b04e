import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { readState } from '../../src/nn/state-values';
import { createTrainer, type Trainer } from '../../src/train/trainer';
import { type RankArgs, runAsRank, type TestRank } from '../support/rank-process';

/** A config and its twin, trained beside each other and compared element by element on every rank. */
export interface Pair {
  readonly config: TrainConfigInput;
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
  readonly pairs: readonly Pair[];
  readonly steps: number;
}

void runAsRank<ShardedArgs>((rank) => rank.args.pairs.map((pair) => compare(rank, pair)));

function compare(rank: TestRank<ShardedArgs>, { config, twin }: Pair): Apart {
  const trainers = [config, twin].map((input) => createTrainer({ ...rank, config: parseTrainConfig(input) }));
  const [one, other] = trainers as [Trainer, Trainer];
  const results = Array.from({ length: rank.args.steps }, () => [one.step(), other.step()] as const);
  const states = one.optimizer.stateNames;
  const apart = {
    losses: results.map(([{ loss }]) => loss),
    twinLosses: results.map(([, { loss }]) => loss),
    gradNorms: results.map(([{ gradNorm }]) => gradNorm),
    twinGradNorms: results.map(([, { gradNorm }]) => gradNorm),
    values: distance(rank, one, other, 'values'),
    states: Object.fromEntries(states.map((name) => [name, distance(rank, one, other, name)])),
  };
  for (const trainer of trainers) trainer.dispose();
  return apart;
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
