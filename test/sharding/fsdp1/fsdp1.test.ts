import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { gradients } from '../../../src/engine/autograd/unit';
import type { Engine } from '../../../src/engine/backend/engine';
import { Block } from '../../../src/nn/block';
import { gpt, moe } from '../../../src/nn/models/gpt';
import { readState } from '../../../src/nn/state-values';
import { unitsOf } from '../../../src/sharding/fsdp/units-of';
import {
  BackwardPrefetch,
  CPUOffload,
  CPUOffloadPolicy,
  MixedPrecision,
  MixedPrecisionPolicy,
  ShardingStrategy,
  ShardStrategy,
} from '../../../src/sharding/fsdp1/arguments';
import { fromFairScale } from '../../../src/sharding/fsdp1/fair-scale';
import { type FsdpOptions, fullyShardOptions } from '../../../src/sharding/fsdp1/fsdp-options';
import {
  type FsdpContext,
  FullyShardedDataParallel,
  fsdp,
  fsdpModules,
} from '../../../src/sharding/fsdp1/fully-sharded-data-parallel';
import { sizeBasedAutoWrapPolicy, transformerAutoWrapPolicy } from '../../../src/sharding/wrap-policy';
import { soloGroup } from '../../support/solo-group';
import { TallyObserver } from '../../support/tally-observer';
import { testEngine } from '../../support/wasm-test-engine';

const SHAPE = { layers: 2, dim: 8, heads: 2, vocab: 16, seq: 4 };
const policy = transformerAutoWrapPolicy({ transformerLayerCls: [Block] });

let engine: Engine;
let warnings: string[] = [];
let context: FsdpContext;
beforeEach(async () => {
  engine = await testEngine();
  warnings = [];
  const warn = (message: string): void => void warnings.push(message);
  context = { engine, observer: new TallyObserver(), group: soloGroup(engine), warn };
});

const tokens = (): [tf.Tensor, tf.Tensor] => [
  tf.tensor2d([[1, 2, 3, 4]], [1, 4], 'int32'),
  tf.tensor1d([2, 3, 4, 5], 'int32'),
];
const refused = (options: object, said: RegExp): void => {
  const model = gpt(SHAPE);
  assert.throws(() => fsdp(model, context, options), { code: 'CONFIG', message: said });
  model.dispose();
};

test("FSDP wraps in place with the articles' arguments, and gives access to the module's fields", () => {
  const model = fsdp(gpt(SHAPE), context, {
    autoWrapPolicy: policy,
    shardingStrategy: ShardingStrategy.FULL_SHARD,
    backwardPrefetch: BackwardPrefetch.BACKWARD_PRE,
    mixedPrecision: MixedPrecision({ paramDtype: 'bf16', reduceDtype: 'fp32', bufferDtype: 'bf16' }),
    forwardPrefetch: true,
    limitAllGathers: true,
    syncModuleStates: true,
    cpuOffload: CPUOffload({ offloadParams: false }),
  });
  assert.ok(model instanceof FullyShardedDataParallel);
  assert.deepEqual(
    fsdpModules(model).map(({ path }) => path),
    ['', 'blocks.0', 'blocks.1'],
  );
  assert.deepEqual(
    fsdpModules(model, { rootOnly: true }).map(({ path }) => path),
    [''],
  );
  assert.equal(model.blocks.length, 2);
  assert.equal(model.wte, model.module.wte);
  assert.deepEqual(
    [...model.namedParameters().keys()],
    [...model.module.namedParameters().keys()],
    'names are those of the module',
  );
  assert.deepEqual(warnings, []);
});

test('arguments without effect give warnings', () => {
  fsdp(gpt(SHAPE), context, { deviceId: 0, useOrigParams: true, paramInitFn: () => undefined });
  assert.equal(warnings.length, 3);
  assert.match(warnings[0] ?? '', /^FSDP: deviceId has no effect: every rank has one engine/);
  assert.match(warnings[1] ?? '', /useOrigParams/);
  fsdp(gpt(SHAPE), context, { shardingStrategy: 'HYBRID_SHARD' });
  assert.match(warnings[3] ?? '', /HYBRID_SHARD without a deviceMesh of two axes/);
  CPUOffloadPolicy(context.warn, { pinMemory: true });
  assert.match(warnings[4] ?? '', /pinMemory has no effect/);
});

