import {
  isLanguageModel,
  isTransposed,
  type LoraConfig,
  type ModelConfig,
  publishedName,
} from '../../../config';
import { decodeValues, encodeValues } from '../format/stored-dtypes';
import type { StoredArray } from '../load/catalog';

/** A layer's adapter in a checkpoint. `scale` is alpha / r, the factor of the matmul B A. */
export interface StoredAdapter {
  readonly a: StoredArray;
  readonly b: StoredArray;
  /** For DoRA: the norm of each row of the matrix after B A is added. See [Note: DoRA]. */
  readonly magnitudes: StoredArray | undefined;
  readonly scale: number;
}

const PART = /^(.*\.)?lora_([AB]\.weight|magnitude_vector)$/;

/** Number of elements that are read at once. */
const BLOCK = 2 ** 20;

/** Whether a parameter belongs to an adapter. */
export function isOfAdapter(name: string): boolean {
  return PART.test(name);
}

/** Returns the adapters of a checkpoint; each key is the name of the matrix to which the adapter belongs. */
export function adaptersIn(
  arrays: ReadonlyMap<string, StoredArray>,
  { alpha, r }: Pick<LoraConfig, 'alpha' | 'r'>,
): Map<string, StoredAdapter> {
  const adapters = new Map<string, StoredAdapter>();
  for (const [name, a] of arrays) {
    const [, layer = '', part] = PART.exec(name) ?? [];
    const b = arrays.get(`${layer}lora_B.weight`);
    if (part !== 'A.weight' || b === undefined) continue;
    const magnitudes = arrays.get(`${layer}lora_magnitude_vector`);
    adapters.set(`${layer}weight`, { a, b, magnitudes, scale: alpha / r });
  }
  return adapters;
}

/** The stored bytes of consecutive elements of an array; `start` is the index of the first element. */
export interface StoredBlock {
  readonly bytes: Uint8Array;
  readonly start: number;
}

/** Reads an array in blocks. */
export function* blocksIn({ pieces }: StoredArray): Generator<StoredBlock> {
  for (const { file, tensor, start: first, length } of pieces) {
    for (let start = 0; start < length; start += BLOCK)
      yield { bytes: file.read(tensor, start, Math.min(BLOCK, length - start)), start: first + start };
  }
}

/** Returns a function that takes a block of a matrix and returns the block's bytes after the adapter is merged into it. */
export function mergerOf(adapter: StoredAdapter, matrix: StoredArray): (block: StoredBlock) => Uint8Array {
  const { dtype } = matrix;
  const addTo = adderOf(adapter);
  const [outputs = 0, inputs = 1] = matrix.shape;
  const rowOf = (element: number): number => Math.floor(element / inputs);
  const summed = ({ bytes, start }: StoredBlock) => addTo(decodeValues(bytes, dtype), start);
  const factors = new Float64Array(outputs).fill(1);
  if (adapter.magnitudes !== undefined) {
    const squares = new Float64Array(outputs);
    for (const block of blocksIn(matrix)) {
      summed(block).forEach((value, i) => {
        const row = rowOf(block.start + i);
        squares[row] = (squares[row] ?? 0) + value * value;
      });
    }
    const magnitudes = valuesOf(adapter.magnitudes);
    squares.forEach((square, row) => {
      factors[row] = (magnitudes[row] ?? 0) / Math.sqrt(square);
    });
  }
  return (block) => {
    const values = summed(block);
    values.forEach((value, i) => {
      values[i] = value * (factors[rowOf(block.start + i)] ?? 1);
    });
    return encodeValues(values, dtype);
  };
}

type Values = ReturnType<typeof decodeValues>;

/** Returns a function that adds scale * B A in place to elements of the adapter's matrix; the elements begin at index `start`. */
function adderOf({ a, b, scale }: StoredAdapter): (values: Values, start: number) => Values {
  const [valuesA, valuesB] = [valuesOf(a), valuesOf(b)];
  const [r = 0, inputs = 1] = a.shape;
  return (values, start) => {
    for (let i = 0; i < values.length; i++) {
      const [row, column] = [Math.floor((start + i) / inputs), (start + i) % inputs];
      let sum = 0;
      for (let k = 0; k < r; k++) sum += (valuesB[row * r + k] ?? 0) * (valuesA[k * inputs + column] ?? 0);
      values[i] = (values[i] ?? 0) + scale * sum;
    }
    return values;
  };
}

function valuesOf({ dtype, pieces }: StoredArray): Values {
  return decodeValues(
    Buffer.concat(pieces.map(({ file, tensor, length }) => file.read(tensor, 0, length))),
    dtype,
  );
}

/** Returns the name that an adapter's parameter has in adapter_model.safetensors. Source: PEFT's get_peft_model_state_dict. */
export function peftName(shape: ModelConfig, name: string): string {
  const [, layer = '', part] = PART.exec(name) ?? [];
  const { name: weight } = publishedName(shape, `${layer}weight`);
  return `base_model.model.${weight.replace(/weight$/, '')}lora_${part}`;
}

/** Returns the name by which PEFT finds an adapted layer: its name in the published model. */
export function peftTarget(shape: ModelConfig, layer: string): string {
  return publishedName(shape, `${layer}.weight`).name.replace(/\.weight$/, '');
}

/**
 * Returns the content of adapter_config.json, from which PEFT builds the adapters. `layers` are the names of the adapted
 * matrices.
 */
export function peftConfig(
  shape: ModelConfig,
  { r, alpha, dropout, useDora }: LoraConfig,
  layers: Iterable<string>,
): Readonly<Record<string, unknown>> {
  const targets = Array.from(layers, (name) => peftTarget(shape, name.replace(/\.weight$/, '')));
  return {
    peft_type: 'LORA',
    base_model_name_or_path: 'from' in shape ? (shape.from ?? null) : null,
    ...(isLanguageModel(shape) ? { task_type: 'CAUSAL_LM' } : {}),
    r,
    lora_alpha: alpha,
    lora_dropout: dropout,
    use_dora: useDora,
    target_modules: targets,
    // True if matrices are [inputs, outputs], as in GPT-2's Conv1D.
    fan_in_fan_out: isTransposed(shape),
    bias: 'none',
    inference_mode: true,
  };
}
