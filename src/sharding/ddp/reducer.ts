import { ConfigError, type HalfDType, type WireDType } from '../../core';
import type * as tf from '../../core/tf';
import { accumulateGrad, type Engine, undone } from '../../engine';
import { contentsOf, type Parameter } from '../../nn';
import type { ProcessGroup } from '../../wire';
import { missingEverywhere, noteOf, type ReducedBy, zeroGradient } from '../missing-gradients';
import { replicasOf } from '../same-parts';
import { settled } from '../settled';
import { type RowTable, touchedByAny } from '../sparse/row-masks';
import { piecesOfRows } from '../sparse/row-pieces';
import type { GradBucket, HookWork } from './comm-hooks';

/** Sizes of gradient buckets, in bytes. */
export interface BucketSizes {
  /** The size of all other buckets. Source: bucket_cap_mb of torch.nn.parallel.DistributedDataParallel, 25 MiB. */
  readonly bucketBytes: number;
  /** The size of the first bucket, small so that communication starts early. Source: dist._DEFAULT_FIRST_BUCKET_BYTES, 1 MiB. */
  readonly firstBucketBytes: number;
}

/** The default sizes of torch. */
export const DEFAULT_BUCKET_SIZES: BucketSizes = { bucketBytes: 25 * 2 ** 20, firstBucketBytes: 2 ** 20 };

/**
 * Divides parameters into buckets, in the order in which backward probably finishes their gradients (the reverse of their
 * definition). A bucket that reaches its size gets no more parameters. Source: torch's compute_bucket_assignment_by_size.
 */
export function assignBuckets(parameters: readonly Parameter[], sizes: BucketSizes): Parameter[][] {
  const buckets: Parameter[][] = [];
  let open: Parameter[] = [];
  let bytes = 0;
  for (const parameter of [...parameters].reverse()) {
    open.push(parameter);
    bytes += 4 * parameter.size;
    const limit = buckets.length === 0 ? sizes.firstBucketBytes : sizes.bucketBytes;
    if (bytes < limit) continue;
    buckets.push(open);
    open = [];
    bytes = 0;
  }
  if (open.length > 0) buckets.push(open);
  return buckets;
}

/** A bucket in flight. */
interface Reducing {
  readonly group: ProcessGroup;
  readonly work: HookWork;
  readonly parameters: readonly Parameter[];
  /** Per parameter, whether its gradient is missing on this rank. */
  readonly missing: readonly boolean[];
  readonly module: string;
}

interface Bucket {
  /** The ranks that reduce the bucket. */
  readonly group: ProcessGroup;
  readonly parameters: readonly Parameter[];
  /** The number of equal buckets that the same cell made before. */
  readonly ordinal: number;
  missing: Set<Parameter>;
}

/** The objects and settings that a reducer needs. */
export interface ReducerOptions {
  readonly engine: Engine;
  readonly group: ProcessGroup;
  readonly parameters: readonly Parameter[];
  readonly sizes: BucketSizes;
  /** The dtype in which gradients are sent. */
  readonly wireDType: WireDType;
  /** The dtype in which ledgers count the bytes of gradients; undefined: float32. */
  readonly declared: HalfDType | undefined;
  /** Parameters (of embeddings and experts) that are in no bucket: only the touched rows of their gradients are sent. */
  readonly tables: readonly RowTable[];
}

/**
 * Averages gradients over ranks, bucket by bucket, while backward continues. A bucket's reduction starts when all its
 * gradients are ready and the reductions of all earlier buckets have started, so all ranks start them in the same order.
 * Gradients are reduced in place: a bucket is a list of tensors, not a flat buffer as in torch's c10d Reducer.
 */
export class Reducer {
  readonly #options: ReducerOptions;
  readonly #buckets: readonly Bucket[];
  readonly #bucketOf = new Map<Parameter, Bucket>();
  #hook: ((bucket: GradBucket) => HookWork) | null = null;
  #started = 0;
  /** Parameters that have no gradient in this pass on any rank. */
  #leftOut = new Set<Parameter>();
  #reducing: Reducing[] = [];
  #sync = true;

