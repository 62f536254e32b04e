import type { z } from 'zod';
import { shown } from '../../core/shown';

/**
 * The sizes in a config.json, in the words of a model's settings and of a plan's shapes. The settings have no word for what only
 * plans know, such as experts or latent attention.
 */
export interface HubSizes {
  readonly kind: 'gpt' | 'llama' | 'dit' | 't5-encoder' | 'encoder';
  /** The model's positions. */
  readonly seq?: number | undefined;
  readonly [size: string]: unknown;
}

/** Sizes that a run gives beside the folder of a model. */
export interface GivenSizes {
  readonly seq?: number | undefined;
  readonly latent?: readonly [number, number, number] | undefined;
}

/** Keys of a config.json that change what a model computes, each with the values of the models here. */
export type Usual = Readonly<Record<string, readonly unknown[]>>;

/** A family of published models, which have the same keys in config.json. */
export interface Family {
  read(config: object): HubRead;
  /** Returns why a run cannot build the model, or null; undefined: only plans know the family. */
  readonly refusal?: (config: object, given: GivenSizes) => string | null;
}

/** The sizes of a config, or what is wrong with it. */
export type HubRead = { readonly sizes: HubSizes } | { readonly wrong: string };

/** What runs need of a family whose models they build. */
interface Built<Config> {
  readonly usual: Usual;
  /** Returns why the model here would compute something else; null: it computes the same. */
  readonly unlike?: (config: Config, given: GivenSizes) => string | null;
}

/** Makes a family from the schema of its keys, and from the sizes that they mean. */
export function family<Schema extends z.ZodObject>(
  keys: Schema,
  sizesOf: (config: z.output<Schema>) => HubSizes,
  built?: Built<z.output<Schema>>,
): Family {
  const read = (config: object): HubRead => {
    const parsed = keys.safeParse(config);
    return parsed.success ? { sizes: sizesOf(parsed.data) } : { wrong: wrongKey(config, parsed.error) };
  };
  if (built === undefined) return { read };
  const { usual, unlike } = built;
  return {
    read,
    refusal: (config, given) => {
      const parsed = keys.safeParse(config);
      if (!parsed.success) return wrongKey(config, parsed.error);
      return unusualKeys(config, usual) ?? unlike?.(parsed.data, given) ?? null;
    },
  };
}

/** Describes a key with a wrong value, or else the first that is missing. */
function wrongKey(config: object, { issues }: z.ZodError): string {
  const wrong = issues.find(({ path }) => valueAt(config, path) != null);
  if (wrong !== undefined) return `${wrong.path.join('.')}: ${wrong.message}`;
  return `${issues[0]?.path.join('.')} is missing; write it into the config, because ${familyName(config)} needs it`;
}

function unusualKeys(config: object, usual: Usual): string | undefined {
  const unusual = Object.entries(usual).flatMap(([path, values]) => {
    const value = valueAt(config, path.split('.'));
    const isUsual = value === undefined || values.includes(value);
    return isUsual ? [] : [`${path} is ${shown(value)}, but models here have ${shown(values[0])}`];
  });
  return unusual.length === 0 ? undefined : unusual.join('; ');
}

function valueAt(config: object, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, key) => Object(at)[key], config);
}

/** Returns the name of a config's family: `_class_name` of diffusers and Wan, else `model_type`; undefined if it has neither. */
export function familyName(config: object): unknown {
  const { _class_name: className, model_type: type }: { _class_name?: unknown; model_type?: unknown } =
    config;
  return className ?? type;
}
