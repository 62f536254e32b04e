import { z } from 'zod';
import { ConfigError } from '../core';
import { gpuName, type Hardware } from './hardware';

/** The price of a GPU per hour, and its source. */
export interface Price {
  readonly usdPerHour: number;
  readonly source: string;
  /** Year and month of the price list. */
  readonly date: string;
  /** CNY per USD in the user's table; costs are then given in CNY too. */
  readonly cnyPerUsd?: number;
}

/** Prices by the hardware's name. */
export type PriceTable = Readonly<Record<string, Price>>;

/**
 * On-demand list prices of one provider, so that prices of GPUs can be compared: an instance's hour divided by its 8 GPUs,
 * without discounts.
 * Source: Amazon EC2 on-demand, Linux, us-east-1, after the price cut of June 2025.
 */
export const PRICES = {
  'V100-32G': listed('p3dn.24xlarge', 31.212),
  'A100-40G': listed('p4d.24xlarge', 21.957642),
  'A100-80G': listed('p4de.24xlarge', 27.44705),
  'H100-80G': listed('p5.48xlarge', 55.04),
  'H200-141G': listed('p5en.48xlarge', 63.296),
  'B200-180G': listed('p6-b200.48xlarge', 113.9328),
} as const satisfies PriceTable;

/** Returns the price that is given with the hardware, else the price in the table; undefined: neither has a price. */
export function priceOf(hardware: Hardware, table: PriceTable = PRICES): Price | undefined {
  if (hardware.usdPerHour !== null) {
    return { usdPerHour: hardware.usdPerHour, source: 'given with the hardware', date: 'as given' };
  }
  return table[hardware.name];
}

const positive = z.number().positive();
const note = { source: z.string().optional(), date: z.string().optional() };
const priceSchema = z.union([
  positive,
  z.strictObject({ usdPerHour: positive, ...note }),
  z.strictObject({ cnyPerHour: positive, ...note }),
]);
/** A user's price: USD per GPU hour, USD with a source, or CNY if the table has `cnyPerUsd`. */
type OwnPrice = z.input<typeof priceSchema>;

/** A user's prices by the hardware's name, such as { 'A100-80G': 1.79 } or { cnyPerUsd: 7.1, 'H20-96G': { cnyPerHour: 9 } }. */
export type OwnPrices = Readonly<Record<string, OwnPrice>>;

const tableSchema = z.object({ cnyPerUsd: positive.optional() }).catchall(priceSchema);

/**
 * Reads a user's table: { 'A100-80G': 1.79 }, { 'A100-80G': { usdPerHour, source, date } } or { cnyPerUsd: 7.1, 'H20-96G':
 * { cnyPerHour: 9 } }; other GPUs have their list prices. `from` is only for messages. Throws: CONFIG with the entry that is wrong.
 */
export function priceTable(input: unknown, from = 'prices'): PriceTable {
  const parsed = tableSchema.safeParse(input);
  if (!parsed.success) {
    const where = parsed.error.issues.map(({ path }) => path.join('.') || 'the table').join(', ');
    throw new ConfigError(
      `${from}: ${where} is not a price; write { "A100-80G": 1.79 } (USD per GPU hour), ` +
        `{ "A100-80G": { "usdPerHour": 1.79, "source": "...", "date": "2026-01" } }, ` +
        `or { "cnyPerUsd": 7.1, "H20-96G": { "cnyPerHour": 9 } }`,
    );
  }
  const { cnyPerUsd, ...own } = parsed.data;
  const rate = cnyPerUsd === undefined ? {} : { cnyPerUsd };
  const ownPrices = Object.entries(own).map(([name, price]) => {
    const { source = from, date = 'as given' } = typeof price === 'number' ? {} : price;
    return [
      gpuName(name) ?? name,
      { usdPerHour: usdOf(price, cnyPerUsd, `${from}: ${name}`), source, date },
    ] as const;
  });
  const all: PriceTable = { ...PRICES, ...Object.fromEntries(ownPrices) };
  return Object.fromEntries(Object.entries(all).map(([name, price]) => [name, { ...price, ...rate }]));
}

function usdOf(price: OwnPrice, cnyPerUsd: number | undefined, where: string): number {
  if (typeof price === 'number') return price;
  if ('usdPerHour' in price) return price.usdPerHour;
  if (cnyPerUsd !== undefined) return price.cnyPerHour / cnyPerUsd;
  throw new ConfigError(
    `${where} has a price in CNY; add the exchange rate to the table: { "cnyPerUsd": 7.1 }`,
  );
}

function listed(instance: string, usdPerInstanceHour: number): Price {
  return {
    usdPerHour: usdPerInstanceHour / 8,
    source: `Amazon EC2 on-demand ${instance} / 8, us-east-1`,
    date: '2025-06',
  };
}
