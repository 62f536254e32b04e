import type { Engine } from '../backend/engine';
import { ConfigError } from '../core/errors';
import { seeded } from '../core/random';
import * as tf from '../core/tf';
import type { ProcessGroup } from '../dist/types';
import { GPT, MoeGPT } from '../nn/models/gpt';
import { Llama } from '../nn/models/llama';
import type { Module } from '../nn/module';

/** How tokens are chosen. */
export interface Sampling {
  /** The number of tokens to add. */
  readonly tokens: number;
  /** The logits are divided by it. 0 takes the most probable token each time. */
  readonly temperature: number;
  /** The number of most probable tokens to choose from; null: all. */
  readonly topK: number | null;
  readonly seed: number;
}

/** The parts that a sample needs. */
export interface SamplingParts {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly model: Module;
}

/** Adds tokens to ids; `Trainer.sample` says how. */
export async function sampleFrom(
  { engine, group, model }: SamplingParts,
  given: readonly number[],
  { tokens, temperature, topK, seed }: Sampling,
  progress: (done: number, total: number) => Promise<void>,
): Promise<number[]> {
  if (!(model instanceof GPT || model instanceof MoeGPT || model instanceof Llama)) {
    throw new ConfigError(
      `sample: ${model.constructor.name} gives no logits of tokens; it works with gpt, moe and llama`,
    );
  }
  const { seq, vocab } = model.shape;
  const wrong = given.find((id) => !Number.isInteger(id) || id < 0 || id >= vocab);
  if (wrong !== undefined)
    throw new ConfigError(`sample: the model has the tokens 0 to ${vocab - 1}, but an id is ${wrong}`);
  const random = seeded(seed, 'sample');
  const ids = [...given];
  for (let done = 0; done < tokens; done++) {
    const logits = lastLogits(engine, model, ids.slice(-seq));
    // Ranks compute the same logits; the first rank decides, so that they never differ by a rounding.
    ids.push(agreed(engine, group, chosen(logits, { temperature, topK }, random.uniform())));
    await progress(done + 1, tokens);
  }
  return ids;
}

function lastLogits(engine: Engine, model: GPT | MoeGPT | Llama, ids: readonly number[]): Float32Array {
  const input = engine.tagged({ cause: 'batch', module: '' }, () => tf.tensor(ids, [1, ids.length], 'int32'));
  try {
    const all = tf.tidy(() => {
      const logits = model.apply(input);
      const [, length = 1, vocab = 1] = logits.shape;
      return tf.reshape(tf.slice(logits, [0, length - 1, 0], [1, 1, vocab]), [vocab]);
    });
    try {
      return Float32Array.from(all.dataSync());
    } finally {
      all.dispose();
    }
  } finally {
    input.dispose();
  }
}

/**
 * Chooses a token; `draw` is uniform in [0, 1). Of equal logits, the lower id is more probable, as in torch's argmax.
 * Source: Hugging Face's TemperatureLogitsWarper and TopKLogitsWarper, which keeps all logits that equal the k-th.
 */
export function chosen(
  logits: Float32Array,
  { temperature, topK }: Pick<Sampling, 'temperature' | 'topK'>,
  draw: number,
): number {
  const best = logits.reduce((most, value, id) => (value > (logits[most] ?? 0) ? id : most), 0);
  if (temperature === 0) return best;
  const least =
    topK === null ? Number.NEGATIVE_INFINITY : (logits.toSorted().at(-Math.min(topK, logits.length)) ?? 0);
  const highest = logits[best] ?? 0;
  const weights = Array.from(logits, (value) =>
    value < least ? 0 : Math.exp((value - highest) / temperature),
  );
  let rest = draw * weights.reduce((sum, weight) => sum + weight, 0);
  for (const [id, weight] of weights.entries()) {
    rest -= weight;
    if (rest < 0) return id;
  }
  return best;
}

/** Returns the first rank's token on all ranks. */
function agreed(engine: Engine, group: ProcessGroup, token: number): number {
  const tensor = engine.tagged({ cause: 'comm', module: '' }, () => tf.tensor([token], [1], 'float32'));
  try {
    group.broadcast(tensor, 0, { cause: 'control' }).wait();
    return tensor.dataSync()[0] ?? token;
  } finally {
    tensor.dispose();
  }
}
