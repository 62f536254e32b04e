import { type Bytes, type DType, itemBytes, ShardlabError, SimulatedClock, type Tag } from '../../core';
import * as tf from '../../core/tf';
import { BufferTable } from './buffer-table';
import type { Engine, Storage } from './engine';
import { HeapHealth } from './heap-health';
import type { HostArray, HostMemory } from './host-arrays';
import { NO_INTERRUPTS } from './interrupts';
import type { KernelCall, KernelCosts, KernelTensor } from './kernel-costs';
import { MetaBackend } from './meta-backend';
import { type ChargeUpdate, metaKernelFunctions } from './meta-updates';
import { conv2DInfo, present, type WasmContext } from './wasm-context';
import { WasmElementwise } from './wasm-elementwise';
import { registerEngineKernels, WasmEngine } from './wasm-engine';
import type { MemoryLimit } from './wasm-memory';

/** The host of a meta engine: its arrays have a size and a tag, but no bytes. */
class MetaHostMemory extends WasmElementwise<HostArray> implements HostMemory {
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

/** Settings of the engine that a meta engine represents. */
export interface MetaEngineOptions {
  /**
   * Whether a BLAS computes matmuls. Without a BLAS, some matmuls need temporaries, and attention consists of several
   * kernels. Default true.
   */
  readonly blas?: boolean;
  /** Times of kernels. Default: kernels take no time. */
  readonly costs?: KernelCosts | undefined;
  /** The engine's clock. Default: a clock that begins at 0. */
  readonly clock?: SimulatedClock;
  /** Largest number of bytes of the engine's buffers. Default: no limit. */
  readonly memoryLimit?: Bytes | undefined;
}

/** A kernel on the device; its float32 tensors are in the type that the running unit declares. */
export interface ChargedKernel extends Pick<KernelCall, 'name' | 'attrs'> {
  readonly inputs: readonly Omit<KernelTensor, 'declared'>[];
  readonly outputs: readonly Omit<KernelTensor, 'declared'>[];
}

/** An engine without values: a tensor has only a shape, and a buffer has only a size and a tag. */
export interface MetaEngine extends Engine {
  readonly clock: SimulatedClock;
  /** The live buffers. */
  readonly buffers: BufferTable;
  /** Advances the clock by the time of a kernel that has no code here, in the type that the running unit declares. */
  charge(kernel: ChargedKernel): void;
}

/**
 * Runs `work` with a meta engine as tfjs's current backend, and then restores the earlier backend. Tensors that `work` does
 * not dispose are dropped. `work` must not be asynchronous, because other code would then run on the meta backend.
 *
 * [Note: the meta engine] The meta engine is the wasm engine's code, including its kernels, on a backend whose heap has no
 * bytes; tfjs's kernels have counterparts that handle buffers in the same way. So the meta engine allocates, tags, aliases
 * and frees the same buffers as the wasm engine, including temporaries of kernels, because the same code runs. A new kernel
 * of the wasm engine also runs here if it reads values only through the engine's kernel functions, or if it checks
 * `context.hasValues` first.
 */
export function withMetaEngine<T>(options: MetaEngineOptions, work: (engine: MetaEngine) => T): T {
  const table = new BufferTable();
  const { costs, clock = new SimulatedClock(), blas = true, memoryLimit } = options;
  const limit: MemoryLimit = { bytes: memoryLimit };
  const backend = new MetaBackend(table, limit, costs === undefined ? null : { clock, costs });
  const context: WasmContext = {
    backend,
    table,
    limit,
    baseAddress: 0,
    hasValues: false,
    health: new HeapHealth(),
    interrupts: NO_INTERRUPTS,
    kernels: metaKernelFunctions(chargeOf(backend, 'device')),
    sgemm: blas ? () => {} : null,
  };
  return asCurrent(backend, () => {
    registerMetaKernels();
    registerEngineKernels(context);
    timeMetaKernels();
    return work(new ShapesEngine(context, backend, clock));
  });
}

function chargeOf(backend: MetaBackend, place: KernelCall['place']): ChargeUpdate {
  return (name, reads, writes) => backend.chargeUpdate(name, reads, writes, place);
}

class ShapesEngine extends WasmEngine implements MetaEngine {
  override readonly name = 'meta';
  override readonly clock: SimulatedClock;
  readonly buffers: BufferTable;
  readonly #charge: ChargeUpdate;
  readonly #backend: MetaBackend;

