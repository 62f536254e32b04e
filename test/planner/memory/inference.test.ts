import assert from 'node:assert/strict';
import { test } from 'node:test';
import { reservableBytes } from '../../../src/planner/memory/allocator';
import { inferenceMemory } from '../../../src/planner/memory/inference';
import { quietPlan as plan } from '../../../src/session/plans/plan';
import { layoutOfLine } from '../../support/batch-lines';

const OPT_13B = { kind: 'gpt', layers: 40, dim: 5120, heads: 40, vocab: 50_272, seq: 2048 };

/** Published bytes of keys and values per token in 16 bits. */
const PUBLISHED = [
  // DeepSeek-AI 2025 (arXiv 2505.09343), table 1, in KB of 1000 bytes.
  ['DeepSeek-V3', 70_272],
  ['Qwen2.5-72B', 327_680],
  ['llama3-405b', 516_096],
  // DeepSeek-V2 (arXiv 2405.04434), table 1 and section 2.1.2: (512 + 64) elements in each of 60 layers.
  ['DeepSeek-V2', 2 * 576 * 60],
  // Kwon et al. 2023 (arXiv 2309.06180), section 3: 800 KB of 1024 bytes.
  [OPT_13B, 800 * 1024],
  ['Llama-2-7B', 512 * 1024],
  ['llama3-8b', 128 * 1024],
] as const;

test('the cache of one token has the published sizes: all heads, grouped heads, latent attention', () => {
  for (const [model, bytes] of PUBLISHED) {
    const layout = layoutOfLine({ model, gpus: 8, hardware: 'H200-141G' });
    assert.equal(inferenceMemory(layout).cacheBytesPerToken, bytes, JSON.stringify(model));
    assert.equal(inferenceMemory(layout, { cache: 'fp8' }).cacheBytesPerToken, bytes / 2);
  }
});

test("a request of OPT-13B needs up to 1.6 GB of cache, and grouped heads make Llama 2 70B's cache 8 times smaller", () => {
  const { cacheBytes } = inferenceMemory(layoutOfLine({ model: OPT_13B, gpus: 1 }));
  // "as much as 1.6 GB" (Kwon et al. 2023, section 3): 800 KB x 2048.
  assert.equal((cacheBytes / 1024 ** 3).toFixed(1), '1.6');
  const perToken = (kvHeads: number): number =>
    inferenceMemory(
      layoutOfLine({ model: { kind: 'llama', layers: 80, dim: 8192, heads: 64, kvHeads, vocab: 32_000 } }),
    ).cacheBytesPerToken;
  assert.equal(perToken(64) / perToken(8), 8);
});

test('weights, cache and the rest of the GPU add up: the most tokens that fit fill it', () => {
  const layout = layoutOfLine({ model: 'llama3-8b', hardware: 'A100-80G', gpus: 1 });
  const memory = inferenceMemory(layout, { batch: 4, seq: 1000 });
  assert.equal(memory.weightBytes, 2 * layout.model.params);
  assert.equal(memory.cacheBytes, 4000 * 131_072);
  assert.equal(memory.totalBytes, memory.weightBytes + memory.cacheBytes);
  assert.ok(memory.fits);
  const { mostTokens } = memory;
  const left = reservableBytes(layout) - memory.weightBytes - mostTokens * 131_072;
  assert.ok(left >= 0 && left < 131_072, `${left}`);
  assert.ok(inferenceMemory(layout, { seq: mostTokens }).fits);
  assert.ok(!inferenceMemory(layout, { seq: mostTokens + 1 }).fits);
});

test('tp divides weights and heads of keys, but not a latent vector, nor a single head; pp divides layers', () => {
  const at = (model: string, parallel: object, gpus = 16) =>
    inferenceMemory(layoutOfLine({ model, hardware: 'H200-141G', gpus, parallel }), { seq: 1024 });
  const whole = at('llama3-70b', {});
  const [eight, sixteen] = [at('llama3-70b', { tp: 8 }), at('llama3-70b', { tp: 16 })];
  assert.equal(eight.cacheBytes, whole.cacheBytes / 8);
  assert.equal(sixteen.cacheBytes, eight.cacheBytes);
  assert.ok(Math.abs(sixteen.weightBytes - whole.weightBytes / 16) < 1);
  assert.equal(eight.cacheBytesPerToken, whole.cacheBytesPerToken);
  assert.equal(at('llama3-70b', { pp: 4 }).cacheBytes, whole.cacheBytes / 4);
  assert.equal(at('DeepSeek-V2', { tp: 8 }).cacheBytes, at('DeepSeek-V2', {}).cacheBytes);
});

test('what generates no text, sequences divided by cp, too many positions and wrong types are refused', () => {
  const of = (request: object) => layoutOfLine({ gpus: 8, ...request });
  assert.throws(
    () => inferenceMemory(of({ model: 'wan2.2-a14b' })),
    /inference: wan2.2-a14b generates no text/,
  );
  assert.throws(() => inferenceMemory(of({ model: 'llama3-8b', parallel: { cp: 2 } })), /cp \(2\)/);
  assert.throws(
    () => inferenceMemory(of({ model: 'gpt2' }), { seq: 2048 }),
    /learned embeddings for 1024 positions/,
  );
  const wrong = { cache: 'int4' } as unknown as { cache: 'fp8' };
  assert.throws(() => inferenceMemory(of({ model: 'gpt2' }), wrong), /cache.*int4/s);
});

test("the table of a plan's inference says that activations are not counted", () => {
  const shown = plan('llama3-8b', { on: 'A100-80G', gpus: 8 }).inference({ batch: 8, seq: 4096 });
  assert.equal(shown.cacheBytes, 8 * 4096 * 131_072);
  assert.match(shown.toText(), /8 sequences of 4,096 tokens on 1 x A100-80G.*without activations; this fits/);
  assert.match(shown.toText(), /cache per token, all layers +131 kB/);
});
