// One rank's GPT step on the engine alone: forward, backward, AdamW. The work of torch_gpt_bench.py at world 1.
// Usage: node build/test/bench/engine.js [--blas none|PATH] [--steps N] [--profile]. Prints one JSON line, then the profile.
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { seeded } from '../../src/core/random';
import * as tf from '../../src/core/tf';
import { gradients, runUnit, type Unit } from '../../src/engine/autograd/unit';
import type { Engine } from '../../src/engine/backend/engine';
import {
  causalAttention,
  embedding,
  gelu,
  layerNorm,
  linear,
  softmaxCrossEntropy,
} from '../../src/engine/backend/ops';
import { createWasmEngine } from '../../src/engine/backend/wasm-engine';
import { sitePackages } from '../../src/launch/site-packages';
import { repositoryRoot } from '../support/paths';
import { profileKernels } from './kernel-profile';

const SIZE = { batch: 8, seq: 128, dim: 256, heads: 8, layers: 4, vocab: 8192 };
const TOKENS = SIZE.batch * SIZE.seq;

interface BenchUnit extends Unit {
  readonly tensors: tf.Tensor[];
  readonly grads: (tf.Tensor | null)[];
}

/** Weights normal, biases zero; `gains` are the indices of layer norms' weights, which start at one. */
function unit(module: string, shapes: readonly (readonly number[])[], gains: readonly number[]): BenchUnit {
  const random = seeded(0, module);
  const tensors = shapes.map((shape, place) => {
    const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
    for (let i = 0; i < values.length; i++)
      values[i] = shape.length > 1 ? random.normal() * 0.02 : Number(gains.includes(place));
    return tf.tensor(values, [...shape]);
  });
  const grads: (tf.Tensor | null)[] = [];
  const hooks = {
    preForward() {},
    postForward() {},
    preBackward() {},
    postBackward: (found: readonly (tf.Tensor | null)[]) => void grads.splice(0, grads.length, ...found),
  };
  return { module, hooks, parameters: () => tensors, tensors, grads };
}

function block(x: tf.Tensor, parameters: readonly tf.Tensor[]): tf.Tensor {
  const [g1, b1, qkvW, qkvB, projW, projB, g2, b2, fc1W, fc1B, fc2W, fc2B] = parameters as [
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
    tf.Tensor,
  ];
  const middle = tf.tidy(() => {
    const qkv = tf.tidy(() => linear(layerNorm(x, g1, b1), qkvW, qkvB));
    return tf.add(x, linear(causalAttention(qkv, SIZE.heads), projW, projB));
  });
  return tf.tidy(() => {
    const hidden = tf.tidy(() => linear(layerNorm(middle, g2, b2), fc1W, fc1B));
    return tf.add(middle, linear(gelu(hidden), fc2W, fc2B));
  });
}

function buildStep(engine: Engine): { run: () => number; dispose: () => void } {
  const { batch, seq, dim, layers, vocab } = SIZE;
  const blockShapes = [
    [dim],
    [dim],
    [3 * dim, dim],
    [3 * dim],
    [dim, dim],
    [dim],
    [dim],
    [dim],
    [4 * dim, dim],
    [4 * dim],
    [dim, 4 * dim],
    [dim],
  ];
  const blocks = Array.from({ length: layers }, (_, i) => unit(`blocks.${i}`, blockShapes, [0, 6]));
  const root = unit('', [[vocab, dim], [seq, dim], [dim], [dim]], [2]);
  const units = [root, ...blocks];
  const states = units.flatMap(({ tensors }) =>
    tensors.map((t) => ({ m: tf.zeros(t.shape), v: tf.zeros(t.shape) })),
  );
  const token = (i: number): number => (i * 31) % vocab;
  const ids = tf.tensor(
    Int32Array.from({ length: TOKENS }, (_, i) => token(i)),
    [batch, seq],
    'int32',
  );
  const targets = tf.tensor(
    Int32Array.from({ length: TOKENS }, (_, i) => token(i + 1)),
    [TOKENS],
    'int32',
  );
  let step = 0;
  const forward = (): tf.Tensor => {
    const [wte, wpe, g, b] = root.tensors as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor];
    let x: tf.Tensor = tf.add(embedding(wte, ids), wpe);
    for (const part of blocks)
      x = runUnit(engine, part, (input) => block(input as tf.Tensor, part.tensors), [x]);
    const rows = tf.reshape(layerNorm(x, g, b), [TOKENS, dim]);
    return softmaxCrossEntropy(tf.matMul(rows, wte, false, true), targets, { consumeLogits: true });
  };
  const run = (): number => {
    const pass = gradients(engine, () => runUnit(engine, root, forward, []));
    pass.backward();
    const loss = pass.loss.dataSync()[0] ?? Number.NaN;
    pass.loss.dispose();
    step++;
    let i = 0;
    for (const { tensors, grads } of units) {
      tensors.forEach((param, place) => {
        const grad = grads[place];
        const state = states[i++];
        if (!grad || !state) return;
        const common = { lr: 1e-3, beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1, step };
        engine.adamW({ param, grad, expAvg: state.m, expAvgSq: state.v, ...common });
        grad.dispose();
      });
    }
    return loss;
  };
  return { run, dispose: () => tf.dispose([ids, targets, ...states.flatMap(({ m, v }) => [m, v])]) };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      blas: { type: 'string' },
      steps: { type: 'string', default: '12' },
      profile: { type: 'boolean' },
    },
  });
  const blas = values.blas === undefined ? 'auto' : values.blas === 'none' ? 'none' : { path: values.blas };
  const engine = await createWasmEngine({ blas, searchPaths: sitePackages(process.env, repositoryRoot()) });
  const profile = values.profile === true ? profileKernels() : null;
  const { run } = buildStep(engine);
  const held = engine.memory.bytes;
  let peak = 0;
  engine.observe({
    allocated: () => {
      peak = Math.max(peak, engine.memory.bytes);
    },
    freed() {},
    retagged() {},
    collective() {},
    span() {},
  });
  const times: number[] = [];
  // On a shared machine processor time is more reliable than the clock.
  const processorTimes: number[] = [];
  const losses: number[] = [];
  for (let i = 0; i < Number(values.steps); i++) {
    if (i === 2) profile?.reset();
    const start = performance.now();
    const used = process.cpuUsage();
    losses.push(run());
    const { user, system } = process.cpuUsage(used);
    times.push(performance.now() - start);
    processorTimes.push((user + system) / 1e3);
  }
  const timed = times.slice(2).sort((a, b) => a - b);
  process.stdout.write(
    `${JSON.stringify({
      processor: cpus()[0]?.model,
      blas: engine.blas.library ?? engine.blas.reason,
      step_ms: timed[timed.length >> 1],
      step_ms_min: timed[0],
      step_processor_ms_min: Math.min(...processorTimes.slice(2)),
      losses: [losses[0], losses.at(-1)],
      held_mb: held / 1e6,
      peak_mb: peak / 1e6,
      after_mb: engine.memory.bytes / 1e6,
      rss_mb: process.memoryUsage().rss / 1e6,
    })}\n`,
  );
  for (const { kernel, calls, milliseconds } of profile?.times().slice(0, 16) ?? []) {
    const n = timed.length;
    process.stdout.write(
      `${kernel.padEnd(28)} ${(milliseconds / n).toFixed(2).padStart(8)} ms ${String(calls / n).padStart(6)} calls\n`,
    );
  }
}

void main();