  constructor(context: WasmContext, backend: MetaBackend, clock: SimulatedClock) {
    super(
      context,
      context.sgemm === null
        ? { library: null, reason: 'the dry run represents an engine without a BLAS' }
        : { library: 'none needed: shapes only', path: '', threads: 1 },
      new MetaHostMemory(context.table, chargeOf(backend, 'host')),
    );
    this.clock = clock;
    this.buffers = context.table;
    this.#charge = chargeOf(backend, 'device');
    this.#backend = backend;
  }

  charge({ name, inputs, outputs, attrs }: ChargedKernel): void {
    const { declared } = this.currentTag;
    const declare = (tensor: Omit<KernelTensor, 'declared'>): KernelTensor => ({
      ...tensor,
      declared: tensor.dtype === 'float32' ? declared : undefined,
    });
    this.#backend.charge({
      ...{ name, attrs, place: 'device' },
      ...{ inputs: inputs.map(declare), outputs: outputs.map(declare) },
    });
  }

  override storage({ shape, size, dtype }: tf.Tensor): Storage {
    return {
      address: 0,
      bytes: size * itemBytes(dtype as DType), // the engine makes tensors only of the types in DType
      view() {
        throw new ShardlabError(
          'ENGINE',
          `A dry run has no values, but this code reads or writes the values of a tensor ${dtype} [${shape}]; check ` +
            'engine.hasValues first.',
        );
      },
    };
  }

  override copyInto(target: tf.Tensor, offset: number, source: tf.Tensor): void {
    super.copyInto(target, offset, source);
    // The engine makes tensors only of the types in DType.
    const copied = { shape: source.shape, dtype: source.dtype as DType, declared: undefined };
    this.#charge('copyInto', [copied], [copied]);
  }
}

/** Members of tfjs's engine that its types hide. Source: tfjs-core 4.22, engine.ts. */
interface BackendHolder {
  backendName: string | undefined;
  backendInstance: tf.KernelBackend | null;
}

function asCurrent<T>(backend: MetaBackend, work: () => T): T {
  const holder = tf.engine() as unknown as BackendHolder; // tfjs's types do not have these members
  const { backendName, backendInstance } = holder;
  Object.assign(holder, { backendName: 'meta', backendInstance: backend });
  try {
    return work();
  } finally {
    Object.assign(holder, { backendName, backendInstance });
  }
}

type Infos = Readonly<Record<string, tf.TensorInfo>>;

/** Attributes of tfjs's kernels. */
interface Attributes {
  readonly shape: number[];
  readonly dim: number;
  readonly axis: number;
  readonly reductionIndices: number[];
  readonly keepDims: boolean;
  readonly batchDims: number;
  readonly dtype: tf.DataType;
  readonly value: number;
  readonly start: number;
  readonly stop: number;
  readonly step: number;
  readonly depth: number;
  readonly reps: readonly number[];
  readonly paddings: readonly (readonly [number, number])[];
  readonly perm: readonly number[];
  readonly inputShape: number[];
  /** A number of bins, or the height and width of an image. */
  readonly size: number | number[];
  readonly blockSize: number;
  readonly strides: number;
  readonly pad: 'valid' | 'same';
}

type MetaKernel = (backend: MetaBackend, inputs: Infos, attrs: Attributes) => tf.TensorInfo | tf.TensorInfo[];

const SAME_TYPE =
  'Abs Acos Acosh Asin Asinh Atan Atanh Ceil ClipByValue Cos Cosh Elu Erf Exp Expm1 Floor LeakyRelu Log Log1p LogicalNot ' +
  'Neg OnesLike Reciprocal Relu Relu6 Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Sqrt Square Step Tan Tanh ZerosLike';
