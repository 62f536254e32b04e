import { PUBLISHED_NAMES, type PublishedName } from '../config';
import { GPUS, type GpuName, type Hardware, hardwareOf } from './hardware';
import { type ModelShape, shapeOf } from './model-shape';
import { modelOf } from './models';
import { PRICES, type Price, type PriceTable } from './prices';

/** A kind of GPU in its usual machine, with its list price. */
export interface KnownGpu extends Hardware {
  /** The list price; null: no price is listed. */
  readonly price: Price | null;
}

/** Published models with the sizes that follow from their shapes. */
export const KNOWN_MODELS: Readonly<Record<PublishedName, ModelShape>> = byName(PUBLISHED_NAMES, (name) =>
  shapeOf(modelOf(name)),
);

/** The kinds of GPU that a plan knows by name. */
export const KNOWN_GPUS: Readonly<Record<GpuName, KnownGpu>> = byName(
  Object.keys(GPUS) as GpuName[],
  (name) => {
    const prices: PriceTable = PRICES;
    return { ...hardwareOf(name), price: prices[name] ?? null };
  },
);

function byName<Name extends string, Value>(
  names: readonly Name[],
  of: (name: Name) => Value,
): Readonly<Record<Name, Value>> {
  // Every name gets a value.
  return Object.fromEntries(names.map((name) => [name, of(name)])) as Record<Name, Value>;
}
