import { ADAMW_8BIT_DEFAULTS } from '../../config';
import { ConfigError, type Tag } from '../../core';
import type { StateBuffer } from '../../nn';
import { type AdamWOptions, adamFactors, adamSettings, adamWRule } from './adamw';
import { BlockwiseValues } from './blockwise-values';
import { optimizerClass } from './rule-optimizer';
import type { BufferState, FlatArray, StateMemory, UpdateRule } from './update-rule';

/** The settings of AdamW, and the block size. */
export interface AdamW8bitOptions extends Omit<AdamWOptions, 'amsgrad'> {
  /** The number of elements that share a scale. */
  readonly blockSize?: number;
}

/** The minimum number of elements of a buffer with 8-bit moments. Source: bitsandbytes' min_8bit_size. */
export const MIN_8BIT_SIZE = 4096;

/**
 * AdamW with moments of one byte per element: a code of a dynamic map (signed for the first moment, unsigned for the
 * second), and a float32 scale per block (its largest absolute value). A step decodes the moments, updates as AdamW does, and
 * encodes them again; the parameter's update uses the moments before they are encoded. Each state buffer (a parameter or a flat
 * shard) is divided into blocks, so a shard has other blocks than the whole parameter. Buffers below 4096 elements have float32
 * moments.
 * Source: Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization; bitsandbytes' AdamW8bit.
 */
export class AdamW8bit extends optimizerClass<AdamW8bitOptions>(
  'AdamW8bit',
  ADAMW_8BIT_DEFAULTS,
  adamW8bitRule,
) {}

type Settings = Omit<Required<AdamW8bitOptions>, 'lr' | 'fused'>;

/** Returns the rule of AdamW with moments of one byte. */
export function adamW8bitRule(settings: Settings): UpdateRule {
  const whole = adamWRule({ ...settings, amsgrad: false });
  return {
    stateNames: whole.stateNames,
    granularity: settings.blockSize,
    settings: adamSettings(settings),
    maximize: settings.maximize,
    check: requireEqualCopies,
    createState: (memory, size, tag) =>
      size < MIN_8BIT_SIZE
        ? whole.createState(memory, size, tag)
        : quantizedMoments(memory, { size, tag }, settings),
  };
}

/**
 * Throws: CONFIG if other ranks have a copy of a parameter that is in one buffer with other parameters. A block may then contain
 * elements of several parameters, so scales and codes of the copies would differ, and the copies would become different.
 */
function requireEqualCopies({ name, size, slices }: StateBuffer): void {
  const copy = slices.length > 1 ? slices.find(({ parameter }) => parameter.copiedBy !== null) : undefined;
  if (copy === undefined || size < MIN_8BIT_SIZE) return;
  const { parameter } = copy;
  throw new ConfigError(
    `AdamW8bit: ${parameter.copiedBy} have a copy of ${parameter.name}, which is in one unit${name === '' ? '' : ` ("${name}")`} with other ` +
      'parameters. Blocks of 8-bit states would mix these parameters, so the copies would become different. Use AdamW, ' +
      'or strategy NO_SHARD (DDP), which has separate states for each parameter. If the parameter is a tied embedding, ' +
      'tied: false in the model also avoids the copies',
  );
}

function quantizedMoments<T extends FlatArray>(
  memory: StateMemory<T>,
  place: { readonly size: number; readonly tag: Tag },
  settings: Settings,
): BufferState<T> {
  const { blockSize } = settings;
  const expAvg = new BlockwiseValues(memory, place, blockSize, 'signed');
  const expAvgSq = new BlockwiseValues(memory, place, blockSize, 'unsigned');
  const named = (name: string): BlockwiseValues<T> => (name === 'exp_avg' ? expAvg : expAvgSq);
  return {
    update(range) {
      expAvg.close();
      expAvgSq.close();
      const moments = { expAvg: expAvg.arrays, expAvgSq: expAvgSq.arrays, first: range.offset };
      memory.updates.adamW8bit({ ...range, ...adamFactors(settings, range.settings), ...moments, blockSize });
    },
    read: (name, offset, length) => named(name).read(offset, length),
    write: (name, offset, values) => named(name).write(offset, values),
    dispose() {
      expAvg.dispose();
      expAvgSq.dispose();
    },
  };
}
