import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CALIBRATION } from '../../../src/planner/calibration';
import { candidates } from '../../../src/planner/candidates';
import { configOfLayout } from '../../../src/planner/config-of-layout';
import { sequenceExchanges } from '../../../src/planner/cost/sequence-exchange';
import type { Layout } from '../../../src/planner/layout';
import { layoutOf } from '../../../src/planner/plan-input';
import { predict } from '../../../src/planner/predict';

const MODEL = {
  kind: 'llama',
  layers: 8,
  dim: 4096,
  heads: 32,
  kvHeads: 8,
  ffn: 14_336,
  vocab: 32_000,
  seq: 32_768,
} as const;
const NO_TIME = { forward: 0, backward: 0 };

function layout(parallel: object, place: object = {}): Layout {
  const config = {
    model: MODEL,
    mixedPrecision: 'bf16',
    batch: 1,
    parallel: { strategy: 'FULL_SHARD', ...parallel },
  } as const;
  return layoutOf({ ...config, on: 'H100-80G', gpus: 8, attention: 'flash', ...place });
}

test("Ulysses receives (P - 1) / P of q, k, v and the output in each direction, as in the paper's 4bsh / P", () => {
  for (const cp of [2, 4, 8]) {
    const tokens = MODEL.seq / cp;
    const { forward, backward } = sequenceExchanges(layout({ cp }), tokens, NO_TIME, CALIBRATION);
    const q = tokens * MODEL.dim * 2;
    assert.equal(forward.bytes, ((2 * q + (2 * q) / 4) * (cp - 1)) / cp);
    assert.deepEqual(backward, forward);
  }
});

test("a ring passes k and v once in forward; PyTorch's ring passes them again in backward, and float32 gradients P times", () => {
  const cp = 4;
  const tokens = MODEL.seq / cp;
  const of = (stack: string) =>
    sequenceExchanges(layout({ cp, cpKind: 'ring' }, { stack }), tokens, NO_TIME, CALIBRATION);
  const part = 2 * tokens * MODEL.kvHeads * 128 * 2;
  const [megatron, pytorch] = [of('megatron'), of('fsdp2')];
  assert.deepEqual([megatron.forward.bytes, megatron.backward.bytes], [3 * part, 6 * part]);
  assert.deepEqual(
    [pytorch.forward.bytes, pytorch.backward.bytes],
    [12 * part, 4 * (3 * part + 4 * 2 * part)],
  );
  assert.ok(pytorch.backward.seconds > 2 * pytorch.forward.seconds);
});

test('gradients that travel round a ring hide behind the attention to the next part, except the last time', () => {
  const ring = layout({ cp: 4, cpKind: 'ring' }, { stack: 'fsdp2' });
  const of = (backward: number): number =>
    sequenceExchanges(ring, MODEL.seq / 4, { forward: 0, backward }, CALIBRATION).backward.seconds;
  const hop = (of(0) - of(1)) / 3;
  assert.ok(hop > 0);
  assert.ok(Math.abs(of(2 * hop) - (of(0) - 1.5 * hop)) < 1e-12);
});

test('the kind of context parallelism changes time and bytes, and what the framework itself lacks is said', () => {
  const [ulysses, ring] = [predict(layout({ cp: 4 })), predict(layout({ cp: 4, cpKind: 'ring' }))];
  assert.ok(ulysses.time.commBytes.cp < ring.time.commBytes.cp);
  assert.ok(ulysses.time.seconds < ring.time.seconds);
  assert.ok(ulysses.memory.activations <= ring.memory.activations);
  assert.ok(ulysses.outside.some((text) => /fsdp2 itself lacks Ulysses/.test(text)));
  assert.ok(!ring.outside.some((text) => /itself lacks/.test(text)));
});

test("between nodes, Ulysses' all-to-alls are as slow as a GPU's own network card, and send as many bytes", () => {
  const of = (gpusPerNode: number) => {
    const between = layout({ cp: 8 }, { gpus: 64, gpusPerNode, nicGbit: 100 });
    return sequenceExchanges(between, MODEL.seq / 8, NO_TIME, CALIBRATION).forward;
  };
  assert.equal(of(4).bytes, of(8).bytes);
  assert.ok(of(4).seconds > 5 * of(8).seconds);
});

test('a search tries rings, and keeps the kind of a layout that has one', () => {
  const kinds = (base: Layout): readonly string[] => [
    ...new Set([...candidates(base)].filter(({ cp }) => cp > 1).map(({ cpKind }) => cpKind)),
  ];
  assert.deepEqual(kinds(layout({})), ['ring']);
  assert.deepEqual(kinds(layout({ cp: 2 }, { stack: 'megatron' })), ['ulysses']);
});

test('the config of a layout has its kind of context parallelism, and whether stages are resharded', () => {
  for (const parallel of [{ cp: 2 }, { cp: 2, cpKind: 'ring' }, { pp: 2, reshardAfterForward: true }]) {
    const own = layout(parallel);
    const { config, place } = configOfLayout(own, { model: MODEL, mixedPrecision: 'bf16' });
    assert.deepEqual(layoutOf({ ...config, ...place }), own);
  }
});

test('a resharded stage gathers each layer once per microbatch and once more, takes longer, and holds fewer parameters', () => {
  const of = (parallel: object) =>
    predict(layout({ pp: 2, microbatches: 8, ...parallel }, { batch: 8, gpus: 16 }));
  const [whole, resharded] = [of({}), of({ reshardAfterForward: true })];
  const { shards, model } = layout({ pp: 2 }, { batch: 8, gpus: 16 });
  const perGather = ((model.layerParams * model.layers) / 2) * 2 * ((shards - 1) / shards);
  const more = resharded.time.commBytes.dp - whole.time.commBytes.dp;
  assert.ok(Math.abs(more / (8 * perGather) - 1) < 1e-9, `${more / perGather} more gathers`);
  assert.ok(resharded.time.seconds > whole.time.seconds);
  assert.ok(resharded.memory.peakBytes <= whole.memory.peakBytes);
  assert.deepEqual(of({ strategy: 'SHARD_GRAD_OP' }).time, whole.time);
  const gpipe = of({ reshardAfterForward: true, schedule: 'gpipe' });
  assert.equal(gpipe.time.commBytes.dp, resharded.time.commBytes.dp);
});
