import { appendFileSync, existsSync } from 'node:fs';
import { parseTrainConfig } from '../../../src/config/train-config';
import { writeState } from '../../../src/nn/state-values';
import { loadCheckpoint } from '../../../src/training/checkpoint/load/load-checkpoint';
import { Checkpointer } from '../../../src/training/checkpoint/save/checkpointer';
import type { TrainingState } from '../../../src/training/checkpoint/state/training-state';
import { createTrainer } from '../../../src/training/trainer';
import { type RankArgs, runAsRank } from '../../support/rank-process';
import { tinyConfig } from './runs';

export interface KillArgs extends RankArgs {
  readonly folder: string;
  /** Receives a line from rank 0 at the start and at the end of each save. */
  readonly log: string;
  readonly first: number;
}

/** More saves than any kill allows. */
const MOST_SAVES = 10_000;

/** Loads the checkpoint and then saves state after state until it is killed. State n has n in all values, n + 1/4 and n + 1/2 in the moments. */
runAsRank<KillArgs>(async (rank) => {
  const { folder, log, first } = rank.args;
  const config = parseTrainConfig(tinyConfig('FULL_SHARD'));
  const { model, optimizer } = createTrainer({ ...rank, config });
  const state: TrainingState = { ...rank, model, optimizer };
  const say = (text: string): void => {
    if (rank.group.rank === 0) appendFileSync(log, `${text}\n`);
  };
  const checkpointer = new Checkpointer({ warn: () => undefined, blockElements: 64 });
  if (first > 1) say(`loaded ${JSON.stringify(loadCheckpoint(state, folder).state?.trainer)}`);
  else if (existsSync(folder)) throw new Error('there is a checkpoint before the first save');
  for (let n = first; n < first + MOST_SAVES; n++) {
    for (const buffer of model.states()) {
      const filled = (value: number): Float32Array => new Float32Array(buffer.size).fill(value);
      writeState(rank.engine, buffer, 0, filled(n));
      optimizer.writeState(buffer, 'exp_avg', 0, filled(n + 0.25));
      optimizer.writeState(buffer, 'exp_avg_sq', 0, filled(n + 0.5));
    }
    say(`begun ${n}`);
    await checkpointer.save(state, folder, {
      trainer: n,
      type: n % 2 === 0 ? 'FULL_STATE_DICT' : 'SHARDED_STATE_DICT',
    });
    say(`saved ${n}`);
  }
});
