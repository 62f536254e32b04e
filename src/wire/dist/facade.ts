import { index, listOf, requireKind, strictNames } from '../../config';
import { ConfigError, shortened, shown, type Warn } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import { wordOf } from '../transport/record';
import { type CollectiveName, collectiveOptions, limitArguments } from './call-forms';
import { hierarchicalAllReduce } from './hierarchical';
import {
  allGatherObject,
  broadcastObjects,
  type Exchange,
  gatherObject,
  scatterObject,
  type ValueCodec,
} from './objects';
import { gatherList, gatherOnto, isList, scatterFrom, scatterReduced } from './tensor-lists';
import type { CollectiveOptions, ProcessGroup, ReduceOp, Work } from './types';
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

export interface DistAllReduceOptions extends DistReduceOptions {
  /**
   * If true, ranks of a node first reduce among themselves, so fewer bytes leave the node: a reduce-scatter within the node, an all-reduce
   * between nodes, an all-gather within the node. The job must have nodes; `asyncOp` is not possible. Default false: one ring over all ranks.
   */
  readonly hierarchical?: boolean;
}

/** The options of a reduction or, as in torch, only the operation: `dist.allReduce(x, dist.ReduceOp.SUM)`. */
type Reduction = DistReduceOptions | ReduceOp;

/** The options of a transfer from a global rank, or only the rank: `dist.broadcast(x, 0)`. */
type FromRank = (DistOptions & { readonly src: number }) | number;

/** The options of a transfer to a global rank, or only the rank: `dist.send(x, 1)`. */
type ToRank = (DistOptions & { readonly dst: number }) | number;

type ReductionOnto = (DistReduceOptions & { readonly dst: number }) | number;

type Scattering =
  | (DistOptions & { readonly src?: number; readonly scatterList?: readonly tf.Tensor[] })
  | number;

/** The options of a call whose root is global rank 0 by default, or only the rank: `dist.gather(x, 1)`. */
type OntoRank = (DistOptions & { readonly dst?: number }) | number;

/** The options of a call on values of JavaScript, which always blocks; or only the rank. */
type ObjectRoot<End extends 'src' | 'dst'> =
  | (Pick<DistOptions, 'group'> & { readonly [key in End]?: number })
  | number;

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
  allReduce<O extends DistAllReduceOptions | ReduceOp>(x: tf.Tensor, options?: O): Outcome<tf.Tensor, O>;
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
  /** Reduces all ranks' tensors; global rank `dst` gets the result in place, and other ranks keep their tensors. */
  reduce<O extends ReductionOnto>(x: tf.Tensor, options: O): Outcome<tf.Tensor, O>;
  /** Returns a list of every rank's tensor, in rank order, on global rank `dst` (default 0), and null on other ranks; shapes must be equal. */
  gather<O extends OntoRank>(x: tf.Tensor, options?: O): Outcome<tf.Tensor[] | null, O>;
  /** Copies tensor r of the list of global rank `src` (default 0) into rank r's `x`, in place. Only `src` gives `scatterList`. */
  scatter<O extends Scattering>(x: tf.Tensor, options?: O): Outcome<tf.Tensor, O>;
  send<O extends ToRank>(x: tf.Tensor, options: O): Outcome<void, O>;
  /** Receives a tensor from global rank `src` into `x`, in place. */
  recv<O extends FromRank>(x: tf.Tensor, options: O): Outcome<tf.Tensor, O>;
  /** Does the same as `send` with `asyncOp`: returns a Work at once. */
  isend(x: tf.Tensor, options: ToRank): Work<void>;
  /** Does the same as `recv` with `asyncOp`: returns a Work at once. The tensor has the values when `wait` has returned. */
  irecv(x: tf.Tensor, options: FromRank): Work<tf.Tensor>;
  /**
   * Waits for all ranks. With `name`, ranks that wait for each other under different names are a mismatch, and reports on a hang say the
   * name: `dist.barrier({ name: 'data is loaded' })`.
   */
  barrier<O extends DistOptions & { readonly name?: string }>(options?: O): Outcome<void, O>;
  /**
   * Returns a list of every rank's value, in rank order; null on ranks outside of the group. Values are those that `job.put` sends, of
   * any size. Throws: CONFIG, which names the part of a value that cannot be sent. Source: torch.distributed.all_gather_object.
   */
  allGatherObject(value: unknown, options?: Pick<DistOptions, 'group'>): unknown[] | null;
  /** Returns a list of every rank's value on global rank `dst` (default 0), and null on other ranks. Throws: as allGatherObject. */
  gatherObject(value: unknown, options?: ObjectRoot<'dst'>): unknown[] | null;
  /** Replaces the list's elements by those of global rank `src` (default 0), in place; lists are equally long. Throws: as allGatherObject. */
  broadcastObjectList<T extends unknown[]>(list: T, options?: ObjectRoot<'src'>): T;
  /** Returns element r of the list of global rank `src` (default 0) on rank r. Other ranks give null. Throws: as allGatherObject. */
  scatterObjectList(list: readonly unknown[] | null, options?: ObjectRoot<'src'>): unknown;
}

