import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Layout } from '../../src/planner/layout';
import { layerActivations } from '../../src/planner/memory/layer-activations';
import { stageOf } from '../../src/planner/memory/pipeline-stage';
import { memoryPhases, predictMemory, predictStages } from '../../src/planner/memory/predict-memory';
import { predictTime } from '../../src/planner/time/predict-time';
import { layoutOfLine } from '../support/batch-lines';
import { activationsPerLayer } from '../support/formulas/korthikanti';

const GIB = 1024 ** 3;

const LLAMA_8B = {
  model: 'llama3-8b',
  hardware: 'H100-80G',
  gpus: 8,
  parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' },
  batch: { micro: 1 },
  precision: 'bf16',
  recompute: 'selective',
  attention: 'flash',
  compile: true,
};

const GPT_22B = {
  model: { kind: 'gpt', layers: 48, dim: 6144, heads: 64, seq: 2048, vocab: 51_200 },
  hardware: 'A100-80G',
  gpus: 8,
  parallel: { tp: 8, strategy: 'NO_SHARD', stack: 'megatron' },
  batch: { micro: 4, global: 4 },
  precision: 'bf16',
  recompute: 'none',
  attention: 'unfused',
};

function llama(changes: object = {}): Layout {
  return layoutOfLine({ ...LLAMA_8B, ...changes });
}

function gpt(changes: object = {}): Layout {
  return layoutOfLine({ ...GPT_22B, ...changes });
}

test('the causes of Llama 3 8B on 8 GPUs with FSDP2 equal a calculation by hand', () => {
  const [P, h, q, kv, f, V, T] = [8_030_261_248, 4096, 4096, 1024, 14_336, 128_256, 8192];
  const layer = 2 * h * q + 2 * h * kv + 3 * h * f + 2 * h;
  const root = 2 * V * h + h;
  assert.equal(32 * layer + root, P);
  const phases = memoryPhases(llama(), stageOf(llama(), 0));
  const loss = phases.find(({ name }) => name === 'loss');
  assert.ok(loss);
  // float32 shards; root and last block whole in bf16.
  assert.equal(loss.params, (4 * P) / 8 + 2 * (root + layer));
  // float32 shards on the reducing stream.
  assert.equal(loss.grads, (4 * P) / 8);
  assert.equal(loss.optimizer, (8 * P) / 8);
  // A block: its input, q, v, attention's output, gate; the log-sum-exp in float32.
  const block = T * (2 * (h + q + kv + q + f) + 4 * 32);
  // The last norm, not compiled: its input in float32, its normalized value; the head's input.
  const last = T * (4 * h + 2 * h + 2 * h);
  // Logits and their gradient.
  assert.equal(loss.activations, 32 * block + last + T * V * 4);
  // Gathers of root and a block, and the shards that were sent; cuBLAS's two workspaces on Hopper.
  const buffers = 2 * (root + layer) * (1 + 1 / 8) + 2 * 32 * 1024 ** 2;
  // Holes of six tenths of the tensors of a block's forward: 8 streams (input, both norms, q, k, v, attention, its matmul), 3 of f.
  const holes = 0.6 * T * (2 * (8 * h + 3 * f) + 4 * 32);
  assert.ok(Math.abs(loss.temporary - (buffers + holes)) < 1);
});

test('the causes add up to the peak, in bytes and in GiB', () => {
  for (const layout of [llama(), llama({ compile: false }), gpt(), gpt({ recompute: 'full' })]) {
    const memory = predictMemory(layout);
    const { params, grads, optimizer, activations, temporary, peakBytes, peak } = memory;
    assert.ok(Math.abs(params + grads + optimizer + activations + temporary - peakBytes) < 1);
    assert.ok(Math.abs(peak.value * GIB - peakBytes) < 1);
    assert.ok(peak.low < peak.value && peak.value < peak.high);
    assert.notEqual(memory.largestAssumption, '');
  }
});

