import { type DType, itemBytes, ShardlabError, type SimulatedClock } from '../../core';
import * as tf from '../../core/tf';
import type { BufferTable } from './buffer-table';
import { currentTrace } from './current-trace';
import { isView, type KernelCall, type KernelCosts, type KernelTensor } from './kernel-costs';
import type { TensorData, WasmBackend, WasmModule } from './wasm-backend';
import { type MemoryLimit, requireRoom, requireShape } from './wasm-memory';

/** Values of a tensor as tfjs returns them. */
export type Values = Float32Array | Int32Array | Uint8Array;

/** A heap without bytes. All buffers have the same address. */
const NO_HEAP: WasmModule = {
  HEAPU8: new Uint8Array(0),
  asm: {
    // The memory is made only when code reads it, because even an empty memory reserves 10 GB of addresses. In a dry run, no
    // kernel reads it.
    get memory() {
      return new WebAssembly.Memory({ initial: 0 });
    },
  },
  _malloc: () => 8,
  _free() {},
  cwrap: () => () => undefined,
  tfjs: { registerTensor() {}, disposeData() {} },
};

/** The times of kernels, and the clock that advances by these times. */
export interface MetaTimes {
  readonly clock: SimulatedClock;
  readonly costs: KernelCosts;
}

/**
 * A tfjs backend whose buffers have a size and a tag, but no bytes. This backend has the members of the wasm backend, so the
 * engine's kernels run on it without a change: the kernels allocate, alias and free buffers as usual, but compute nothing.
 *
 * [Note: values in a dry run] Tensors have no values. A read of a single number (a loss, a norm, an overflow flag) returns
 * 0, so losses are finite, and no gradient is clipped or overflows. Every other read is an error, unless the code that reads
 * passes assumed values to `readValues`. For example, the code of experts assumes that rows are spread evenly over experts, and
 * the code of sparse gradients assumes that a gradient contains every row.
 */
export class MetaBackend extends tf.KernelBackend implements WasmBackend {
  readonly wasm = NO_HEAP;
  dataIdNextNumber = 1;
  readonly #data = new Map<object, TensorData>();
  // The type assumes that every id is in the map, because kernels use only live tensors.
  readonly dataIdMap = this.#data as WasmBackend['dataIdMap'];
  readonly #table: BufferTable;
  readonly #limit: MemoryLimit;
  readonly #times: MetaTimes | null;
  #assumed: (() => Values) | null = null;
  #kernelDepth = 0;

  /** `times` is null if kernels take no time. */
  constructor(table: BufferTable, limit: MemoryLimit, times: MetaTimes | null) {
    super();
    this.#table = table;
    this.#limit = limit;
    this.#times = times;
  }

