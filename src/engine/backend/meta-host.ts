import { type Bytes, type DType, itemBytes, ShardlabError, type Tag } from '../../core';
import type * as tf from '../../core/tf';
import type { BufferTable } from './buffer-table';
import type { HostArray, HostMemory } from './host-arrays';
import type { KernelTensor } from './kernel-costs';
import { type ChargeUpdate, metaKernelFunctions } from './meta-updates';
import { WasmElementwise } from './wasm-elementwise';

/** The host of a meta engine: its arrays have a size and a tag, but no bytes. */
export class MetaHostMemory extends WasmElementwise<HostArray> implements HostMemory {
  readonly #table: BufferTable;
  readonly #charge: ChargeUpdate;

  /** `charge` is called for updates on the host, and for copies between host and device. */
  constructor(table: BufferTable, charge: ChargeUpdate) {
    super({
      kernels: metaKernelFunctions(charge),
      heap: new Uint8Array(0),
      // A kernel takes the offset 0 for "no array", so offsets here are not 0.
      offsetOf: () => 8,
      changed() {},
      reserve: () => 8,
    });
    this.#table = table;
    this.#charge = charge;
  }

  get bytes(): Bytes {
    return this.#table.bytesIn('host');
  }

  get numArrays(): number {
    return this.#table.sizeIn('host');
  }

  allocate(length: number, tag: Tag, dtype: DType = 'float32'): HostArray {
    const bytes = length * itemBytes(dtype);
    const array: HostArray = {
      length,
      dtype,
      bytes,
      view: noValues,
      bytesView: noValues,
      dispose: () => this.#table.remove(array),
    };
    this.#table.tagged(tag, () => this.#table.add(array, bytes, dtype, 'host'));
    return array;
  }

  fromDevice(tensor: tf.Tensor, _offset: number, length: number): void {
    const copied = flat(tensor.dtype as DType, length); // the engine makes tensors only of the types in DType
    this.#charge('fromDevice', [copied], [copied]);
  }

  toDevice(array: HostArray, _at: number, length: number): void {
    const copied = flat(array.dtype, length);
    this.#charge('toDevice', [copied], [copied]);
  }
}

function flat(dtype: DType, length: number): KernelTensor {
  return { shape: [length], dtype, declared: undefined };
}

function noValues(): never {
  throw new ShardlabError(
    'ENGINE',
    'A dry run has no values, but this code reads or writes the values of a host array; check engine.hasValues first.',
  );
}
