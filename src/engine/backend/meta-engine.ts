import { type Bytes, type DType, itemBytes, ShardlabError, SimulatedClock } from '../../core';
import * as tf from '../../core/tf';
import { BufferTable } from './buffer-table';
import type { Engine, Storage } from './engine';
import { HeapHealth } from './heap-health';
import { NO_INTERRUPTS } from './interrupts';
import type { KernelCall, KernelCosts } from './kernel-costs';
import { MetaBackend } from './meta-backend';
import { MetaHostMemory } from './meta-host';
import { registerMetaKernels, timeMetaKernels } from './meta-kernels';
import { type ChargeUpdate, metaKernelFunctions } from './meta-updates';
import type { WasmContext } from './wasm-context';
import { registerEngineKernels, WasmEngine } from './wasm-engine';
import type { MemoryLimit } from './wasm-memory';

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

/** An engine without values: a tensor has only a shape, and a buffer has only a size and a tag. */
export interface MetaEngine extends Engine {
  readonly clock: SimulatedClock;
  /** The live buffers. */
  readonly buffers: BufferTable;
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