const OPS = { SUM: 'sum', AVG: 'avg', MAX: 'max' } as const satisfies Dist['ReduceOp'];
/** torch's rank and size of a group on ranks outside of it. */
const OUTSIDE = -1;

const NO_OP = 'use SUM, AVG or MAX (the minimum is the negated maximum of the negated values)';
const REDUCE_OP = strictNames('ReduceOp', OPS, { MIN: NO_OP, PRODUCT: NO_OP, PREMUL_SUM: NO_OP });

/** Returns a world's collectives for cells; `warn` takes the warning of a call on a rank outside of its group. See [Note: values in collectives]. */
export function createDist(world: Pick<World, 'group'>, engine: Engine, warn: Warn, codec: ValueCodec): Dist {
  const run = callerOf(world, warn);
  return limitArguments<Dist>({
    ReduceOp: REDUCE_OP,
    ...groupCalls(world),
    ...exchangeCalls(run, engine),
    ...rootCalls(run, engine),
    ...objectCalls(run, (group) => ({ engine, codec, group })),
    barrier: (options) =>
      run(
        'barrier',
        options,
        (group, plain) => group.barrier({ ...plain, ...naming(options?.name) }),
        undefined,
      ),
  });
}

/** Runs a collective after a check of its options. On a rank outside of the group, the result is `outside`. */
type Caller = <T, O, R = T>(
  name: CollectiveName,
  callOptions: O | undefined,
  start: (group: ProcessGroup, plain: CollectiveOptions) => Work<T>,
  outside: T | null,
  isAsync?: boolean,
) => Outcome<R, O>;

function callerOf(world: Pick<World, 'group'>, warn: Warn): Caller {
  const warned = new Set<string>();
  return <T, O, R = T>(
    name: CollectiveName,
    callOptions: O | undefined,
    start: (group: ProcessGroup, plain: CollectiveOptions) => Work<T>,
    outside: T | null,
    isAsync = false,
  ): Outcome<R, O> => {
    const options = collectiveOptions<DistOptions>(name, callOptions);
    const { group = world.group, asyncOp = isAsync } = options;
    if (group === null && !warned.has(name)) {
      warned.add(name);
      warn(`dist.${name} does nothing on rank ${world.group.rank}, which does not belong to the given group`);
    }
    const work =
      group === null ? finished(outside) : start(requireGroup(`dist.${name}`, group), { async: asyncOp });
    // TypeScript does not know that the values of asyncOp and group decide the result's type.
    return (asyncOp ? work : work.wait()) as Outcome<R, O>;
  };
}

function finished<T>(value: T): Work<T> {
  return { done: true, wait: () => value };
}

type GroupCalls = Pick<Dist, 'getRank' | 'getWorldSize' | 'newGroup' | 'destroyProcessGroup'>;

function groupCalls(world: Pick<World, 'group'>): GroupCalls {
  return {
    getRank: (group = world.group) => groupOrNull('dist.getRank', group)?.rank ?? OUTSIDE,
    getWorldSize: (group = world.group) => groupOrNull('dist.getWorldSize', group)?.size ?? OUTSIDE,
    newGroup(ranks) {
      requireKind('dist.newGroup', 'the argument', ranks, listOf(index));
      return world.group.subgroup(ranks);
    },
    destroyProcessGroup: (group = world.group) => groupOrNull('dist.destroyProcessGroup', group)?.destroy(),
  };
}

type ExchangeCalls = Pick<
  Dist,
  'allReduce' | 'allGather' | 'allGatherIntoTensor' | 'reduceScatter' | 'allToAll'
>;

/** The collectives in which all ranks have the same part. */
function exchangeCalls(run: Caller, engine: Engine): ExchangeCalls {
  return {
    allReduce: (x, options) =>
      run(
        'allReduce',
        options,
        (group, plain) =>
          typeof options === 'object' && options.hierarchical === true
            ? hierarchicalAllReduce(group, x, opOf(options), plain)
            : group.allReduce(x, opOf(options), plain),
        x,
      ),
    allGather: (x, options) =>
      run('allGather', options, (group, plain) => gatherList(engine, group, x, plain), null),
    allGatherIntoTensor: (x, options) =>
      run('allGatherIntoTensor', options, (group, plain) => group.allGather(x, plain), null),
    reduceScatter: (x, options) => {
      const start = (group: ProcessGroup, plain: CollectiveOptions): Work<tf.Tensor> =>
        isList(x)
          ? scatterReduced(engine, group, x, opOf(options), plain)
          : group.reduceScatter(x, opOf(options), plain);
      return run('reduceScatter', options, start, null);
    },
    allToAll: (x, options) => run('allToAll', options, (group, plain) => group.allToAll(x, plain), null),
  };
}

