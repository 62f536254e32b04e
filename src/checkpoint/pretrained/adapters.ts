import type { LoraConfig } from '../../config/settings/lora';
import type { ModelConfig } from '../../config/settings/model';
import { decodeValues, encodeValues } from '../format/stored-dtypes';
import type { StoredArray } from '../load/catalog';
import { publishedName } from './published-names';

/** The matrices of a layer's adapter in a checkpoint, and the factor alpha / r of their product. */
export interface StoredAdapter {
  readonly a: StoredArray;
  readonly b: StoredArray;
  readonly scale: number;
}

const PART = /^(.*\.)?lora_([AB])\.weight$/;

/** Whether a parameter belongs to an adapter. */
export function isOfAdapter(name: string): boolean {
  return PART.test(name);
}

/** Returns the adapters of a checkpoint by the name of the matrix to which their product is added. */
export function adaptersIn(
  arrays: ReadonlyMap<string, StoredArray>,
  { alpha, r }: Pick<LoraConfig, 'alpha' | 'r'>,
): Map<string, StoredAdapter> {
  const found = new Map<string, StoredAdapter>();
  for (const [name, a] of arrays) {
    const [, layer = '', part] = PART.exec(name) ?? [];
    const b = arrays.get(`${layer}lora_B.weight`);
    if (part === 'A' && b !== undefined) found.set(`${layer}weight`, { a, b, scale: alpha / r });
  }
  return found;
}

/**
 * Returns a function that adds an adapter's product to a part of its matrix: it takes the stored bytes of the elements from
 * `start` on, and returns their bytes afterwards.
 */
export function mergerOf({
  a,
  b,
  scale,
}: StoredAdapter): (bytes: Uint8Array, array: StoredArray, start: number) => Uint8Array {
  const [valuesA, valuesB] = [valuesOf(a), valuesOf(b)];
  const [r = 0, inputs = 1] = a.shape;
  return (bytes, { dtype }, start) => {
    const values = decodeValues(bytes, dtype);
    for (let i = 0; i < values.length; i++) {
      const [row, column] = [Math.floor((start + i) / inputs), (start + i) % inputs];
      let sum = 0;
      for (let k = 0; k < r; k++) sum += (valuesB[row * r + k] ?? 0) * (valuesA[k * inputs + column] ?? 0);
      values[i] = (values[i] ?? 0) + scale * sum;
    }
    return encodeValues(values, dtype);
  };
}

function valuesOf({ dtype, pieces }: StoredArray): Float32Array | Int32Array {
  return decodeValues(
    Buffer.concat(pieces.map(({ file, tensor, length }) => file.read(tensor, 0, length))),
    dtype,
  );
}

/** Returns the name of an adapter's parameter in adapter_model.safetensors. Source: PEFT's get_peft_model_state_dict. */
export function peftName(shape: ModelConfig, name: string): string {
  const [, layer = '', part] = PART.exec(name) ?? [];
  const { name: weight } = publishedName(shape, `${layer}weight`);
  return `base_model.model.${weight.replace(/weight$/, '')}lora_${part}.weight`;
}

/** Returns adapter_config.json, by which PEFT builds the adapters. `layers` are the names of the adapted matrices. */
export function peftConfig(
  shape: ModelConfig,
  { r, alpha, dropout }: LoraConfig,
  layers: Iterable<string>,
): Readonly<Record<string, unknown>> {
  const targets = Array.from(layers, (name) => publishedName(shape, name).name.replace(/\.weight$/, ''));
  return {
    peft_type: 'LORA',
    base_model_name_or_path: 'from' in shape ? (shape.from ?? null) : null,
    ...(shape.kind === 'gpt' || shape.kind === 'llama' ? { task_type: 'CAUSAL_LM' } : {}),
    r,
    lora_alpha: alpha,
    lora_dropout: dropout,
    target_modules: targets,
    // GPT-2's Conv1D has matrices [inputs, outputs].
    fan_in_fan_out: shape.kind === 'gpt',
    bias: 'none',
    inference_mode: true,
  };
}
