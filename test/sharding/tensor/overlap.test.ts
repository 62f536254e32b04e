import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CollectiveEvent, SILENT } from '../../../src/core/events';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { fullyShard } from '../../../src/sharding/fsdp/fully-shard';
import { applyActivationCheckpointing } from '../../../src/sharding/recompute/apply-activation-checkpointing';
import { parallelizeTensors } from '../../../src/sharding/tensor/parallelize-tensors';
import { layersOf } from '../../../src/sharding/wrap-policy';
import { joinMetaWorld } from '../../../src/wire/dist/meta-world';
import { type ModelCase, modelOf, sizesOf } from './tensor-models';

const GPT: ModelCase = { kind: 'gpt', layers: 2, dim: 24, heads: 6, vocab: 64, seq: 12 };
const LLAMA: ModelCase = { kind: 'llama', layers: 2, dim: 32, heads: 8, kvHeads: 4, vocab: 64, seq: 12 };
/** Seconds of each matmul, and of each collective. */
const [MATMUL, COLLECTIVE] = [1, 0.75];

interface Case {
  readonly model: ModelCase;
  readonly sequenceParallel?: boolean;
  readonly recompute?: 'full';
  readonly isSharded?: boolean;
}

/** What backward did on the simulated clock. */
interface Found {
  readonly collectives: readonly CollectiveEvent[];
  /** When the gradients of weights began. */
  readonly weights: readonly number[];
}

function backwardOf({ model: kind, sequenceParallel, recompute, isSharded }: Case): Found {
  const weights: number[] = [];
  const collectives: CollectiveEvent[] = [];
  let clock = { now: () => 0 };
  const costs = ({ name, attrs }: { name: string; attrs: Readonly<Record<string, unknown>> }): number => {
    if (name !== 'BatchMatMul') return 0;
    if (attrs.transposeA === true) weights.push(clock.now());
    return MATMUL;
  };
  withMetaEngine({ costs }, (engine) => {
    ({ clock } = engine);
    const observer = { ...SILENT, collective: (event: CollectiveEvent) => void collectives.push(event) };
    const group = joinMetaWorld({ rank: 0, world: 2, engine, observer, costs: () => COLLECTIVE });
    const model = modelOf(kind);
    parallelizeTensors(model, { group, warn: () => undefined }, { sequenceParallel });
    const alone = { engine, observer, group: joinMetaWorld({ rank: 0, world: 1, engine, observer }) };
    if (recompute !== undefined) applyActivationCheckpointing(alone, model, recompute, false);
    if (isSharded === true) for (const module of [...layersOf(model), model]) fullyShard(module, alone);
    const { seq } = sizesOf(kind);
    const ids = tf.zeros([2, seq], 'int32');
    const pass = gradients(engine, () => model.apply(ids, tf.reshape(ids, [-1])) as tf.Tensor);
    collectives.length = 0;
    pass.backward();
  });
  return { collectives: collectives.filter(({ cause }) => cause === 'activation'), weights };
}

const CASES: Readonly<Record<string, Case>> = {
  gpt: { model: GPT },
  'gpt, sequence parallel': { model: GPT, sequenceParallel: true },
  'gpt in units, recomputed': { model: GPT, isSharded: true, recompute: 'full' },
  llama: { model: LLAMA },
};

for (const [name, run] of Object.entries(CASES)) {
  test(`${name}: each collective of an input's gradient runs while gradients of weights are computed`, () => {
    const { collectives, weights } = backwardOf(run);
    const posted = collectives.filter((event) => event.async);
    // Of attention and of the feed-forward network of each layer, and of the head.
    assert.equal(posted.length, 2 * 2 + 1);
    const op = run.sequenceParallel === true ? 'reduceScatter' : 'allReduce';
    for (const { op: made, module, started, ended, exposed } of posted) {
      assert.equal(made, op, module);
      assert.equal(exposed, 0, `${module}: the main thread waited`);
      assert.ok(
        weights.some((at) => at >= started && at < ended),
        `${module}: no gradient of a weight began between ${started} and ${ended}`,
      );
    }
    const gradientSums = collectives.filter((event) => !event.async && event.op === op);
    const ofInputs = gradientSums.filter(({ count }) => count >= 2 * 12 * 24);
    if (run.recompute === undefined) assert.deepEqual(ofInputs, []);
  });
}
