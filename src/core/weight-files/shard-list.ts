/** The files of a model that is published in shards. */
export interface ShardList {
  /** The words before the numbers: 'model', or 'diffusion_pytorch_model'. */
  readonly prefix: string;
  /** The number of shards that the names say. */
  readonly total: number;
  /** The names that are there, in order. */
  readonly names: readonly string[];
  /** The names that are not there. */
  readonly missing: readonly string[];
}

const NAME = /^(.+)-(\d{5})-of-(\d{5})\.safetensors$/;

/** Returns the name of a shard; `k` counts from 1 to `n`. Source: Hugging Face's transformers and diffusers. */
export function shardName(prefix: string, k: number, n: number): string {
  const padded = (count: number): string => String(count).padStart(5, '0');
  return `${prefix}-${padded(k)}-of-${padded(n)}.safetensors`;
}

/** Finds the lists of shards among the names of files; other names are left out. */
export function shardLists(names: readonly string[]): readonly ShardList[] {
  const lists = new Map<string, { prefix: string; total: number; names: string[] }>();
  for (const name of [...names].sort()) {
    const [, prefix, , last] = NAME.exec(name) ?? [];
    if (prefix === undefined || last === undefined) continue;
    const list = lists.get(`${prefix}-${last}`) ?? { prefix, total: Number(last), names: [] };
    list.names.push(name);
    lists.set(`${prefix}-${last}`, list);
  }
  return [...lists.values()].map((list) => ({ ...list, missing: missingOf(list) }));
}

function missingOf({ prefix, total, names }: Omit<ShardList, 'missing'>): string[] {
  return Array.from({ length: total }, (_, i) => shardName(prefix, i + 1, total)).filter(
    (name) => !names.includes(name),
  );
}
