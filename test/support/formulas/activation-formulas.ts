import type { ActivationCheckpointingConfig } from '../../../src/config/settings/memory';
import { ConfigError } from '../../../src/core/errors';
import type { Bytes } from '../../../src/core/units';
import type { GptShape } from '../../../src/nn/models/gpt';
import { chooseLayers, EXPENSIVE_OPS } from '../../../src/sharding/recompute/apply-activation-checkpointing';

/** A GPT's forward on one rank. */
export interface ActivationQuestion {
  readonly shape: GptShape;
  /** Sequences of the rank's microbatch, of `shape.seq` tokens. */
  readonly batch: number;
  readonly checkpointing: ActivationCheckpointingConfig | null;
  /** Whether blocks' activations are on the host. Default false. */
  readonly offload?: boolean;
  /** Whether attention is one kernel, as it is on an engine with a BLAS. Default true. */
  readonly fusedAttention?: boolean;
}

/** A tensor that is saved for backward. */
export interface ActivationTerm {
  /** Its name, and the operation for which it is saved. */
  readonly name: string;
  readonly bytes: Bytes;
}

/** The tensors of a GPT that are held between forward and backward, by module. */
export interface ActivationPrediction {
  readonly modules: readonly { readonly module: string; readonly terms: readonly ActivationTerm[] }[];
  readonly deviceBytes: Bytes;
  readonly hostBytes: Bytes;
  /** Operations of all second forwards; one forward of each checkpointed layer, except the stored results. */
  readonly recomputedFlops: number;
}

/** Elements by name. */
type Elements = readonly (readonly [name: string, elements: number])[];

interface Sizes {
  /** Values of one activation of the residual stream: B·T·d. */
  readonly stream: number;
  /** Its rows: B·T. */
  readonly rows: number;
  /** Weights of attention: B·h·T². */
  readonly pairs: number;
  readonly dim: number;
  readonly seq: number;
  readonly vocab: number;
  /** The operation of attention, or 'parts'. */
  readonly attention: 'causalAttention' | 'flashAttention' | 'parts';
  /** Tensors that attention saves in addition to its inputs and its output. */
  readonly ofAttention: readonly [name: string, elements: number];
}

const ITEM_BYTES = 4;

/**
 * Activations of a GPT to the byte, one term per saved tensor, as the operations of src/engine/backend/ops.ts save them.
 * Throws: CONFIG for a budget that cannot be met, and for kernels that no formula knows.
 * Source: the shape of the list is that of Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
 * Models", section 4.1; the terms are those of this engine: float32, no dropout, fused norms.
 */
export function predictActivations(question: ActivationQuestion): ActivationPrediction {
  const { shape, checkpointing, offload = false } = question;
  const sizes = sizesOf(question);
  const kept = keptTerms(sizes, opsOf(checkpointing));
  const chosen = new Set(placesOf(question, sizes));
  const blocks = Array.from({ length: shape.layers }, (_, place) => ({
    module: `blocks.${place}`,
    terms: termsOf(chosen.has(place) ? kept : savedByBlock(sizes)),
  }));
  const root = { module: '', terms: termsOf(savedByRoot(sizes)) };
  const [rootBytes, blockBytes] = [bytesOf([root]), bytesOf(blocks)];
  return {
    modules: [root, ...blocks],
    deviceBytes: offload ? rootBytes : rootBytes + blockBytes,
    hostBytes: offload ? blockBytes : 0,
    recomputedFlops: chosen.size * (flopsOfBlock(sizes) - keptFlops(sizes, opsOf(checkpointing))),
  };
}

function sizesOf({ shape, batch, fusedAttention: fused = true }: ActivationQuestion): Sizes {
  const { dim, heads, seq, vocab } = shape;
  const rows = batch * seq;
  const pairs = batch * heads * seq ** 2;
  const common = { stream: rows * dim, rows, pairs, dim, seq, vocab };
  if (shape.attention === 'flash')
    return {
      ...common,
      attention: 'flashAttention',
      ofAttention: ['log-sum-exps of scores', batch * heads * seq],
    };
  const attention = fused ? 'causalAttention' : 'parts';
  return { ...common, attention, ofAttention: ['attention weights', pairs] };
}

/** The final norm, the head's matmul and the loss, whose gradient takes the logits' buffer. */
function savedByRoot({ stream, rows, vocab }: Sizes): Elements {
  return [
    ['last block’s output, for ln_f', stream],
    ['ln_f statistics', 2 * rows],
    ['ln_f output, for the head', stream],
    ['logits, for the loss', rows * vocab],
  ];
}

/** In the order of a block's forward. */
function savedByBlock({ stream, rows, ofAttention }: Sizes): Elements {
  return [
    ['input, for ln1', stream],
    ['ln1 statistics', 2 * rows],
    ['ln1 output, for qkv', stream],
    ['queries, keys and values', 3 * stream],
    ofAttention,
    ['attention output, for proj', stream],
    ['middle, for ln2', stream],
    ['ln2 statistics', 2 * rows],
    ['ln2 output, for fc1', stream],
    ['fc1 output, for gelu', 4 * stream],
    ['gelu output, for fc2', 4 * stream],
  ];
}

