import { ShardlabError } from '../core/errors';
import type * as tf from '../core/tf';
import type { Bytes } from '../core/units';
import type { FusedKernels } from './kernels/fused-kernels';
import { offsetOf, type WasmContext } from './wasm-context';
import type { ArrayPlaces } from './wasm-elementwise';

/**
 * Reports to the backend that values changed in place, because its convolutions cache packed copies by tensor number.
 */
export function touch({ backend }: WasmContext, tensor: tf.Tensor): void {
  const { id, memoryOffset } = backend.dataIdMap.get(tensor.dataId);
  backend.wasm.tfjs.disposeData(id);
  backend.wasm.tfjs.registerTensor(id, tensor.size, memoryOffset ?? 0);
}

/** The backend's tensors as arrays for updates. */
export class DevicePlaces implements ArrayPlaces<tf.Tensor> {
  readonly kernels: FusedKernels;
  readonly #context: WasmContext;

  constructor(context: WasmContext) {
    this.#context = context;
    this.kernels = context.kernels;
  }

  get heap(): Uint8Array {
    return this.#context.backend.wasm.HEAPU8;
  }

  offsetOf(tensor: tf.Tensor): number {
    return offsetOf(this.#context, tensor);
  }

  sizeOf(tensor: tf.Tensor): number {
    return tensor.size;
  }

  describe({ dtype, shape }: tf.Tensor): string {
    return `${dtype} [${shape}]`;
  }

  isFloat32({ dtype }: tf.Tensor): boolean {
    return dtype === 'float32';
  }

  changed(tensor: tf.Tensor): void {
    touch(this.#context, tensor);
  }

  reserve(bytes: Bytes): number {
    const start = this.#context.backend.wasm._malloc(bytes) >>> 0;
    if (start !== 0) return start;
    throw new ShardlabError(
      'OUT_OF_MEMORY',
      `${bytes} bytes for tables do not fit on the engine's full heap.`,
    );
  }
}
