import { createHash } from 'node:crypto';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { buildModel } from '../../../src/nn/models/build-model';
import { readState } from '../../../src/nn/state-values';
import { parallelize } from '../../../src/sharding/parallelize';
import { applyActivationCheckpointing } from '../../../src/sharding/recompute/apply-activation-checkpointing';
import { checkpointed } from '../../../src/sharding/recompute/checkpointed';
import { layersOf } from '../../../src/sharding/wrap-policy';
import { targetsOf, tokenInputsOf } from '../../../src/training/data/batch';
import { createBatches } from '../../../src/training/data/batches';
import { onRanks } from '../../support/on-ranks';
import type { RankArgs, TestRank } from '../../support/rank-process';

/** One model's passes. */
export interface RecomputeRun {
  readonly config: TrainConfigInput;
  /** Checkpoints these modules after they became units, so that second forwards gather: '' is the model. */
  readonly around?: readonly string[];
}

/** Results of one rank. */
export interface RecomputeResult {
  /** Of losses and gradients, to the last bit. */
  readonly digest: string;
  readonly losses: readonly number[];
  /** Modules of spans 'recompute' of the last pass, in order. */
  readonly recomputed: readonly string[];
  /** Collectives of the last pass: cause, module and operation, in order. */
  readonly collectives: readonly string[];
  /** Bytes of activations on the device and the host when the last forward had ended. */
  readonly activationBytes: number;
  readonly hostActivationBytes: number;
  /** Bytes that were held after everything was disposed, less those before. */
  readonly leakedBytes: number;
  readonly layers: readonly string[] | null;
}

/** Microbatches: the first ones are not reduced if the strategy says so. */
const PASSES = 3;

/** Runs passes whose activations are computed again, on ranks. */
export const runRecomputed = onRanks(__filename, runPasses);

function runPasses(rank: TestRank<RankArgs>, run: RecomputeRun): RecomputeResult {
  const { engine, tally, group } = rank;
  const before = engine.memory.bytes + engine.host.bytes;
  const config = parseTrainConfig(run.config);
  const model = buildModel(config);
  const { activationCheckpointing, offload } = config;
  const applied = applyActivationCheckpointing(rank, model, activationCheckpointing, offload.activations);
  const parallel = parallelize(model, config, rank);
  for (const module of [...layersOf(model), model])
    if (run.around?.includes(module.path)) checkpointed(rank, module);
  const hash = createHash('sha256');
  const losses: number[] = [];
  let held = { activationBytes: 0, hostActivationBytes: 0 };
  const batches = createBatches(config, { world: group.size });
  for (let i = 0; i < PASSES; i++) {
    tally.restart();
    const pass = (): void => {
      const tokens = batches.batch(group.rank, i);
      const { ids, targets } = engine.tagged({ cause: 'batch', module: '' }, () => ({
        ids: tf.tensor(tokenInputsOf(tokens), [tokens.batch, tokens.seq], 'int32'),
        targets: tf.tensor(targetsOf(tokens), [tokens.batch * tokens.seq], 'int32'),
      }));
      const { loss, backward } = gradients(engine, () => model.apply(ids, targets));
      held = {
        activationBytes: tally.bytes('activation'),
        hostActivationBytes: tally.hostBytes('activation'),
      };
      losses.push(loss.dataSync()[0] ?? Number.NaN);
      backward();
      tf.dispose([ids, targets, loss]);
    };
    if (i < PASSES - 1) parallel.accumulate(pass);
    else pass();
  }
  hash.update(Float64Array.from(losses));
  for (const state of model.states()) hash.update(readState(engine, state, 'grad'));
  const { spans, collectives } = tally;
  const layers = applied.layers;
  model.zeroGrad();
  parallel.dispose();
  return {
    digest: hash.digest('hex'),
    losses,
    recomputed: spans.filter(({ name }) => name === 'recompute').map(({ module }) => module),
    collectives: collectives.map(({ cause, module, op }) => `${op} ${cause} ${module}`),
    ...held,
    leakedBytes: engine.memory.bytes + engine.host.bytes - before,
    layers,
  };
}