test("a GPT's layer in Megatron-LM holds the activations of Korthikanti's formulas, to the byte", () => {
  const paper = { s: 2048, b: 4, h: 6144, a: 64, layers: 48, v: 51_200 };
  for (const recompute of ['none', 'selective'] as const) {
    for (const sequenceParallel of [false, true]) {
      for (const tp of [1, 2, 8]) {
        const parallel = { ...GPT_22B.parallel, tp, sequenceParallel };
        const layout = gpt({ recompute, gpus: tp, parallel });
        const saving = { t: tp, sequenceParallel: sequenceParallel && tp > 1, recompute };
        const expected = activationsPerLayer(paper, saving);
        const name = `${recompute} tp ${tp} ${sequenceParallel}`;
        assert.equal(layerActivations(layout).saved, Math.round(expected), name);
      }
    }
  }
  const full = gpt({ recompute: 'full', gpus: 1, parallel: { ...GPT_22B.parallel, tp: 1 } });
  assert.equal(layerActivations(full).saved, 2 * 2048 * 4 * 6144);
});

test("the first stage's layers in flight are Korthikanti's: all under 1F1B, 1 + (p - 1)/(pv) of them if interleaved", () => {
  const parallel = { ...GPT_22B.parallel, tp: 1, pp: 8 };
  const batch = { micro: 1, global: 64 };
  assert.equal(stageOf(gpt({ parallel, batch }), 0).layersInFlight, 48);
  assert.equal(stageOf(gpt({ parallel, batch }), 7).layersInFlight, 6);
  const interleaved = stageOf(gpt({ parallel, batch, virtualStages: 3 }), 0);
  assert.ok(Math.abs(interleaved.layersInFlight - 48 * (1 + 7 / 24)) < 1e-9);
  assert.equal(stageOf(gpt({ parallel, batch, schedule: 'GPipe' }), 7).layersInFlight, 64 * 6);
});

test("the stages' parameters add up to the model's", () => {
  for (const virtualStages of [1, 2]) {
    const parallel = { ...LLAMA_8B.parallel, pp: 4 };
    const layout = llama({ parallel, batch: { micro: 1, global: 16 }, virtualStages });
    const stages = [0, 1, 2, 3].map((place) => stageOf(layout, place));
    const sum = stages.reduce((total, { params }) => total + params, 0);
    assert.ok(Math.abs(sum - 8_030_261_248) < 1, `${sum}`);
    assert.equal(
      stages.reduce((total, { layers }) => total + layers, 0),
      32,
    );
  }
});

const peak = (layout: Layout): number => predictMemory(layout).peakBytes;

test('more tensor parallelism, more shards, more recompute or a smaller batch never needs more memory', () => {
  for (const compile of [true, false]) {
    for (const recompute of ['none', 'selective', 'full']) {
      const at = (gpus: number, tp: number, micro = 2): number =>
        peak(llama({ gpus, parallel: { ...LLAMA_8B.parallel, tp }, batch: { micro }, recompute, compile }));
      assert.ok(at(64, 2) <= at(64, 1) && at(64, 4) <= at(64, 2) && at(64, 8) <= at(64, 4));
      assert.ok(at(16, 1) <= at(8, 1) && at(32, 1) <= at(16, 1));
      assert.ok(at(8, 1, 1) <= at(8, 1, 2));
    }
    const by = (recompute: string): number => peak(llama({ recompute, compile }));
    assert.ok(by('full') < by('selective') && by('selective') < by('none'));
  }
  const zero = (strategy: string): number =>
    peak(llama({ parallel: { strategy, stack: 'fsdp2' }, recompute: 'full' }));
  assert.ok(zero('FULL_SHARD') < zero('SHARD_GRAD_OP'));
  assert.ok(zero('SHARD_GRAD_OP') < zero('NO_SHARD'));
});

test('the peak is where the documents say: in the loss, in backward, or at the optimizer', () => {
  assert.equal(predictMemory(llama({ compile: false })).phase, 'loss');
  assert.equal(predictMemory(gpt()).phase, "last layer's backward");
  const steps = gpt({ precision: 'fp16', recompute: 'full', batch: { micro: 1, global: 1 } });
  assert.equal(predictMemory(steps).phase, 'optimizer step');
});

