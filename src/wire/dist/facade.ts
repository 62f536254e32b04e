import {
  anything,
  either,
  flag,
  index,
  listOf,
  type OptionKind,
  requireArity,
  requireKind,
  requireOptions,
  strictNames,
  tensor,
} from '../../config';
import { ConfigError, type DType, ShardlabError, shortened, shown, type Warn } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { wholePiece } from './blocks';
import type { CollectiveOptions, PieceList, ProcessGroup, ReduceOp, Work } from './types';
import { requireGroup } from './validation';
import type { World } from './world';

export interface DistOptions {
  /**
   * The group that runs the collective. Default: all ranks. null, which `newGroup` returns on ranks outside of the group: the call
   * does nothing, with a warning, as in torch.
   */
  readonly group?: ProcessGroup | null | undefined;
  /** If true, the call returns a Work at once; if false (the default), it returns when the collective is done. */
  readonly asyncOp?: boolean;
}

export interface DistReduceOptions extends DistOptions {
  readonly op?: ReduceOp;
}

/** The options of a reduction or, as in torch, only the operation: `dist.allReduce(x, dist.ReduceOp.SUM)`. */
type Reduction = DistReduceOptions | ReduceOp;

/** The options of a transfer from a global rank, or only the rank: `dist.broadcast(x, 0)`. */
type FromRank = (DistOptions & { readonly src: number }) | number;

/** The options of a transfer to a global rank, or only the rank: `dist.send(x, 1)`. */
type ToRank = (DistOptions & { readonly dst: number }) | number;

/** The type of a call's result; if asyncOp is true, a Work whose `wait` returns the result. */
type Outcome<T, O> = O extends { readonly asyncOp: true } ? Work<T> : T;

/** The type of a new tensor's result: null on ranks outside of the group, if the options' group may be null. */
type Made<T, O> = O extends { readonly group: infer G } ? (null extends G ? T | null : T) : T;

/**
 * Collectives for cells, with the semantics of torch.distributed: a collective that works in place in torch works in place
 * here, `src` and `dst` are global ranks, and calls block unless `asyncOp` is true. Source: torch.distributed.
 */
export interface Dist {
  readonly ReduceOp: { readonly SUM: 'sum'; readonly AVG: 'avg'; readonly MAX: 'max' };
  /** Returns this rank's index in a group (default: all ranks); -1 on ranks outside of the group. */
  getRank(group?: ProcessGroup | null): number;
  /** Returns the number of a group's ranks (default: all ranks); -1 on ranks outside of the group. */
  getWorldSize(group?: ProcessGroup | null): number;
  /**
   * Makes a group of global ranks. Every rank of the world must call `newGroup`, in the same order. Returns null on ranks that
   * are not in the group; give this null to collectives as it is.
   */
  newGroup(ranks: readonly number[]): ProcessGroup | null;
  /**
   * Ends a group: its memory is free for other groups when all its ranks have ended it. Groups that no variable holds are ended
   * without this call. `null`, which newGroup returns on ranks outside of a group, does nothing. Throws: CONFIG for the group of
   * all ranks. Source: torch.distributed.destroy_process_group.
   */
  destroyProcessGroup(group: ProcessGroup | null): void;
  /** Reduces all ranks' tensors; every rank gets the result in place. */
  allReduce<O extends Reduction>(x: tf.Tensor, options?: O): Outcome<tf.Tensor, O>;
  /** Returns a list of every rank's tensor, in rank order; shapes must be equal. */
  allGather<O extends DistOptions>(x: tf.Tensor, options?: O): Outcome<Made<tf.Tensor[], O>, O>;
  /** Returns every rank's tensor, concatenated along axis 0. */
  allGatherIntoTensor<O extends DistOptions>(x: tf.Tensor, options?: O): Outcome<Made<tf.Tensor, O>, O>;
  /** Reduces x[r] of all ranks onto rank r; a single tensor is split along axis 0. Returns this rank's part. */
  reduceScatter<O extends Reduction>(
    x: tf.Tensor | readonly tf.Tensor[],
    options?: O,
  ): Outcome<Made<tf.Tensor, O>, O>;
  /** Sends part r of the tensor (along axis 0) to rank r; returns the received parts in rank order. */
  allToAll<O extends DistOptions>(x: tf.Tensor, options?: O): Outcome<Made<tf.Tensor, O>, O>;
  /** Copies the tensor of global rank `src` to all ranks, in place. */
  broadcast<O extends FromRank>(x: tf.Tensor, options: O): Outcome<tf.Tensor, O>;
  send<O extends ToRank>(x: tf.Tensor, options: O): Outcome<void, O>;
  /** Receives a tensor from global rank `src` into `x`, in place. */
  recv<O extends FromRank>(x: tf.Tensor, options: O): Outcome<tf.Tensor, O>;
  barrier<O extends DistOptions>(options?: O): Outcome<void, O>;
}

