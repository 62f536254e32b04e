import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as tf from '../../../src/core/tf';
import { warnOnce } from '../../../src/core/warn';
import { withMetaEngine } from '../../../src/engine/backend/meta-engine';
import { Sequential } from '../../../src/nn/containers';
import { Embedding } from '../../../src/nn/embedding';
import { MultiheadAttention } from '../../../src/nn/layers/multihead-attention';
import { Linear } from '../../../src/nn/linear';
import { gpt } from '../../../src/nn/models/gpt';
import { llama } from '../../../src/nn/models/llama';
import { Module } from '../../../src/nn/module';
import { requireSameParts } from '../../../src/sharding/same-parts';
import { ColumnParallelLinear } from '../../../src/sharding/tensor/column-parallel-linear';
import {
  groupOfMesh,
  type ParallelPlan,
  parallelizeModule,
} from '../../../src/sharding/tensor/parallelize-module';
import { parallelizeTensors, type TensorOptions } from '../../../src/sharding/tensor/parallelize-tensors';
import { RowParallelLinear } from '../../../src/sharding/tensor/row-parallel-linear';
import {
  ColwiseParallel,
  RowwiseParallel,
  SequenceParallel,
  Shard,
} from '../../../src/sharding/tensor/styles';
import { initDeviceMesh } from '../../../src/wire/dist/device-mesh';
import type { ProcessGroup } from '../../../src/wire/dist/types';
import { standIn } from '../../wire/dist/group-stand-in';

const GPT = { layers: 2, dim: 24, heads: 6, vocab: 61, seq: 8 };

function groupOf(ranks: number, rank = 0): ProcessGroup {
  return standIn(
    Array.from({ length: ranks }, (_, i) => i),
    rank,
  );
}

class Net extends Module {
  readonly embed = new Embedding(10, 8);
  readonly attn = new MultiheadAttention(8, 2);
  readonly up = new Linear(8, 13);
  readonly head = new Linear(8, 10, { bias: false });

  constructor(isTied: boolean) {
    super();
    if (isTied) this.head.weight = this.embed.weight;
  }

  forward(): never {
    throw new Error('this model only has parts');
  }
}

const apply = (plan: ParallelPlan, isTied = false): Net =>
  parallelizeModule(new Net(isTied), plan, { group: groupOf(2), warn: () => undefined });

test('an attention whose heads the ranks do not divide is refused with the reason', () => {
  const context = { group: groupOf(4), warn: () => undefined };
  assert.throws(() => parallelizeTensors(gpt(GPT), context), {
    code: 'CONFIG',
    message:
      /"blocks\.\*\.attention" cannot be cut into 4 parts: it has 6 heads, and a head is never divided/,
  });
  const model = llama({ layers: 1, dim: 24, heads: 12, kvHeads: 3, vocab: 61, seq: 8 });
  assert.throws(() => parallelizeTensors(model, { ...context, group: groupOf(2) }), {
    code: 'CONFIG',
    message: /k_proj" cannot be cut into 2 parts.* are 3 heads.* neither a multiple nor a divisor of 2/,
  });
});

