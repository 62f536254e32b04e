import { ConfigError } from '../../core/errors';
import { Block } from '../block';
import { type GptShape, LanguageModel } from './language-model';

export type { GptShape } from './language-model';

/** A GPT's size and the seed of its initial values. */
export interface GptOptions extends GptShape {
  /** Default 0. */
  readonly seed?: number;
}

/** A pre-norm GPT with learned positions and tanh-GELU. Shapes: ids [B, T] int32, targets [B·T] int32 → scalar loss. */
export class GPT extends LanguageModel<Block> {
  constructor(shape: GptShape) {
    super(shape, () => new Block(shape));
  }
}

/** A GPT with seeded initial values: the same on every rank. Throws: CONFIG when sizes contradict each other. */
export function gpt(options: GptOptions): GPT {
  const { seed = 0, ...shape } = options;
  requireSizes('gpt', shape);
  return new GPT(shape).manualSeed(seed);
}

/** Throws: CONFIG naming the size that is not a whole number from 1, or heads that do not divide dim. */
export function requireSizes(what: string, shape: GptShape): void {
  for (const [name, value] of Object.entries(shape)) {
    if (typeof value === 'number' && (!Number.isInteger(value) || value < 1)) {
      throw new ConfigError(`${what}: ${name} is ${value}; give a whole number of at least 1`);
    }
  }
  if (shape.dim % shape.heads !== 0) {
    throw new ConfigError(
      `${what}: dim ${shape.dim} is not divisible by heads ${shape.heads}; change one of them`,
    );
  }
}
