/*
 * [Note: random models] test/data/random_models_reference.py makes a model of random blocks and a random plan from each seed,
 * and records torch's gradients of the whole model. `interpret.ts` makes the same model from the description, `train.ts`
 * distributes it over ranks as the plan says and runs backward, and `suite.ts` compares every gradient.
 */

/** A block; which fields it has depends on its kind. */
export interface BlockSpec {
  readonly kind: string;
  readonly width: number;
  readonly out: number;
  readonly mid: number;
  readonly heads: number;
  readonly groups: number;
  readonly layers: number;
  readonly rows: number;
  readonly second: number;
  readonly stride: number;
  readonly act: 'relu' | 'tanh' | 'gelu' | 'silu' | 'sigmoid' | null;
  readonly bias: boolean;
  readonly residual?: boolean;
  readonly spare: boolean;
  readonly causal: boolean;
  readonly both: boolean;
  readonly cell: 'LSTM' | 'GRU' | 'RNN';
  readonly norm: 'LayerNorm' | 'RMSNorm' | 'GroupNorm' | 'BatchNorm1d' | 'BatchNorm2d';
  readonly pool: 'max' | 'mean' | null;
  readonly of: 'sequence' | 'image';
}

/** The norm of a gradient and its products with three vectors; null: torch has no gradient. */
export type Digest = readonly [norm: number, ...products: number[]] | null;

/** A model, its plan, and what torch computes. */
export interface RandomModel {
  /** The seed, or what a model that is not random shows. */
  readonly name: number | string;
  /** The shape of one row. */
  readonly input: readonly number[];
  /** The number of tokens, if rows are tokens. */
  readonly tokens?: number;
  /** The width of the second input. */
  readonly second: number | null;
  readonly loss: 'squares' | 'classes';
  readonly blocks: readonly BlockSpec[];
  /** The indices of blocks, in the order in which forward applies them; a block may appear twice. */
  readonly order: readonly number[];
  /** Names of pairs of layers: the first gets the weight of the second. */
  readonly tied: readonly (readonly [string, string])[];
  /** The first parts of the names of parameters that do not train. */
  readonly frozen: readonly string[];
  /** The blocks in evaluation mode. */
  readonly evaluated: readonly number[];
  readonly tp: number;
  readonly dp: number;
  readonly styles: Readonly<Record<string, string>>;
  readonly units: 'none' | 'DDP' | 'fullyShard' | 'FSDP';
  readonly wrapped: readonly number[];
  readonly checkpointed: readonly number[];
  readonly backward: 'eager' | 'gradients';
  /** The number of backward passes. */
  readonly micro: number;
  /** Whether the cell applies the blocks itself, and not the model. */
  readonly apart: boolean;
  /** Whether the squares of all parameters are added, computed before or after the model. */
  readonly penalty: 'before' | 'after' | null;
  readonly losses: readonly number[];
  readonly gradients: Readonly<Record<string, Digest>>;
}