const TO_BOOL = 'IsFinite IsInf IsNan';
const BINARY =
  'Add Atan2 BitwiseAnd FloorDiv Maximum Minimum Mod Multiply Pow Prelu RealDiv SquaredDifference Sub EluGrad';
const COMPARISONS = 'Equal Greater GreaterEqual Less LessEqual LogicalAnd LogicalOr LogicalXor NotEqual';

/**
 * Registers counterparts of the wasm kernels of tfjs that models use. Each counterpart makes outputs, temporaries and views,
 * and frees buffers, in the same order as tfjs's kernel. Source: tfjs-backend-wasm 4.22, src/kernels.
 */
function registerMetaKernels(): void {
  for (const name of SAME_TYPE.split(' ')) register(name, (backend, { x }) => like(backend, x));
  for (const name of TO_BOOL.split(' '))
    register(name, (backend, { x }) => backend.makeOutput(present(x).shape, 'bool'));
  for (const name of BINARY.split(' ')) {
    register(name, (backend, inputs) => {
      const [a, b] = Object.values(inputs);
      return backend.makeOutput(broadcast(present(a), present(b)), present(a).dtype);
    });
  }
  for (const name of COMPARISONS.split(' '))
    register(name, (backend, { a, b }) => backend.makeOutput(broadcast(present(a), present(b)), 'bool'));
  for (const name of ['Sum', 'Prod', 'Max', 'Min', 'Mean', 'All', 'Any']) register(name, reduction(name));
  for (const name of ['ArgMax', 'ArgMin']) register(name, argument);
  for (const [name, kernel] of Object.entries(OTHERS)) register(name, kernel);
}

/** Changes every registered kernel so that it advances the clock by the time that the kernel takes. */
function timeMetaKernels(): void {
  for (const config of tf.getKernelsForBackend('meta')) {
    const { kernelName, kernelFunc } = config;
    tf.unregisterKernel(kernelName, 'meta');
    tf.registerKernel({
      ...config,
      // These kernels are registered only for the meta backend.
      kernelFunc: (call) => (call.backend as MetaBackend).timed(kernelName, call, kernelFunc),
    });
  }
}