/** The tensors that a checkpointed block stores: its input, and results of operations except unused ones. */
function keptTerms(sizes: Sizes, ops: ReadonlySet<string>): Elements {
  const results = resultsOf(sizes).filter(({ op }) => ops.has(op));
  // Scores are only for the softmax; if its result is stored, the scores are not computed again.
  const unread = ops.has('causalSoftmax') ? [SCORES, LAST] : [LAST];
  return [
    ['input', sizes.stream],
    ...results.flatMap(({ kept }) => kept).filter(([name]) => !unread.includes(name)),
  ];
}

function keptFlops(sizes: Sizes, ops: ReadonlySet<string>): number {
  return resultsOf(sizes).reduce((sum, { op, flops }) => sum + (ops.has(op) ? flops : 0), 0);
}

const SCORES = 'scores';
/** Its sum with the residual stream is the block's output, which the next block stores. */
const LAST = 'fc2 output';

interface Result {
  readonly op: string;
  readonly kept: Elements;
  readonly flops: number;
}

/** Results of a block's operations, with all outputs of their kernels. */
function resultsOf(sizes: Sizes): Result[] {
  const { stream, rows, dim } = sizes;
  const linear = (name: string, outputs: number, inputs: number): Result => ({
    op: 'linear',
    kept: [[`${name} output`, outputs * stream]],
    flops: 2 * outputs * stream * inputs * dim,
  });
  return [
    { op: 'layerNorm', kept: [['norms and statistics', 2 * stream + 4 * rows]], flops: 2 * stream },
    linear('qkv', 3, 1),
    ...resultsOfAttention(sizes),
    linear('proj', 1, 1),
    linear('fc1', 4, 1),
    { op: 'gelu', kept: [['gelu output', 4 * stream]], flops: 4 * stream },
    linear('fc2', 1, 4),
  ];
}

function resultsOfAttention({ stream, pairs, seq, attention, ofAttention }: Sizes): Result[] {
  const flops = 4 * stream * seq;
  return attention !== 'parts'
    ? [{ op: attention, kept: [['attention output', stream], ofAttention], flops }]
    : [
        {
          op: 'matMul',
          kept: [
            [SCORES, pairs],
            ['attention output by head', stream],
          ],
          flops,
        },
        { op: 'causalSoftmax', kept: [['attention weights', pairs]], flops: pairs },
      ];
}

/** All operations and the two additions to the residual stream. */
function flopsOfBlock(sizes: Sizes): number {
  return resultsOf(sizes).reduce((sum, { flops }) => sum + flops, 2 * sizes.stream);
}

/** Operations whose results are stored; attention without its own kernel counts by its parts. */
function opsOf(config: ActivationCheckpointingConfig | null): ReadonlySet<string> {
  if (config === 'selective') return new Set([...EXPENSIVE_OPS, 'causalSoftmax']);
  if (config === null || config === 'full' || !('saveOps' in config)) return new Set();
  const known = [
    'linear',
    'causalAttention',
    'flashAttention',
    'causalSoftmax',
    'layerNorm',
    'gelu',
    'matMul',
  ];
  const unknown = config.saveOps.find((op) => !known.includes(op));
  if (unknown !== undefined) {
    throw new ConfigError(
      `no formula knows what a block's '${unknown}' gives; use ${known.join(', ')}, or measure it in a run`,
    );
  }
  const parts = config.saveOps.includes('causalAttention') ? ['matMul', 'causalSoftmax'] : [];
  return new Set([...config.saveOps, ...parts]);
}

/** Layers that are checkpointed. */
function placesOf({ shape, checkpointing }: ActivationQuestion, sizes: Sizes): number[] {
  const all = Array.from({ length: shape.layers }, (_, place) => place);
  if (checkpointing === null) return [];
  if (typeof checkpointing === 'string' || 'saveOps' in checkpointing) return all;
  if ('everyNth' in checkpointing) return all.filter((place) => place % checkpointing.everyNth === 0);
  const cost = {
    savedBytes: bytesOf([{ terms: termsOf(savedByBlock(sizes)) }]),
    inputBytes: sizes.stream * ITEM_BYTES,
    flops: flopsOfBlock(sizes),
  };
  return [
    ...chooseLayers(
      all.map(() => cost),
      checkpointing.budgetBytes,
    ).checkpointed,
  ];
}

function termsOf(elements: Elements): ActivationTerm[] {
  return elements.map(([name, count]) => ({ name, bytes: count * ITEM_BYTES }));
}

function bytesOf(modules: readonly { readonly terms: readonly ActivationTerm[] }[]): Bytes {
  return modules.flatMap(({ terms }) => terms).reduce((sum, { bytes }) => sum + bytes, 0);
}
