import { isLanguageModel, modelShape, ownData, type TrainConfig } from '../config';
import { ConfigError, classOf, isIndex, ShardlabError, seeded } from '../core';
import * as tf from '../core/tf';
import type { Engine } from '../engine';
import type { ProcessGroup } from '../wire';
import type { ModelPasses } from './passes';

/** Options that say how tokens are chosen. */
export interface Sampling {
  /** The number of tokens to add. */
  readonly tokens: number;
  /** The divisor of the logits. With 0, the most probable token is always chosen. */
  readonly temperature: number;
  /** The number of most probable tokens to choose from; null means all tokens. */
  readonly topK: number | null;
  readonly seed: number;
}

/** The parts that a sample needs. */
export interface SamplingParts {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly passes: Pick<ModelPasses, 'outputOf' | 'shared'>;
  readonly config: TrainConfig;
}

/** Adds tokens to ids; see `Trainer.sample`. */
export async function sampleFrom(
  { engine, group, passes, config }: SamplingParts,
  promptIds: readonly number[],
  { tokens, temperature, topK, seed }: Sampling,
  progress: (done: number, total: number) => Promise<void>,
): Promise<number[]> {
  const { seq, vocab } = limitsOf(config);
  const wrong = promptIds.find((id) => !isIndex(id, vocab));
  if (wrong !== undefined)
    throw new ConfigError(
      `sample: the model has the tokens 0 to ${vocab - 1}, but an id is ${wrong}; give ids of these tokens`,
    );
  const random = seeded(seed, 'sample');
  const ids = [...promptIds];
  for (let done = 0; done < tokens; done++) {
    const logits = lastLogits(engine, passes, ids.slice(-seq));
    const draw = random.uniform();
    const token = logits === null ? Number.NaN : chosen(logits, { temperature, topK }, draw);
    // Ranks compute the same logits except for rounding. The first rank chooses, so that all ranks have the same token.
    ids.push(passes.shared(agreed(engine, group, token), 'control'));
    await progress(done + 1, tokens);
  }
  return ids;
}

/**
 * Returns the maximum length of a model's input, and the size of its vocabulary, which is unknown for a user's own model.
 * Throws: CONFIG for a model without tokens.
 */
export function limitsOf(config: TrainConfig): { readonly seq: number; readonly vocab: number } {
  const shape = modelShape(config);
  if (shape.kind === 'python' && (shape.batches !== undefined || shape.loss !== undefined))
    throw new ConfigError(
      'sample: a model with batches or a loss of its own may give no logits of tokens; call it in a %%ranks --python cell',
    );
  if (shape.kind === 'python' || isLanguageModel(shape)) return shape;
  if (shape.kind === 'own')
    return { seq: ownData(config.data)?.seq ?? Number.POSITIVE_INFINITY, vocab: Number.POSITIVE_INFINITY };
  throw new ConfigError(
    `sample: a model of kind '${shape.kind}' gives no logits of tokens; gpt, moe and llama do`,
  );
}

/**
 * Returns the logits of the last position; null on a rank without logits. Shapes: ids [T] → logits [V]. Throws: SHAPE if the
 * model does not return logits [B, T, V].
 */
function lastLogits(
  engine: Engine,
  passes: Pick<ModelPasses, 'outputOf'>,
  ids: readonly number[],
): Float32Array | null {
  const input = engine.tagged({ cause: 'batch', module: '' }, () => tf.tensor(ids, [1, ids.length], 'int32'));
  try {
    const [last] = tf.tidy((): tf.Tensor[] => {
      const logits = passes.outputOf(input);
      if (logits === null) return [];
      if (!(logits instanceof tf.Tensor && logits.rank === 3 && logits.shape[1] === ids.length)) {
        const description =
          logits instanceof tf.Tensor ? `a tensor [${logits.shape.join(', ')}]` : classOf(logits);
        throw new ShardlabError(
          'SHAPE',
          `sample: for ids [1, ${ids.length}] the model returned ${description}, but logits are [1, ${ids.length}, vocabulary]`,
        );
      }
      const vocab = logits.shape[2] ?? 1;
      return [tf.reshape(tf.slice(logits, [0, ids.length - 1, 0], [1, 1, vocab]), [vocab])];
    });
    if (last === undefined) return null;
    try {
      return Float32Array.from(last.dataSync());
    } finally {
      last.dispose();
    }
  } finally {
    input.dispose();
  }
}

/**
 * Chooses a token; `draw` is uniform in [0, 1). If logits are equal, the lower id counts as more probable, as in torch's argmax.
 * Source: Hugging Face's TemperatureLogitsWarper and TopKLogitsWarper (all logits that equal the k-th are candidates).
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