test('sequence parallelism, flash attention, offload and a distributed optimizer need less memory', () => {
  const sequence = { ...GPT_22B.parallel, sequenceParallel: true };
  assert.ok(peak(gpt({ parallel: sequence })) < peak(gpt()));
  assert.ok(peak(gpt({ attention: 'flash' })) < peak(gpt()));
  assert.equal(predictMemory(llama({ offload: { optimizer: true } })).optimizer, 0);
  const distributed = { tp: 4, strategy: 'ZERO_1', stack: 'megatron' };
  const replicated = { ...distributed, strategy: 'NO_SHARD' };
  const at = (parallel: object): number =>
    predictMemory(gpt({ parallel, batch: { micro: 4, global: 8 } })).optimizer;
  assert.equal(at(distributed), at(replicated) / 2);
});

test('near capacity the allocator frees its cached memory, and the memory in use does not shrink', () => {
  const request = { batch: { micro: 2 }, compile: false };
  const roomy = predictMemory(llama({ ...request, hardware: 'H200-141G' }));
  const tight = predictMemory(llama(request));
  assert.ok(tight.peak.value < roomy.peak.value);
  assert.ok(tight.peak.value < 80 && tight.peak.value > roomy.peak.low);
  assert.ok(Math.abs(tight.activations - roomy.activations) < 1);
  const beyond = predictMemory(llama({ batch: { micro: 4 }, recompute: 'none' }));
  assert.ok(beyond.peak.low > 80);
});

test('with fp8 selective recompute stores what it stores with bf16, because its policy sees matmuls before they become fp8', () => {
  const saved = (precision: string): number => layerActivations(llama({ precision })).saved;
  const [h, T] = [4096, 8192];
  assert.equal(saved('fp8'), saved('bf16'));
  assert.equal(saved('fp8'), T * (2 * (h + h + 1024 + h + 14_336) + 4 * 32));
});

test('with p microbatches the first stage never holds all activations and summed gradients at once', () => {
  const parallel = { ...LLAMA_8B.parallel, pp: 4 };
  const at = (global: number) => {
    const layout = llama({ parallel, batch: { micro: 1, global }, recompute: 'none' });
    return memoryPhases(layout, stageOf(layout, 0)).filter(({ name }) => name === "last layer's backward");
  };
  const [first, later] = at(8);
  const [steady] = at(16);
  assert.ok(first && later && steady);
  assert.equal(at(16).length, 1);
  assert.ok(first.activations === steady.activations && first.grads < steady.grads);
  assert.ok(later.grads === steady.grads && later.activations < steady.activations);
});

test('a loss outside torch.compile holds float32 copies of the logits, and takes time to copy them', () => {
  const [inside, outside] = [llama({ recompute: 'full' }), llama({ recompute: 'full', compileLoss: false })];
  assert.ok(predictMemory(outside).peakBytes > predictMemory(inside).peakBytes);
  assert.ok(predictTime(outside).computeByCause.loss > predictTime(inside).computeByCause.loss);
});

test('norms follow torch.compile of the model or fused kernels, and the loss follows torch.compile of the loss', () => {
  const of = (changed: object) => {
    const layout = llama({ recompute: 'none', compile: false, ...changed });
    const { elementwise, loss } = predictTime(layout).computeByCause;
    return { norms: elementwise, loss, saved: layerActivations(layout).saved };
  };
  const eager = of({});
  const lossOnly = of({ compileLoss: true });
  assert.deepEqual([lossOnly.norms, lossOnly.saved], [eager.norms, eager.saved]);
  assert.ok(lossOnly.loss < eager.loss);
  const fused = of({ fusedNorms: true });
  assert.ok(fused.norms < eager.norms && fused.saved < eager.saved);
  assert.equal(fused.loss, eager.loss);
  const compiled = { compile: true, compileLoss: false };
  assert.deepEqual(of({ ...compiled, fusedNorms: true }), of(compiled));
});

test('the fullest stage of a pipeline has the predicted peak, and later stages of 1F1B hold fewer activations', () => {
  for (const pp of [2, 4]) {
    const layout = llama({ gpus: 4 * pp, parallel: { pp, strategy: 'NO_SHARD', stack: 'megatron' } });
    const stages = predictStages(layout);
    const most = stages.reduce((a, b) => (b.peakBytes > a.peakBytes ? b : a));
    assert.deepEqual(most, predictMemory(layout));
    assert.deepEqual(
      stages.map(({ stage }) => stage),
      Array.from({ length: pp }, (_, stage) => stage),
    );
    const [first = 0, second = 0] = stages.map(({ activations }) => activations);
    assert.ok(first > second, `${first} and ${second}`);
  }
});