test('the error of an unknown FSDP argument shows the right form', () => {
  refused({ mixedPrecision: true }, /mixedPrecision is true .*MixedPrecision\(\{ paramDtype/);
  refused(
    { checkpointWrapper: () => undefined },
    /no argument checkpointWrapper; .*checkpointWrapper\(block\)/,
  );
  refused(
    { checkpoint_wrapper: true } as object,
    /no argument checkpoint_wrapper; .*checkpointWrapper\(block\)/,
  );
  refused({ ignoreUnusedParameters: true }, /no argument ignoreUnusedParameters; .*counts as zeros/);
  refused({ cpuOffload: true }, /CPUOffload\(\{ offloadParams: true \}\)/);
  refused({ auto_wrap_policy: policy }, /auto_wrap_policy is written autoWrapPolicy here/);
  refused({ shardingStratgy: 'FULL_SHARD' }, /no argument shardingStratgy; did you mean shardingStrategy\?/);
  refused({ shardingStrategy: 'FULL' }, /shardingStrategy is "FULL"/);
  refused({ shardingStrategy: 'full_shard' }, /did you mean 'FULL_SHARD'/);
  refused({ backwardPrefetch: 'PRE' }, /backwardPrefetch is "PRE"/);
  refused(
    { autoWrapPolicy: transformerAutoWrapPolicy },
    /transformerAutoWrapPolicy is given as a policy without its options/,
  );
  refused({ autoWrapPolicy: sizeBasedAutoWrapPolicy }, /minNumParams: 1e8/);
  refused({ reshard_after_forward: true }, /FairScale's; here it is shardingStrategy/);
  refused({ flattenParameters: true }, /FairScale's; here it has no effect/);
  assert.throws(() => MixedPrecision({ paramDtype: 'int8' as never }), /paramDtype: "int8"/);
  assert.throws(
    () => MixedPrecision({ param_dtype: 'bf16' } as never),
    /param_dtype is written paramDtype here/,
  );
});

test('names that do not exist throw and are not undefined', () => {
  // Typed as never: code that uses them compiles, and at run time the error gives the right form.
  assert.throws(
    () => ShardStrategy.FULL_SHARD,
    /ShardStrategy\.FULL_SHARD does not exist; PyTorch calls it ShardingStrategy/,
  );
  assert.throws(
    () => Reflect.get(ShardingStrategy, 'FULLSHARD'),
    /did you mean ShardingStrategy\.FULL_SHARD\?/,
  );
  assert.throws(() => Reflect.get(BackwardPrefetch, 'NONE'), /there are BACKWARD_PRE, BACKWARD_POST/);
  assert.equal(Object.keys(ShardingStrategy).length, 5);
});

test("FairScale's arguments become FSDP's, and those without effect are named", () => {
  const options: FsdpOptions = fromFairScale(
    {
      reshard_after_forward: false,
      mixed_precision: true,
      fp32_reduce_scatter: true,
      cpu_offload: true,
      flatten_parameters: true,
      bucket_cap_mb: 25,
    },
    context.warn,
  );
  assert.equal(options.shardingStrategy, 'SHARD_GRAD_OP');
  assert.deepEqual(options.cpuOffload, { offloadParams: true });
  assert.deepEqual(options.mixedPrecision, MixedPrecisionPolicy({ paramDtype: 'fp16', reduceDtype: 'fp32' }));
  assert.deepEqual(
    warnings.map((text) => text.split(/[ ;]/)[2]),
    ['flatten_parameters', 'bucket_cap_mb'],
  );
  assert.throws(
    () => fromFairScale({ reshard: true } as never, context.warn),
    /fromFairScale.* has no argument reshard/,
  );
});

test('the first call names a wrapper that was made but not put into the model', () => {
  const model = moe({ ...SHAPE, experts: 2 });
  for (const block of model.blocks) {
    // As in the article: the loop's variable is bound to the wrapper, and the model still has the bare module.
    for (let expert of block.moe.experts)
      expert = fsdp(expert, context, { shardingStrategy: 'SHARD_GRAD_OP' });
  }
  const root = fsdp(model, context);
  const run = (): void => {
    const [ids, targets] = tokens();
    tf.tidy(() => void root.apply(ids, targets));
    tf.dispose([ids, targets]);
  };
  run();
  run();
  assert.equal(warnings.length, 4, 'once each');
  assert.match(
    warnings.find((text) => text.includes('"blocks.1.moe.experts.0"')) ?? '',
    /not put into the model.*the module gathers them itself.*write model\.blocks\.at\(1\)\?\.moe\.experts\.set\(0, FSDP\(…\)\)/,
  );
});

test('a wrapper that replaces its module is called without a warning', () => {
  const model = moe({ ...SHAPE, experts: 2 });
  for (const block of model.blocks) {
    [...block.moe.experts].forEach((expert, i) => {
      block.moe.experts.set(i, fsdp(expert, context, { shardingStrategy: 'SHARD_GRAD_OP' }));
    });
  }
  const root = fsdp(model, context);
  const [ids, targets] = tokens();
  tf.tidy(() => void root.apply(ids, targets));
  assert.deepEqual(warnings, []);
  assert.equal(model.blocks.at(1)?.moe.experts.at(0)?.path, 'blocks.1.moe.experts.0');
  assert.equal(unitsOf(model).length, 5);
  const [first] = unitsOf(model).filter(({ module }) => module.includes('experts'));
  assert.equal(first?.placement.strategy, 'SHARD_GRAD_OP');
  tf.tidy(() => void model.apply(ids, targets));
  assert.match(warnings[0] ?? '', /calls the unwrapped model/);
  tf.dispose([ids, targets]);
});

test('clipGradNorm scales the gradients in place and returns the norm before', () => {
  const model = fsdp(gpt(SHAPE), context, { autoWrapPolicy: policy });
  const [ids, targets] = tokens();
  const pass = gradients(engine, () => model.apply(ids, targets));
  pass.backward();
  const norm = (): number =>
    Math.hypot(...model.states().flatMap((state) => [...readState(engine, state, 'grad')]));
  const before = norm();
  assert.ok(Math.abs(model.clipGradNorm(before / 2) / before - 1) < 1e-5);
  assert.ok(Math.abs(norm() / before - 0.5) < 1e-5);
  tf.dispose([ids, targets, pass.loss]);
});

test('fullyShard accepts every argument of its type, and its error for another names the nearest', () => {
  assert.equal(fullyShardOptions({ sparseGradients: true }).sparseGradients, true);
  const wrong = { sparseGradient: true } as object;
  assert.throws(() => fullyShardOptions(wrong), /no argument sparseGradient; did you mean sparseGradients\?/);
});
