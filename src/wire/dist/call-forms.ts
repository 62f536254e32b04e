import {
  anything,
  either,
  flag,
  index,
  listOf,
  type OptionKind,
  orNull,
  requireArity,
  requireKind,
  requireOptions,
  tensor,
  text,
} from '../../config';
import { ConfigError, shown } from '../../core';

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

const reduction = (name: string, more: Readonly<Record<string, OptionKind>> = {}): Collective => ({
  x: name === 'reduceScatter' ? either(tensor, listOf(tensor)) : tensor,
  numArguments: 2,
  form: `dist.${name}(x, { op: 'sum', asyncOp: true })`,
  short: 'string',
  kinds: { ...ANY, op: anything, ...more },
});

const exchange = (name: string): Collective => ({
  x: tensor,
  numArguments: 2,
  form: `dist.${name}(x, { asyncOp: true })`,
  kinds: ANY,
});

const transfer = (
  name: string,
  end: 'src' | 'dst',
  more: Readonly<Record<string, OptionKind>> = {},
): Collective => ({
  x: tensor,
  numArguments: 2,
  form: `dist.${name}(x, { ${end}: 0, asyncOp: true })`,
  short: 'number',
  kinds: { ...ANY, [end]: index, ...more },
});

const transferAtOnce = (name: string, end: 'src' | 'dst'): Collective => ({
  x: tensor,
  numArguments: 2,
  form: `dist.${name}(x, { ${end}: 0 })`,
  short: 'number',
  kinds: { group: anything, [end]: index },
});

const ofObjects = (name: string, value: string, x: OptionKind, end?: 'src' | 'dst'): Collective => ({
  x,
  numArguments: 2,
  form: `dist.${name}(${value}${end === undefined ? '' : `, { ${end}: 0 }`})`,
  ...(end !== undefined && { short: 'number' as const }),
  kinds: { group: anything, ...(end !== undefined && { [end]: index }) },
});

const COLLECTIVES = {
  allReduce: reduction('allReduce', { hierarchical: flag }),
  allGather: exchange('allGather'),
  allGatherIntoTensor: exchange('allGatherIntoTensor'),
  reduceScatter: reduction('reduceScatter'),
  allToAll: exchange('allToAll'),
  broadcast: transfer('broadcast', 'src'),
  reduce: transfer('reduce', 'dst', { op: anything }),
  gather: transfer('gather', 'dst'),
  scatter: transfer('scatter', 'src', { scatterList: listOf(tensor) }),
  send: transfer('send', 'dst'),
  recv: transfer('recv', 'src'),
  isend: transferAtOnce('isend', 'dst'),
  irecv: transferAtOnce('irecv', 'src'),
  allGatherObject: ofObjects('allGatherObject', 'value', anything),
  gatherObject: ofObjects('gatherObject', 'value', anything, 'dst'),
  broadcastObjectList: ofObjects('broadcastObjectList', 'list', listOf(anything), 'src'),
  scatterObjectList: ofObjects('scatterObjectList', 'list', orNull(listOf(anything)), 'src'),
  barrier: {
    numArguments: 1,
    form: "dist.barrier({ name: 'loaded', asyncOp: true })",
    kinds: { ...ANY, name: text },
  },
} as const satisfies Readonly<Record<string, Collective>>;

/** The name of a collective of `dist`. */
export type CollectiveName = keyof typeof COLLECTIVES;

/** Returns a collective's options after a check; {} for a call without options. Throws: CONFIG. */
export function collectiveOptions<T extends object>(name: CollectiveName, options: unknown): T {
  const { short, kinds, form }: Collective = COLLECTIVES[name];
  if (options === undefined || (short !== undefined && typeof options === short)) return {} as T;
  if (typeof options !== 'object')
    throw new ConfigError(`dist.${name}: ${shown(options)} is in the place of the options; write ${form}`);
  return requireOptions<object>(`dist.${name}`, options as object, kinds) as T;
}

/** Makes the collectives of an object refuse arguments that they would ignore. */
export function limitArguments<T extends Readonly<Record<CollectiveName, unknown>>>(dist: T): T {
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