  constructor(options: ReducerOptions) {
    this.#options = options;
    const { group, parameters, sizes, tables } = options;
    const sparse = new Set(tables.map(({ parameter }) => parameter));
    const dense = parameters.filter((parameter) => !sparse.has(parameter));
    const groups = new Set([group, ...dense.map((parameter) => replicasOf(parameter, group))]);
    this.#buckets = [...groups].flatMap((ranks) => {
      const own = dense.filter((parameter) => replicasOf(parameter, group) === ranks);
      return assignBuckets(own, sizes).map((bucket) => {
        const ordinal = ranks.ordinal(`bucket ${contentsOf('', bucket).word}`);
        return { group: ranks, parameters: bucket, ordinal, missing: new Set(bucket) };
      });
    });
    for (const bucket of this.#buckets) {
      for (const parameter of bucket.parameters) this.#bucketOf.set(parameter, bucket);
    }
  }

  /** The parameters of each bucket, in the order of reduction. */
  get buckets(): readonly (readonly Parameter[])[] {
    return this.#buckets.map((bucket) => bucket.parameters);
  }

  /**
   * Sets the hook that starts the buckets' reductions. Throws: CONFIG if there is already a hook, or if a setting chooses
   * the dtype in which gradients are sent.
   */
  useHook(hook: (bucket: GradBucket) => HookWork): void {
    if (this.#hook !== null) {
      throw new ConfigError(
        'this DDP already has a communication hook; register one hook, once, before training',
      );
    }
    if (this.#options.wireDType !== 'float32') {
      throw new ConfigError(
        `gradients are sent as ${this.#options.wireDType} because of communicationDataType or mixed precision's reduceDtype, ` +
          'but a communication hook chooses the type itself; leave out the setting or the hook',
      );
    }
    this.#hook = hook;
  }

  /** Runs `work`; gradients of its backward passes stay local and add up. Source: no_sync. */
  noSync<T>(work: () => T): T {
    const before = this.#sync;
    const restore = (): void => {
      this.#sync = before;
    };
    return undone(this.#options.engine, restore, () => {
      this.#sync = false;
      return work();
    });
  }

  /** Whether the next backward reduces gradients. */
  get syncs(): boolean {
    return this.#sync;
  }

  /** Prepares for a forward: drops an aborted backward's reductions once they have failed, but does not free gradients. */
  begin(): void {
    for (const { work } of this.#reducing) work.abandon === undefined ? settled(work) : work.abandon();
    this.#restart();
  }

  /**
   * Takes ownership of a gradient; the last gradient of a bucket starts the bucket's reduction. Throws: CONFIG if the
   * reduction of the bucket has already started.
   */
  add(parameter: Parameter, grad: tf.Tensor | null): void {
    const bucket = this.#bucketOf.get(parameter);
    if (grad !== null) {
      if (bucket !== undefined && this.#buckets.indexOf(bucket) < this.#started)
        throw tooLate(parameter, grad);
      accumulateGrad(this.#options.engine, parameter, grad, this.#options.declared);
    }
    if (!this.#sync) return;
    bucket?.missing.delete(parameter);
    while (this.#buckets[this.#started]?.missing.size === 0) this.#start();
  }

  /**
   * Excludes parameters that no rank uses in this pass; must be called before the pass's backward. Parameters that have a
   * gradient of earlier passes are reduced nevertheless.
   */
  leaveOut(parameters: Iterable<Parameter>): void {
    for (const parameter of parameters) {
      if (parameter.grad !== null) continue;
      this.#leftOut.add(parameter);
      this.#bucketOf.get(parameter)?.missing.delete(parameter);
    }
  }

  /** Ends a backward: starts the remaining reductions, and waits for all reductions. See [Note: missing gradients]. */
  finish(): void {
    if (!this.#sync) return;
    while (this.#started < this.#buckets.length) this.#start();
    this.#reduceTables();
    const reducing = this.#reducing;
    this.#restart();
    try {
      for (const { work } of reducing) work.wait();
    } catch (error) {
      for (const { work } of reducing) work.abandon?.();
      throw error;
    }
    for (const { group, work, parameters, missing, module } of reducing)
      this.#dropMissing({ group, module }, parameters, missing, work.agrees);
  }

  /**
   * Drops the reductions of an interrupted backward once they have failed, because no result comes, and frees that backward's
   * gradients.
   */
  abandon(): void {
    this.begin();
    for (const parameter of this.#options.parameters) parameter.state.zeroGrad();
  }

  #restart(): void {
    this.#reducing = [];
    this.#started = 0;
    this.#leftOut = new Set();
    for (const bucket of this.#buckets) bucket.missing = new Set(bucket.parameters);
  }

  #start(): void {
    const { engine, wireDType, declared } = this.#options;
    const index = this.#started++;
    const bucket = this.#buckets[index];
    if (bucket === undefined) return;
    const { group } = bucket;
    const parameters = bucket.parameters.filter((parameter) => !this.#leftOut.has(parameter));
    if (parameters.length === 0) return;
    const missing = parameters.map(({ grad }) => grad === null);
    const pieces = parameters.map((parameter) => {
      parameter.grad ??= zeroGradient(engine, parameter, declared);
      return { tensor: parameter.grad, offset: 0, length: parameter.size };
    });
    const module = parameters[0]?.module ?? '';
    const isLast = index === this.#buckets.length - 1;
    const contents = contentsOf('', parameters, bucket.ordinal);
    const work =
      this.#hook?.({ index, isLast, parameters, pieces, group, engine, module, contents }) ??
      group.allReducePieces(pieces, 'avg', {
        async: true,
        cause: 'grad',
        module,
        contents,
        wireDType,
        note: noteOf(missing),
      });
    this.#reducing.push({ group, work, parameters, missing, module });
  }

  /**
   * Averages gradients in which backward touched only some rows, and waits for the result. First, one small reduction for all
   * tables finds the rows that any rank touched. Then only these rows are reduced, in place in the dense gradients. All other
   * rows are zero on all ranks, and their mean is zero too, so the result equals a dense reduction to the bit.
   * Source: DeepSpeed's sparse_gradients, which gathers indices and values instead.
   */
  #reduceTables(): void {
    const { engine, group, tables, wireDType, declared } = this.#options;
    if (tables.length === 0) return;
    const parameters = tables.map(({ parameter }) => parameter);
    const missing = parameters.map(({ grad }) => grad === null);
    const union = touchedByAny(engine, [group], tables, ({ parameter }) => parameter.grad, '');
    const pieces = parameters.flatMap((parameter, i) => {
      parameter.grad ??= zeroGradient(engine, parameter, declared);
      return piecesOfRows(parameter.grad, union[i] ?? new Uint8Array(1));
    });
    const [module = '', ...others] = new Set(parameters.map((parameter) => parameter.module));
    const shared = others.length === 0 ? module : '';
    const contents = contentsOf('', parameters);
    const options = { cause: 'grad', module: shared, contents, wireDType, note: noteOf(missing) } as const;
    const work = pieces.length === 0 ? null : group.allReducePieces(pieces, 'avg', options);
    work?.wait();
    this.#dropMissing({ group, module: shared }, parameters, missing, work === null ? false : work.agrees);
  }

  /** Frees the zeros that stand for gradients that no rank has. See [Note: missing gradients]. */
  #dropMissing(
    by: Omit<ReducedBy, 'engine'>,
    parameters: readonly Parameter[],
    missing: readonly boolean[],
    agrees: boolean | undefined,
  ): void {
    const nowhere = missingEverywhere({ ...by, engine: this.#options.engine }, missing, agrees);
    parameters.forEach((parameter, i) => {
      if (nowhere[i] === true) parameter.state.zeroGrad();
      // A hook does not compare which gradients are missing, so zeros stay in their place.
      parameter.hasOnlyZeros = agrees === undefined && missing[i] === true;
    });
  }
}

function tooLate(parameter: Parameter, grad: tf.Tensor): ConfigError {
  grad.dispose();
  return new ConfigError(
    `module "${parameter.module}" ran more than once in this forward: ${parameter.name} got another gradient when its bucket was ` +
      'already being reduced. Give DDP { policy: rootOnly }, so that gradients are reduced when all of them are ready',
  );
}