  override move(dataId: object, _: unknown, shape: number[], dtype: tf.DataType, refCount: number): void {
    requireShape(shape);
    // The engine makes tensors only of the types in DType.
    const bytes = tf.util.sizeFromShape(shape) * itemBytes(dtype as DType);
    requireRoom(this.#table, this.#limit, { bytes, shape, dtype });
    this.#data.set(dataId, { id: this.dataIdNextNumber++, memoryOffset: 8, shape, dtype, refCount });
    this.#table.add(dataId, bytes, dtype as DType);
  }

  override write(values: tf.backend_util.BackendValues, shape: number[], dtype: tf.DataType): object {
    const dataId = {};
    this.move(dataId, values, shape, dtype, 1);
    return dataId;
  }

  makeOutput(shape: readonly number[], dtype: tf.DataType): tf.TensorInfo {
    const dataId = {};
    this.move(dataId, null, [...shape], dtype, 1);
    return { dataId, shape: [...shape], dtype };
  }

  override disposeData(dataId: object, force = false): boolean {
    const data = this.#data.get(dataId);
    if (data === undefined) return true;
    data.refCount--;
    if (!force && data.refCount > 0) return false;
    this.#data.delete(dataId);
    this.#table.remove(dataId);
    return true;
  }

  override incRef(dataId: object): void {
    const data = this.#data.get(dataId);
    if (data !== undefined) data.refCount++;
  }

  override refCount(dataId: object): number {
    return this.#data.get(dataId)?.refCount ?? 0;
  }

  override numDataIds(): number {
    return this.#data.size;
  }

  override memory(): { unreliable: boolean } {
    return { unreliable: false };
  }

  override floatPrecision(): 16 | 32 {
    return 32;
  }

  override epsilon(): number {
    return 1e-7; // the value of tfjs's EPSILON_FLOAT32
  }

  override dispose(): void {}

  /** Returns no values: kernels that read or write values here have no effect. */
  typedArrayFromHeap({ dtype }: tf.TensorInfo): Values {
    return arrayOf(dtype, 0);
  }

  /** Returns assumed values, or 0 for a single number. See [Note: values in a dry run]. */
  override readSync(dataId: object): Values {
    const { shape, dtype } = this.dataIdMap.get(dataId);
    if (this.#assumed !== null) return this.#assumed();
    const size = tf.util.sizeFromShape([...shape]);
    if (size === 1) return arrayOf(dtype, 1);
    throw new ShardlabError(
      'ENGINE',
      `A dry run has no values, but this code reads the values of a tensor ${dtype} [${shape}]: its result depends on data. ` +
        'Leave that part out of the dry run, or read with readValues(), which gets assumed values.',
      { details: { shape, dtype } },
    );
  }

  override async read(dataId: object): Promise<Values> {
    return this.readSync(dataId);
  }

  /** Runs `work`, in which reads return `values`. */
  assuming<T>(values: () => Values, work: () => T): T {
    const before = this.#assumed;
    this.#assumed = values;
    try {
      return work();
    } finally {
      this.#assumed = before;
    }
  }

  /** Runs a kernel and advances the clock by the kernel's time. */
  timed(name: string, call: Parameters<tf.KernelFunc>[0], kernel: tf.KernelFunc): ReturnType<tf.KernelFunc> {
    if (this.#times === null || this.#kernelDepth > 0) return kernel(call);
    this.#kernelDepth++;
    let made: ReturnType<tf.KernelFunc>;
    try {
      made = kernel(call);
    } finally {
      this.#kernelDepth--;
    }
    // tfjs passes lists for Concat and similar kernels, and null for optional inputs; its types do not allow this.
    const inputsOrNulls = Object.values(call.inputs) as (tf.TensorInfo | null | undefined)[];
    const inputs = inputsOrNulls.filter((input) => input != null);
    const outputs = Array.isArray(made) ? made : [made];
    if (!isView(name, inputs[0], outputs)) {
      const describe = (info: tf.TensorInfo): KernelTensor => this.#describe(info);
      const attrs = call.attrs ?? {};
      this.charge({
        name,
        inputs: inputs.map(describe),
        outputs: outputs.map(describe),
        attrs,
        place: 'device',
      });
    }
    return made;
  }

  /**
   * Advances the clock by the time of an in-place update, except if a kernel makes the update, because then the kernel's time
   * includes the update.
   */
  chargeUpdate(
    name: string,
    reads: readonly KernelTensor[],
    writes: readonly KernelTensor[],
    place: KernelCall['place'],
  ): void {
    if (this.#kernelDepth === 0) this.charge({ name, inputs: reads, outputs: writes, attrs: {}, place });
  }

  /** Advances the clock by the time of a kernel. */
  charge(call: Omit<KernelCall, 'declared' | 'module'>): void {
    if (this.#times === null) return;
    const { declared, module } = this.#table.currentTag;
    this.#times.clock.compute(this.#times.costs({ ...call, declared, module }));
  }

  #describe({ dataId, shape, dtype }: tf.TensorInfo): KernelTensor {
    return { shape, dtype: dtype as DType, declared: this.#table.tagOf(dataId).declared };
  }
}

/** Returns a tensor's values; in a dry run, the values of `assumed`. See [Note: values in a dry run]. */
export function readValues(tensor: tf.Tensor, assumed: () => Values): Values {
  const backend = tf.backend();
  const read = (): Values => tensor.dataSync();
  if (backend instanceof MetaBackend) return backend.assuming(assumed, read);
  return currentTrace()?.checking(read) ?? read();
}

function arrayOf(dtype: tf.DataType, length: number): Values {
  if (dtype === 'int32') return new Int32Array(length);
  return dtype === 'bool' ? new Uint8Array(length) : new Float32Array(length);
}
