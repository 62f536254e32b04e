import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { SILENT } from '../../src/core/events';
import * as tf from '../../src/core/tf';
import { Parameter } from '../../src/nn/parameter';
import { readState } from '../../src/nn/state-values';
import { GradScaler } from '../../src/sharding/optim/grad-scaler';
import { reductionError } from '../../src/sharding/precision/reduction-error';
import { sparseAllToAll } from '../../src/sharding/sparse/sparse-all-to-all';
import { createTrainer } from '../../src/training/trainer';
import type { RankContext } from '../wire/dist/scenario';

const MODEL = {
  kind: 'moe',
  layers: 1,
  dim: 16,
  heads: 2,
  vocab: 128,
  seq: 8,
  tied: false,
  experts: 6,
} as const;

function train({ engine, group }: RankContext, input: TrainConfigInput): unknown {
  const config = parseTrainConfig({ model: MODEL, data: 'synthetic', batch: 1, ...input });
  const trainer = createTrainer({ engine, group, observer: SILENT, config });
  const losses = [0, 1, 2].map(() => trainer.step().loss);
  const values = trainer.model.states().map((state) => [...readState(engine, state)]);
  trainer.dispose();
  return { losses, values };
}

export const bf16Units = (context: RankContext): unknown => train(context, { mixedPrecision: 'bf16' });
export const fp16Replicas = (context: RankContext): unknown =>
  train(context, { mixedPrecision: 'fp16', parallel: { strategy: 'NO_SHARD' } });
export const sparseUnits = (context: RankContext): unknown =>
  train(context, { parallel: { sparseGradients: true, communicationDataType: 'bf16' } });
export const sparseReplicas = (context: RankContext): unknown =>
  train(context, { parallel: { strategy: 'NO_SHARD', sparseGradients: true } });

export function routedRows({ engine, group }: RankContext): unknown {
  const rows = tf.tensor2d(
    Array.from({ length: 12 }, (_, i) => 100 * group.rank + i),
    [6, 2],
  );
  const routed = sparseAllToAll(engine, group, rows, [0, 1, 0, 0, 1, group.rank]);
  const returned = routed.back(routed.rows);
  const result = { rows: [...routed.rows.dataSync()], returned: [...returned.dataSync()] };
  tf.dispose([rows, routed.rows, returned]);
  return result;
}

export const errorsOfReductions = ({ engine, group }: RankContext): unknown =>
  reductionError(engine, group, { sizes: [1000], scales: [1, 1e-6] });

/** Only rank 1's gradient overflows. */
export function overflowOnOneRank({ engine, group }: RankContext): unknown {
  const scaler = new GradScaler(engine, group, { growthInterval: 1 });
  const parameter = new Parameter(tf.zeros([3]));
  const steps = [0, 1].map((step) => {
    parameter.grad = tf.tensor1d([65536, 2, step === 0 && group.rank === 1 ? Number.POSITIVE_INFINITY : 3]);
    let numUpdates = 0;
    scaler.unscaleAndCheck([parameter.state]);
    const stepped = scaler.step({ step: () => void numUpdates++ });
    scaler.update();
    const grads = [...parameter.grad.dataSync()];
    parameter.state.zeroGrad();
    return { stepped, numUpdates, scale: scaler.scale, grads: step === 0 ? [] : grads };
  });
  parameter.tensor.dispose();
  return steps;
}