const OTHERS: Readonly<Record<string, MetaKernel>> = {
  Identity: (backend, { x }) => view(backend, present(x), present(x).shape),
  Reshape: (backend, { x }, { shape }) => {
    return view(
      backend,
      present(x),
      tf.util.inferFromImplicitShape(shape, tf.util.sizeFromShape(present(x).shape)),
    );
  },
  ExpandDims: (backend, { input }, { dim }) => {
    const { shape } = present(input);
    return view(backend, present(input), shape.toSpliced(dim < 0 ? shape.length + dim + 1 : dim, 0, 1));
  },
  Cast: (backend, { x }, { dtype }) => backend.makeOutput(present(x).shape, dtype),
  AddN: (backend, inputs) => like(backend, Object.values(inputs)[0]),
  Softmax: (backend, { logits }) => like(backend, logits),
  Cumsum: (backend, { x }) => like(backend, x),
  Cumprod: (backend, { x }) => like(backend, x),
  LRN: (backend, { x }) => like(backend, x),
  LRNGrad: (backend, { x }) => like(backend, x),
  Diag: (backend, { x }) => backend.makeOutput([...present(x).shape, ...present(x).shape], present(x).dtype),
  SearchSorted: (backend, { values }) => backend.makeOutput(present(values).shape, 'int32'),
  Bincount: (backend, { weights }, { size }) => backend.makeOutput([size as number], present(weights).dtype),
  ScatterNd: (backend, { updates }, { shape }) => backend.makeOutput(shape, present(updates).dtype),
  GatherNd: (backend, { params, indices }) => {
    const [depth = 0] = present(indices).shape.slice(-1);
    const shape = [...present(indices).shape.slice(0, -1), ...present(params).shape.slice(depth)];
    return backend.makeOutput(shape, present(params).dtype);
  },
  DepthToSpace: (backend, { x }, { blockSize }) => {
    const [batch = 0, height = 0, width = 0, depth = 0] = present(x).shape;
    const shape = [batch, height * blockSize, width * blockSize, depth / blockSize ** 2];
    return backend.makeOutput(shape, present(x).dtype);
  },
  ResizeBilinear: resized,
  ResizeNearestNeighbor: resized,
  Conv3D: (backend, { x, filter }, { strides, pad }) => {
    const shapes = [present(x).shape, present(filter).shape] as [Shape5, Shape5]; // the kernel's check has tested the ranks
    const { outShape } = tf.backend_util.computeConv3DInfo(...shapes, strides, 1, pad);
    return backend.makeOutput(outShape, 'float32');
  },
  Select: (backend, { t }) => like(backend, t),
  Fill: (backend, _, { shape, value, dtype }) =>
    backend.makeOutput(shape, dtype ?? tf.util.inferDtype(value)),
  Range: (backend, _, { start, stop, step, dtype }) =>
    backend.makeOutput([Math.max(0, Math.ceil((stop - start) / step))], dtype),
  OneHot: (backend, { indices }, { depth, dtype }) =>
    backend.makeOutput([...present(indices).shape, depth], dtype),
  Tile: (backend, { x }, { reps }) =>
    backend.makeOutput(
      present(x).shape.map((length, i) => length * (reps[i] ?? 1)),
      present(x).dtype,
    ),
  PadV2: padded,
  MirrorPad: padded,
  Reverse: (backend, { x }) => like(backend, x),
  Transpose: (backend, { x }, { perm }) => transposed(backend, present(x), perm),
  Concat: (backend, inputs, { axis }) => concatenated(backend, Object.values(inputs), axis),
  Pack: (backend, inputs, { axis }) => packed(backend, Object.values(inputs), axis),
  GatherV2: (backend, { x, indices }, { axis, batchDims }) => {
    const place = tf.util.parseAxisParam(axis, present(x).shape)[0] ?? 0;
    const info = tf.backend_util.segment_util.collectGatherOpShapeInfo(
      present(x) as tf.Tensor, // reads only shapes
      present(indices) as tf.Tensor,
      place,
      batchDims,
    );
    return backend.makeOutput(info.outputShape, present(x).dtype);
  },
  Conv2D: convolution,
  FusedConv2D: convolution,
  DepthwiseConv2dNative: (backend, inputs, attrs) => convolution(backend, inputs, attrs, true),
  Conv2DBackpropInput: (backend, _, { inputShape }) => backend.makeOutput(inputShape, 'float32'),
};

type Shape5 = [number, number, number, number, number];

function padded(backend: MetaBackend, { x }: Infos, { paddings }: Attributes): tf.TensorInfo {
  const shape = present(x).shape.map(
    (length, i) => length + (paddings[i]?.[0] ?? 0) + (paddings[i]?.[1] ?? 0),
  );
  return backend.makeOutput(shape, present(x).dtype);
}

function resized(backend: MetaBackend, { images }: Infos, { size }: Attributes): tf.TensorInfo {
  const { 0: batch = 0, 3: channels = 0 } = present(images).shape;
  return backend.makeOutput([batch, ...(size as number[]), channels], 'float32');
}

function register(kernelName: string, kernel: MetaKernel): void {
  // tfjs returns undefined for an unknown kernel; its types do not allow this.
  if (tf.getKernel(kernelName, 'meta') as tf.KernelConfig | undefined)
    tf.unregisterKernel(kernelName, 'meta');
  tf.registerKernel({
    kernelName,
    backendName: 'meta',
    // tfjs's types allow the same values as Infos and Attributes; each kernel reads only its own attributes.
    kernelFunc: ({ inputs, attrs, backend }) =>
      kernel(backend as MetaBackend, inputs as Infos, (attrs ?? {}) as unknown as Attributes),
  });
}

