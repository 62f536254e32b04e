import assert from 'node:assert/strict';
import { test } from 'node:test';
import { candidates } from '../../src/planner/candidates';
import { configOfLayout } from '../../src/planner/config-of-layout';
import type { Layout } from '../../src/planner/layout';
import { layoutOf } from '../../src/planner/plan-input';
import { predict } from '../../src/planner/predict';
import { type RecommendInput, recommendRequest, searchBases } from '../../src/planner/recommend-request';
import { STACK_RULES } from '../../src/planner/stack-rules';
import { valuesHere } from '../support/cases';

function layoutsOf(input: RecommendInput): readonly Layout[] {
  const request = recommendRequest(input);
  return searchBases(request).flatMap((base) => [...candidates(base, request.search)]);
}

const BF16 = { paramDtype: 'bf16', reduceDtype: 'fp32' } as const;

test('every candidate is the layout of its config at its place, which a run could check', () => {
  for (const { model, hardware } of [
    { model: 'llama3-8b', hardware: 'H100-80G' },
    { model: 'gpt2-xl', hardware: 'A100-40G' },
    { model: 'wan2.2-a14b', hardware: { like: 'A100-80G', nicGbit: 100, gpusPerNode: 4 } },
    { model: { params: 7.5e9 }, hardware: 'V100-32G' },
  ] as const) {
    for (const gpus of valuesHere([4, 16, 64], [0, 1])) {
      const layouts = layoutsOf({ model, mixedPrecision: BF16, hardware, gpus });
      assert.ok(layouts.length > 20, `${layouts.length}`);
      for (const layout of layouts) {
        const { config, place } = configOfLayout(layout, { model, mixedPrecision: BF16 });
        assert.deepEqual(layoutOf({ ...config, ...place }), layout);
      }
    }
  }
});

test("without types in the config, a layout's config has those of its framework, and plans the same", () => {
  const request = { model: 'llama3-8b', hardware: 'H100-80G', gpus: 16 } as const;
  for (const layout of layoutsOf(request).filter((_, i) => i % 40 === 0)) {
    const { config, place } = configOfLayout(layout, { model: 'llama3-8b' });
    const { time, memory } = predict(layoutOf({ ...config, ...place }));
    assert.deepEqual([time, memory], [predict(layout).time, predict(layout).memory], JSON.stringify(config));
  }
});

test('no layout occurs twice', () => {
  const layouts = layoutsOf({ model: 'llama3-70b', hardware: 'H100-80G', gpus: 256 });
  const keys = layouts.map(({ model, hardware, ...rest }) => JSON.stringify(rest));
  assert.equal(new Set(keys).size, layouts.length);
});

test("candidates follow each framework's limits, such as no pipeline with ZeRO-3", () => {
  const layouts = layoutsOf({ model: 'llama3-405b', hardware: 'H100-80G', gpus: 512 });
  for (const { stack, strategy, tp, pp, cp, model } of layouts) {
    const rules = STACK_RULES[stack];
    assert.ok(pp === 1 || rules.pipelineWith.includes(strategy));
    assert.ok(stack !== 'deepspeed' || (tp === 1 && cp === 1));
    assert.ok(stack !== 'megatron' || model.layers % pp === 0);
  }
  assert.deepEqual([...new Set(layouts.map(({ stack }) => stack))].sort(), [
    'deepspeed',
    'fsdp2',
    'megatron',
  ]);
});

test('a narrowed search tries only the named settings', () => {
  const search: RecommendInput['search'] = {
    ...{ stacks: ['fsdp2'], strategies: ['FULL_SHARD'] },
    ...{ tp: [8], pp: [1], cp: [1], micro: [1] },
  };
  const layouts = layoutsOf({ model: 'llama3-70b', hardware: 'H100-80G', gpus: 64, search });
  assert.equal(layouts.length, 3);
  assert.deepEqual(
    layouts.map(({ recompute }) => recompute),
    ['none', 'selective', 'full'],
  );
});

test('several strategies are tried only if there are ranks to shard over, hybrids only across nodes', () => {
  const one = layoutsOf({ model: 'gpt2', gpus: 1 });
  assert.deepEqual([...new Set(one.map(({ strategy }) => strategy))], ['NO_SHARD']);
  const node = layoutsOf({ model: 'gpt2', gpus: 8 });
  assert.ok(!node.some(({ strategy }) => strategy === 'HYBRID_SHARD'));
  const nodes = layoutsOf({ model: 'gpt2', gpus: 16 }).filter(({ strategy }) => strategy === 'HYBRID_SHARD');
  assert.ok(nodes.length > 0 && nodes.every(({ shards, tp }) => shards === Math.max(1, 8 / tp)));
});

test('a search by cost also tries fewer GPUs, down to one node', () => {
  const counts = new Set(layoutsOf({ model: 'llama3-8b', gpus: 64, by: 'cost' }).map(({ gpus }) => gpus));
  assert.deepEqual([...counts], [64, 32, 16, 8]);
});

test('states are offloaded only if the host has room for them', () => {
  const offloaded = (gpus: number): Layout[] =>
    layoutsOf({ model: 'llama3-405b', gpus }).filter(({ offload }) => offload.optimizer);
  assert.equal(offloaded(16).length, 0);
  assert.ok(offloaded(32).length > 0);
});