const OPS = { SUM: 'sum', AVG: 'avg', MAX: 'max' } as const satisfies Dist['ReduceOp'];
/** torch's rank and size of a group on ranks outside of it. */
const OUTSIDE = -1;

const NO_OP = 'use SUM, AVG or MAX (the minimum is the negated maximum of the negated values)';
const REDUCE_OP = strictNames('ReduceOp', OPS, { MIN: NO_OP, PRODUCT: NO_OP, PREMUL_SUM: NO_OP });

/** Returns a world's collectives for cells; `warn` takes the warning of a call on a rank outside of its group. */
export function createDist(world: Pick<World, 'group'>, engine: Engine, warn: Warn): Dist {
  const warned = new Set<string>();
  const run = <T, O, R = T>(
    name: CollectiveName,
    callOptions: O | undefined,
    start: (group: ProcessGroup, plain: CollectiveOptions) => Work<T>,
    outside: T | null,
  ): Outcome<R, O> => {
    const options = collectiveOptions<DistOptions>(name, callOptions);
    const { group = world.group, asyncOp = false } = options;
    if (group === null && !warned.has(name)) {
      warned.add(name);
      warn(`dist.${name} does nothing on rank ${world.group.rank}, which does not belong to the given group`);
    }
    const work =
      group === null
        ? { done: true, wait: () => outside }
        : start(requireGroup(`dist.${name}`, group), { async: asyncOp });
    // TypeScript does not know that the values of asyncOp and group decide the result's type.
    return (asyncOp ? work : work.wait()) as Outcome<R, O>;
  };
  return limitArguments<Dist>({
    ReduceOp: REDUCE_OP,
    getRank: (group = world.group) => groupOrNull('dist.getRank', group)?.rank ?? OUTSIDE,
    getWorldSize: (group = world.group) => groupOrNull('dist.getWorldSize', group)?.size ?? OUTSIDE,
    newGroup(ranks) {
      requireKind('dist.newGroup', 'the argument', ranks, listOf(index));
      return world.group.subgroup(ranks);
    },
    destroyProcessGroup: (group = world.group) => groupOrNull('dist.destroyProcessGroup', group)?.destroy(),
    allReduce: (x, options) =>
      run('allReduce', options, (group, plain) => group.allReduce(x, opOf(options), plain), x),
    allGather: (x, options) =>
      run('allGather', options, (group, plain) => gatherList(engine, group, x, plain), null),
    allGatherIntoTensor: (x, options) =>
      run('allGatherIntoTensor', options, (group, plain) => group.allGather(x, plain), null),
    reduceScatter: (x, options) => {
      const start = (group: ProcessGroup, plain: CollectiveOptions): Work<tf.Tensor> =>
        isList(x)
          ? scatterList(engine, group, x, opOf(options), plain)
          : group.reduceScatter(x, opOf(options), plain);
      return run('reduceScatter', options, start, null);
    },
    allToAll: (x, options) => run('allToAll', options, (group, plain) => group.allToAll(x, plain), null),
    broadcast: (x, options) =>
      run(
        'broadcast',
        options,
        (group, plain) => group.broadcast(x, placeOf(group, options, 'src'), plain),
        x,
      ),
    send: (x, options) =>
      run('send', options, (group, plain) => group.send(x, placeOf(group, options, 'dst'), plain), undefined),
    recv: (x, options) =>
      run('recv', options, (group, plain) => group.recv(x, placeOf(group, options, 'src'), plain), x),
    barrier: (options) => run('barrier', options, (group, plain) => group.barrier(plain), undefined),
  });
}