type RootCalls = Pick<
  Dist,
  'broadcast' | 'reduce' | 'gather' | 'scatter' | 'send' | 'recv' | 'isend' | 'irecv'
>;

/** The collectives that name a rank. */
function rootCalls(run: Caller, engine: Engine): RootCalls {
  const sending =
    (x: tf.Tensor, options: ToRank) =>
    (group: ProcessGroup, plain: CollectiveOptions): Work<void> =>
      group.send(x, placeOf(group, options, 'dst'), plain);
  const receiving =
    (x: tf.Tensor, options: FromRank) =>
    (group: ProcessGroup, plain: CollectiveOptions): Work<tf.Tensor> =>
      group.recv(x, placeOf(group, options, 'src'), plain);
  return {
    broadcast: (x, options) =>
      run(
        'broadcast',
        options,
        (group, plain) => group.broadcast(x, placeOf(group, options, 'src'), plain),
        x,
      ),
    reduce: (x, options) =>
      run(
        'reduce',
        options,
        (group, plain) => {
          const op = typeof options === 'object' ? opOf(options) : undefined;
          return group.reduce(x, placeOf(group, options, 'dst'), op, plain);
        },
        x,
      ),
    gather: (x, options) =>
      run(
        'gather',
        options,
        (group, plain) => gatherOnto(engine, group, placeOf(group, options, 'dst', 0), x, plain),
        null,
      ),
    scatter: (x, options) =>
      run(
        'scatter',
        options,
        (group, plain) => {
          const list = typeof options === 'object' ? options.scatterList : undefined;
          return scatterFrom(group, placeOf(group, options, 'src', 0), x, list, plain);
        },
        x,
      ),
    send: (x, options) => run('send', options, sending(x, options), undefined),
    recv: (x, options) => run('recv', options, receiving(x, options), x),
    isend: (x, options) =>
      run<void, AsyncOp>('isend', options as AsyncOp, sending(x, options), undefined, true),
    irecv: (x, options) =>
      run<tf.Tensor, AsyncOp>('irecv', options as AsyncOp, receiving(x, options), x, true),
  };
}

/** Stands for the options of a call that always returns a Work. */
type AsyncOp = { readonly asyncOp: true };

type ObjectCalls = Pick<
  Dist,
  'allGatherObject' | 'gatherObject' | 'broadcastObjectList' | 'scatterObjectList'
>;

/** The collectives of values of JavaScript. */
function objectCalls(run: Caller, within: (group: ProcessGroup) => Exchange): ObjectCalls {
  return {
    allGatherObject: (value, options) =>
      run<unknown[], typeof options>(
        'allGatherObject',
        options,
        (group) => finished(allGatherObject(within(group), value)),
        null,
      ),
    gatherObject: (value, options) =>
      run<unknown[] | null, typeof options>(
        'gatherObject',
        options,
        (group) => finished(gatherObject(within(group), placeOf(group, options, 'dst', 0), value)),
        null,
      ),
    broadcastObjectList: (list, options) =>
      run<typeof list, typeof options>(
        'broadcastObjectList',
        options,
        (group) => finished(broadcastObjects(within(group), placeOf(group, options, 'src', 0), list)),
        list,
      ),
    scatterObjectList: (list, options) =>
      run<unknown, typeof options>(
        'scatterObjectList',
        options,
        (group) => finished(scatterObject(within(group), placeOf(group, options, 'src', 0), list)),
        null,
      ),
  };
}

/** What ranks compare and reports show of a barrier with a name. */
function naming(name: string | undefined): CollectiveOptions {
  if (name === undefined || name === '') return {};
  const said = `name '${shortened(name)}'`;
  return { detail: said, contents: { word: wordOf(name), text: said } };
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

/**
 * Returns the rank index (in the group) of the global rank that a call names, or of `fallback`. Throws: CONFIG if the group lacks this
 * rank.
 */
function placeOf(
  group: ProcessGroup,
  options: FromRank | ToRank | OntoRank | { readonly src?: number } | undefined,
  key: 'src' | 'dst',
  fallback = Number.NaN,
): number {
  const named: { readonly src?: number; readonly dst?: number } =
    typeof options === 'object' && options !== null ? options : { [key]: options };
  const globalRank = named[key] ?? fallback;
  const place = group.ranks.indexOf(globalRank);
  if (place >= 0) return place;
  throw new ConfigError(
    `${key} ${shown(globalRank)} is not in group ${group.name} (global ranks ${group.ranks.join(', ')})`,
  );
}