function like(backend: MetaBackend, info: tf.TensorInfo | undefined): tf.TensorInfo {
  return backend.makeOutput(present(info).shape, present(info).dtype);
}

function view(backend: MetaBackend, info: tf.TensorInfo, shape: number[]): tf.TensorInfo {
  backend.incRef(info.dataId);
  return { dataId: info.dataId, shape: [...shape], dtype: info.dtype };
}

function broadcast(a: tf.TensorInfo, b: tf.TensorInfo): number[] {
  return tf.broadcast_util.assertAndGetBroadcastShape(a.shape, b.shape);
}

/** Transposes as tfjs does: if no axis moves, the result is a copy. */
function transposed(backend: MetaBackend, x: tf.TensorInfo, perm: readonly number[]): tf.TensorInfo {
  const shape = perm.map((axis) => x.shape[axis] ?? 1);
  return backend.makeOutput(shape, x.dtype);
}

/** Returns the kernel of a sum or another reduction. The kernel first moves the reduced axes to the end. */
function reduction(name: string): MetaKernel {
  return (backend, { x }, { axis, reductionIndices, keepDims }) => {
    // tfjs's max and min use the name reductionIndices.
    const axes = tf.util.parseAxisParam(axis ?? reductionIndices, present(x).shape);
    const moved = innermost(backend, present(x), axes);
    const isCast = name === 'Mean' && present(x).dtype !== 'float32';
    const cast = isCast ? backend.makeOutput(present(x).shape, 'float32') : null;
    const kept = present(x).shape.filter((_, axis) => !axes.includes(axis));
    const out = backend.makeOutput(kept, isCast ? 'float32' : present(x).dtype);
    if (moved !== null) backend.disposeData(moved.dataId);
    if (keepDims) out.shape = tf.backend_util.expandShapeToKeepDim(kept, axes);
    if (cast !== null) backend.disposeData(cast.dataId);
    return out;
  };
}

function argument(backend: MetaBackend, { x }: Infos, { axis }: Attributes): tf.TensorInfo {
  const axes = tf.util.parseAxisParam(axis, present(x).shape);
  const moved = innermost(backend, present(x), axes);
  const out = backend.makeOutput(
    present(x).shape.filter((_, place) => !axes.includes(place)),
    'int32',
  );
  if (moved !== null) backend.disposeData(moved.dataId);
  return out;
}

function innermost(backend: MetaBackend, x: tf.TensorInfo, axes: number[]): tf.TensorInfo | null {
  const perm = tf.backend_util.getAxesPermutation(axes, x.shape.length);
  return perm === null ? null : transposed(backend, x, perm);
}

function concatenated(backend: MetaBackend, inputs: readonly tf.TensorInfo[], axis: number): tf.TensorInfo {
  const shapes = inputs.map(({ shape }) => shape);
  const place = tf.util.parseAxisParam(axis, present(shapes[0]))[0] ?? 0;
  const filled = inputs.filter(({ shape }) => tf.util.sizeFromShape(shape) > 0);
  // tfjs's Identity kernel copies the tensor.
  if (filled.length === 1) return like(backend, filled[0]);
  return backend.makeOutput(tf.backend_util.computeOutShape(shapes, place), present(inputs[0]).dtype);
}

function packed(backend: MetaBackend, inputs: readonly tf.TensorInfo[], axis: number): tf.TensorInfo {
  const expanded = inputs.map((input) => {
    return { ...input, shape: input.shape.toSpliced(axis < 0 ? input.shape.length + axis + 1 : axis, 0, 1) };
  });
  const [only, ...others] = expanded;
  if (others.length === 0) return view(backend, present(only), present(only).shape);
  return concatenated(backend, expanded, axis);
}

function convolution(
  backend: MetaBackend,
  { x, filter }: Infos,
  attrs: Attributes,
  depthwise = false,
): tf.TensorInfo {
  const { outShape } = conv2DInfo(present(x).shape, present(filter).shape, { ...attrs }, depthwise);
  return backend.makeOutput(outShape, 'float32');
}
