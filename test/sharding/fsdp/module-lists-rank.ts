import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { readState, writeState } from '../../../src/nn/state-values';
import { fullyShard } from '../../../src/sharding/fsdp/fully-shard';
import { unitsOf } from '../../../src/sharding/fsdp/units-of';
import { type RankArgs, runAsRank } from '../../support/rank-process';
import { Chain } from '../chain-model';

/** How the last modules of the chain become units. */
export interface ListArgs extends RankArgs {
  readonly inList: boolean;
}

/** What a rank sees in three steps. */
export interface ListResult {
  readonly losses: readonly number[];
  /** All whole parameters after the steps. */
  readonly parameters: readonly (readonly number[])[];
  /** The collectives of one step: operation and module. */
  readonly collectives: readonly string[];
}

runAsRank<ListArgs>(({ engine, group, tally, observer, args }): ListResult => {
  const context = { engine, observer, group };
  const model = new Chain();
  const [first, ...others] = model.layers;
  const last = [...others, model.last];
  if (first !== undefined) fullyShard(first, context);
  if (args.inList) fullyShard(last, context);
  else for (const module of last) fullyShard(module, context);
  fullyShard(model, context);
  const x = tf.tensor([[0.1 * (group.rank + 1), -0.2, 0.3]]);
  const losses = [1, 2, 3].map(() => {
    tally.collectives = [];
    model.zeroGrad();
    const pass = gradients(engine, () => model.apply(x));
    pass.backward();
    for (const { trained } of unitsOf(model)) {
      const grad = readState(engine, trained, 'grad');
      const values = readState(engine, trained).map((value, i) => value - 0.1 * (grad[i] ?? 0));
      writeState(engine, trained, 0, values);
      trained.updated();
    }
    const [loss = Number.NaN] = pass.loss.dataSync();
    pass.loss.dispose();
    return loss;
  });
  const collectives = tally.collectives.map(({ op, module }) => `${op} ${module}`);
  for (const unit of unitsOf(model)) unit.waitForUnshard();
  const parameters = model.parameters().map(({ tensor }) => Array.from(tensor.dataSync()));
  x.dispose();
  for (const unit of unitsOf(model)) unit.dispose();
  return { losses, parameters, collectives };
});