/** Returns a group after a check; null on ranks outside of it. Throws: CONFIG for a value that is not a group. */
function groupOrNull(caller: string, group: ProcessGroup | null): ProcessGroup | null {
  return group === null ? null : requireGroup(caller, group);
}

/**
 * Returns the operation after a check, because a cell in JavaScript may pass any value. Throws: CONFIG for an unknown
 * operation.
 */
function opOf(options: Reduction | undefined): ReduceOp | undefined {
  const op = typeof options === 'object' ? options.op : options;
  if (op === undefined || Object.values<string>(OPS).includes(op)) return op;
  const known = Object.values(OPS).join("', '");
  throw new ConfigError(
    `op is ${typeof op === 'string' ? `'${shortened(op)}'` : shown(op)}, but must be one of '${known}'`,
  );
}

/** Returns the rank index (in the group) of the global rank that a call names. Throws: CONFIG if the group lacks this rank. */
function placeOf(group: ProcessGroup, options: FromRank | ToRank, key: 'src' | 'dst'): number {
  const named: { readonly src?: number; readonly dst?: number } =
    typeof options === 'object' && options !== null ? options : { [key]: options };
  const globalRank = named[key] ?? Number.NaN;
  const place = group.ranks.indexOf(globalRank);
  if (place >= 0) return place;
  throw new ConfigError(
    `${key} ${shown(globalRank)} is not in group ${group.name} (global ranks ${group.ranks.join(', ')})`,
  );
}

function isList(x: tf.Tensor | readonly tf.Tensor[]): x is readonly tf.Tensor[] {
  return Array.isArray(x);
}

function gatherList(
  engine: Engine,
  group: ProcessGroup,
  x: tf.Tensor,
  options: CollectiveOptions,
): Work<tf.Tensor[]> {
  const outputs = group.ranks.map(() => engine.allocate(x.shape, dtypeOf(x), { cause: 'comm', module: '' }));
  return disposingOnError(outputs, () => {
    const work = group.allGatherPieces(wholePiece(x), outputs.map(wholePiece), options);
    return giving(work, outputs);
  });
}

function scatterList(
  engine: Engine,
  group: ProcessGroup,
  parts: readonly tf.Tensor[],
  op: ReduceOp | undefined,
  options: CollectiveOptions,
): Work<tf.Tensor> {
  const own = parts[group.rank];
  if (own === undefined || parts.length !== group.size) {
    throw new ShardlabError(
      'SHAPE',
      `reduceScatter in group ${group.name} of ${group.size} ranks got ${parts.length} tensors; give one for each rank`,
    );
  }
  const output = engine.allocate(own.shape, dtypeOf(own), { cause: 'comm', module: '' });
  const lists: PieceList[] = parts.map(wholePiece);
  return disposingOnError([output], () => {
    return giving(group.reduceScatterPieces(lists, wholePiece(output), op, options), output);
  });
}

/** Starts a collective. If `start` throws, disposes `made`, which are the tensors for the collective's results. */
function disposingOnError<T>(made: readonly tf.Tensor[], start: () => Work<T>): Work<T> {
  try {
    return start();
  } catch (error) {
    for (const tensor of made) tensor.dispose();
    throw error;
  }
}

