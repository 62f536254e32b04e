import { nearest } from '../../config';
import { type Bytes, ConfigError, isRecord, type Seconds, shortened, shown } from '../../core';

/** A link between ranks in the alpha-beta model: each step takes the latency, and each byte takes 1 / bandwidth. */
export interface Link {
  /** The link's name, such as '10GbE', or '' if the link is defined by numbers. */
  readonly name: string;
  /** Bandwidth in one direction. */
  readonly bytesPerSecond: number;
  /** Latency of one message from rank to rank. */
  readonly latencySeconds: Seconds;
}

/** A link that is defined by numbers: gigabits per second in one direction, and the latency of one message in microseconds. */
export interface LinkNumbers {
  readonly gbit: number;
  readonly latencyUs: number;
}

/** NCCL's latency of one ring step with protocol Simple, in µs. Source: NCCL 2.20, src/graph/tuning.cc, hwLat. */
const NCCL_RING_US = { nvlink: 3.4, pci: 5.7, net: 14 } as const;
/** Latency of TCP between applications on two machines, in µs. Source: Hurwitz and Feng 2003, Hot Interconnects 11. */
const TCP_US = 20;
/** Published latencies of gigabit network cards are 40 to 300 µs; this is the lowest, in µs. Source: aspsys.com, glossary. */
const TCP_GIGABIT_US = 40;

/**
 * Known links, with nominal bandwidth in one direction. Source: IEEE 802.3 (…GbE), InfiniBand roadmap (HDR, NDR: 4 lanes), PCI
 * Express base specifications (16 lanes minus 128b/130b coding), NVIDIA's A100 and H100 data sheets (NVLink3, NVLink4:
 * half of the sum of both directions).
 */
export const LINKS = {
  '1GbE': { gbit: 1, latencyUs: TCP_GIGABIT_US },
  '10GbE': { gbit: 10, latencyUs: TCP_US },
  '25GbE': { gbit: 25, latencyUs: TCP_US },
  '40GbE': { gbit: 40, latencyUs: TCP_US },
  '100GbE': { gbit: 100, latencyUs: NCCL_RING_US.net },
  HDR: { gbit: 200, latencyUs: NCCL_RING_US.net },
  NDR: { gbit: 400, latencyUs: NCCL_RING_US.net },
  PCIe3: { gbit: 126, latencyUs: NCCL_RING_US.pci },
  PCIe4: { gbit: 252, latencyUs: NCCL_RING_US.pci },
  PCIe5: { gbit: 504, latencyUs: NCCL_RING_US.pci },
  NVLink3: { gbit: 2400, latencyUs: NCCL_RING_US.nvlink },
  NVLink4: { gbit: 3600, latencyUs: NCCL_RING_US.nvlink },
} as const satisfies Readonly<Record<string, LinkNumbers>>;

export type LinkName = keyof typeof LINKS;

/** Checks a link. Throws: CONFIG for an unknown name (the message suggests the nearest name), and for impossible numbers. */
export function linkOf(link: LinkName | LinkNumbers): Link {
  if (typeof link === 'string') return named(link);
  const { gbit, latencyUs } = numbersIn(link);
  return { name: '', bytesPerSecond: (gbit * 1e9) / 8, latencySeconds: latencyUs / 1e6 };
}

function named(name: string): Link {
  if (Object.hasOwn(LINKS, name)) {
    // Object.hasOwn has checked that `name` is a key of LINKS.
    const { gbit, latencyUs } = LINKS[name as LinkName];
    return { name, bytesPerSecond: (gbit * 1e9) / 8, latencySeconds: latencyUs / 1e6 };
  }
  const known = Object.keys(LINKS);
  const near = nearest(name, known);
  throw new ConfigError(
    `link '${shortened(name)}' is not known${near === undefined ? '' : ` (did you mean '${near}'?)`}; choose one of ${known.join(', ')}, or give numbers, such as { gbit: 2, latencyUs: 50 }`,
    { link: shortened(name) },
  );
}

function numbersIn(link: unknown): LinkNumbers {
  const numbers = isRecord(link) ? link : {};
  const unknown = Object.keys(numbers).find((key) => key !== 'gbit' && key !== 'latencyUs');
  const { gbit, latencyUs } = numbers;
  const good =
    unknown === undefined &&
    typeof gbit === 'number' &&
    gbit > 0 &&
    Number.isFinite(gbit) &&
    typeof latencyUs === 'number' &&
    latencyUs >= 0 &&
    Number.isFinite(latencyUs);
  if (good) return { gbit, latencyUs };
  throw new ConfigError(
    `link is ${shown(link)}, but must be a name such as '10GbE', or { gbit, latencyUs } ` +
      'with gbit above 0 and latencyUs of at least 0',
    { link: shown(link) },
  );
}

/** Bandwidth between ranks on one machine, in bytes per second. Source: docs/explanation/benchmarks.md, all-reduce of 16 MiB at world 2. */
const FASTEST_HERE = 5.6e9;

/** Returns a warning about a link that is faster than this machine's transport, because shaping can only delay. */
export function linkWarning(link: Link): string | undefined {
  if (link.bytesPerSecond <= FASTEST_HERE) return undefined;
  return (
    `${linkText(link)}: ranks on one machine exchange at most about ${(FASTEST_HERE * 8) / 1e9} Gbit/s, so this link adds ` +
    'only latency; a CPU computes more slowly than a GPU, so choose a link that is slower by the same factor, ' +
    'such as { gbit: 2, latencyUs: 50 }'
  );
}

/** Returns the link as a text for subtitles: "link 2 Gbit/s, 50 µs", with the link's name if it has one. */
export function linkText({ name, bytesPerSecond, latencySeconds }: Link): string {
  const gbit = Number(((bytesPerSecond * 8) / 1e9).toPrecision(4));
  const micros = Number((latencySeconds * 1e6).toPrecision(4));
  return `link ${name === '' ? '' : `${name}: `}${gbit} Gbit/s, ${micros} µs`;
}

/** A collective's cost on a link: the number of consecutive messages, and the bytes over the link in one direction. */
export interface WireCost {
  readonly steps: number;
  readonly bytes: Bytes;
  /** The part of the link's bandwidth that the collective has. Default 1. */
  readonly part?: number;
}

/** Returns the time on the link: latency × steps + bytes / (bandwidth × part), by the alpha-beta model. */
export function transferSeconds(link: Link, { steps, bytes, part = 1 }: WireCost): Seconds {
  return link.latencySeconds * steps + bytes / (link.bytesPerSecond * part);
}