test('a model without a ready plan is refused, and the error shows a plan by names', () => {
  const model = new Sequential(new Linear(4, 4));
  assert.throws(() => parallelizeTensors(model, { group: groupOf(2), warn: () => undefined }), {
    code: 'CONFIG',
    message: /no plan for a Sequential.*parallelizeModule\(model, mesh, \{ 'blocks\.\*\.fc1'/,
  });
});

test('options of parallelizeTensors that would be without effect are refused', () => {
  const context = { group: groupOf(2), warn: () => undefined };
  const cases: readonly [unknown, RegExp][] = [
    [{ sequence_parallel: true }, /sequence_parallel is written sequenceParallel here/],
    [{ sequenceParallel: 'yes' }, /sequenceParallel is "yes", but must be true or false/],
    [true, /takes options by name, not true; the options are sequenceParallel/],
  ];
  for (const [options, message] of cases)
    assert.throws(() => parallelizeTensors(gpt(GPT), context, options as TensorOptions), {
      code: 'CONFIG',
      message,
    });
});

test('a plan that does not fit the modules is refused', () => {
  const cases: readonly [ParallelPlan, RegExp][] = [
    [{ upp: ColwiseParallel() }, /no module of the model is named "upp"; did you mean "up"\?/],
    [{ up: SequenceParallel() }, /SequenceParallel of "up", a Linear: .*nn\.LayerNorm/],
    [{ attn: ColwiseParallel() }, /MultiheadAttention: its forward reads the whole fused weight/],
    [{ up: ColwiseParallel(), '*': RowwiseParallel() }, /names "up" twice, for ColwiseParallel and Rowwise/],
    [{ up: 'colwise' as unknown as ReturnType<typeof ColwiseParallel> }, /give a style, as \{/],
    [
      { up: ColwiseParallel as unknown as ReturnType<typeof ColwiseParallel> },
      /a function for "up"; give a style/,
    ],
  ];
  for (const [plan, message] of cases) assert.throws(() => apply(plan), { code: 'CONFIG', message });
});

test('arguments of styles that fit no module are refused', () => {
  const untyped = Shard as () => ReturnType<typeof Shard>;
  const cases: readonly [() => unknown, RegExp][] = [
    [
      () => ColwiseParallel({ inputLayouts: Shard(0) }),
      /inputLayouts is Shard\(0\), but must be Replicate\(\) or Shard\(1\)/,
    ],
    [() => ColwiseParallel({ inputLayouts: untyped() }), /Shard\(undefined\): give the dim/],
    [() => ColwiseParallel({ heads: 0 }), /heads is 0, but must be a whole number of at least 1/],
    [
      () => new ColumnParallelLinear(8, 8, { group: groupOf(2), parts: 1.5 }),
      /ColumnParallelLinear: parts is 1\.5, but must/,
    ],
  ];
  for (const [call, message] of cases) assert.throws(call, { code: 'CONFIG', message });
});

test('a style instead of a plan is that of the module itself', () => {
  const context = { group: groupOf(2), warn: () => undefined };
  const linear = parallelizeModule(new Linear(4, 4), ColwiseParallel(), context);
  assert.ok(linear instanceof ColumnParallelLinear);
  assert.deepEqual(linear.weight.shape, [2, 4]);
  assert.throws(() => parallelizeModule(new Net(false), ColwiseParallel(), context), {
    code: 'CONFIG',
    message: /ColwiseParallel of the module itself, a Net: ColwiseParallel takes nn\.Linear/,
  });
});

test('an input with all features is refused, and the error names inputIsParallel', () => {
  const layer = new RowParallelLinear(8, 4, { group: groupOf(2) });
  for (const [width, message] of [
    [8, /the input \[3,8\] has all features; give inputIsParallel: false/],
    [5, /the input \[3,5\] must be this rank's part of 8 features, \[…, 4\]/],
  ] as const)
    withMetaEngine({}, () =>
      assert.throws(() => layer.forward(tf.zeros([3, width])), { code: 'SHAPE', message }),
    );
});

test('modules that share a matrix are cut together, and alike', () => {
  const both = apply({ embed: RowwiseParallel(), head: ColwiseParallel() }, true);
  assert.equal(both.head.weight, both.embed.weight);
  assert.deepEqual(both.head.weight.shape, [5, 8]);
  assert.throws(() => apply({ embed: RowwiseParallel() }, true), {
    code: 'CONFIG',
    message: /"head" also reads embed\.weight, of which each rank would have only a part/,
  });
  assert.throws(() => apply({ embed: RowwiseParallel(), head: RowwiseParallel() }, true), {
    code: 'CONFIG',
    message: /share embed\.weight, but the plan cuts it along different dims/,
  });
});

test('sizes that the ranks do not divide are padded with zeros, with one warning per size and dim', () => {
  const warnings: string[] = [];
  const context = { group: groupOf(2), warn: warnOnce((text) => void warnings.push(text)) };
  const [up] = [1, 2].map(() => parallelizeModule(new Net(false), { up: ColwiseParallel() }, context).up);
  assert.ok(up !== undefined);
  assert.deepEqual(up.weight.shape, [7, 8]);
  assert.equal(warnings.length, 1);
  assert.match(
    warnings[0] ?? '',
    /2 ranks do not divide 13 outputs of a matrix, so the outputs are padded to 14/,
  );
});

test('a rank has the values that the whole matrices have at its places', () => {
  const whole = gpt({ ...GPT, seed: 3 });
  const part = gpt({ ...GPT, seed: 3 });
  parallelizeTensors(part, { group: groupOf(3, 1), warn: () => undefined });
  const valuesOf = (model: Module, name: string): Float32Array => {
    const parameter = model.namedParameters().get(name);
    const values = new Float32Array(parameter?.size ?? 0);
    parameter?.source?.fill(0, values);
    return values;
  };
  const rows = (values: Float32Array, begin: number, end: number): number[] => [
    ...values.subarray(begin * 24, end * 24),
  ];
  const qkv = valuesOf(whole, 'blocks.1.qkv.weight');
  // The second third of the queries' heads, then of the keys', then of the values'.
  const heads = [8, 32, 56].flatMap((begin) => rows(qkv, begin, begin + 8));
  assert.deepEqual([...valuesOf(part, 'blocks.1.qkv.weight')], heads);
  const proj = valuesOf(whole, 'blocks.1.proj.weight');
  const columns = Array.from({ length: 24 }, (_, row) => [...proj.subarray(row * 24 + 8, row * 24 + 16)]);
  assert.deepEqual([...valuesOf(part, 'blocks.1.proj.weight')], columns.flat());
  assert.deepEqual([...valuesOf(part, 'wte.weight')], rows(valuesOf(whole, 'wte.weight'), 21, 42));
  // A range is filled as well as the whole.
  const middle = new Float32Array(30);
  part.namedParameters().get('blocks.1.qkv.weight')?.source?.fill(180, middle);
  assert.deepEqual([...middle], heads.slice(180, 210));
});

test('a model is split once, and no strategy reduces over ranks with other parts', () => {
  const context = { group: groupOf(2), warn: () => undefined };
  const model = parallelizeTensors(gpt(GPT), context);
  assert.throws(() => parallelizeTensors(model, context), { code: 'CONFIG', message: /already split over/ });
  assert.throws(() => requireSameParts(model.parameters(), groupOf(4), 'fullyShard'), {
    code: 'CONFIG',
    message: /fullyShard: ranks 0, 1, 2, 3 have different parts of .*mesh: parallel\.mesh\.slice\('dp'\)/,
  });
  requireSameParts(model.parameters(), standIn([0, 2], 0), 'fullyShard');
});

test('a group of one rank changes nothing', () => {
  const model = parallelizeTensors(gpt(GPT), { group: groupOf(1), warn: () => undefined });
  assert.ok(model.parameters().every(({ split }) => split === null));
  assert.equal(model.wte.constructor, Embedding);
});

test('a mesh of several axes is refused, and the error says how to take one', () => {
  const mesh = initDeviceMesh(groupOf(4), [2, 2], ['dp', 'tp']);
  assert.throws(() => groupOfMesh('parallelizeModule', mesh), { code: 'CONFIG', message: /slice\('tp'\)/ });
  assert.deepEqual(groupOfMesh('parallelizeModule', mesh.slice('tp')).ranks, [0, 1]);
});