/** Returns a work that waits for `work` and then returns `value`. */
function giving<T>(work: Work<void>, value: T): Work<T> {
  return {
    get done() {
      return work.done;
    },
    wait() {
      work.wait();
      return value;
    },
  };
}

/**
 * Returns the dtype of a result tensor: int32 or float32. All other dtypes count as float32 here, because the collective refuses
 * them later.
 */
function dtypeOf(x: tf.Tensor): DType {
  return x.dtype === 'int32' ? 'int32' : 'float32';
}

/** A collective of `dist`, as cells call it. */
interface Collective {
  /** What is sent; undefined for a call that sends nothing. */
  readonly x?: OptionKind;
  /** The number of arguments; the last ones are the options. */
  readonly numArguments: number;
  /** How a call with options is written. */
  readonly form: string;
  /** The type of the value that may stand in place of the options: only the operation, or only the rank. */
  readonly short?: 'string' | 'number';
  readonly kinds: Readonly<Record<string, OptionKind>>;
}

// `requireGroup` checks the group, and `opOf` checks the operation, which may also be given without options.
const ANY = { group: anything, asyncOp: flag };

const reduction = (name: string): Collective => ({
  x: name === 'reduceScatter' ? either(tensor, listOf(tensor)) : tensor,
  numArguments: 2,
  form: `dist.${name}(x, { op: 'sum', asyncOp: true })`,
  short: 'string',
  kinds: { ...ANY, op: anything },
});

const exchange = (name: string): Collective => ({
  x: tensor,
  numArguments: 2,
  form: `dist.${name}(x, { asyncOp: true })`,
  kinds: ANY,
});

const transfer = (name: string, end: 'src' | 'dst'): Collective => ({
  x: tensor,
  numArguments: 2,
  form: `dist.${name}(x, { ${end}: 0, asyncOp: true })`,
  short: 'number',
  kinds: { ...ANY, [end]: index },
});

const COLLECTIVES = {
  allReduce: reduction('allReduce'),
  allGather: exchange('allGather'),
  allGatherIntoTensor: exchange('allGatherIntoTensor'),
  reduceScatter: reduction('reduceScatter'),
  allToAll: exchange('allToAll'),
  broadcast: transfer('broadcast', 'src'),
  send: transfer('send', 'dst'),
  recv: transfer('recv', 'src'),
  barrier: { numArguments: 1, form: 'dist.barrier({ asyncOp: true })', kinds: ANY },
} as const satisfies Readonly<Record<string, Collective>>;

/** The name of a collective of `dist`. */
export type CollectiveName = keyof typeof COLLECTIVES;

/** Returns a collective's options after a check; {} for a call without options. Throws: CONFIG. */
function collectiveOptions<T extends object>(name: CollectiveName, options: unknown): T {
  const { short, kinds, form }: Collective = COLLECTIVES[name];
  if (options === undefined || (short !== undefined && typeof options === short)) return {} as T;
  if (typeof options !== 'object')
    throw new ConfigError(`dist.${name}: ${shown(options)} is in the place of the options; write ${form}`);
  return requireOptions<object>(`dist.${name}`, options as object, kinds) as T;
}

/** Makes the collectives of an object refuse arguments that they would ignore. */
function limitArguments<T extends Readonly<Record<CollectiveName, unknown>>>(dist: T): T {
  const limited = Object.entries<Collective>(COLLECTIVES).map(([name, { x, numArguments, form }]) => {
    // The callers' types are those of `dist`.
    const call = dist[name as CollectiveName] as (...args: unknown[]) => unknown;
    return [
      name,
      (...args: unknown[]): unknown => {
        requireArity(`dist.${name}`, args, numArguments, form);
        if (x !== undefined) requireKind(`dist.${name}`, 'x', args[0], x);
        return call(...args);
      },
    ];
  });
  return { ...dist, ...Object.fromEntries(limited) };
}
