import { InvalidArgumentError } from 'commander';
import { type Link, type LinkName, type LinkNumbers, linkOf } from '../../transport/link';

/** Reads '--link': a name as 10GbE, or 'GBIT,MICROSECONDS'. Throws: what commander shows for a wrong one. */
export function parseLink(text: string): Link {
  const [, gbit, latencyUs] = /^([\d.]+),([\d.]+)$/.exec(text) ?? [];
  try {
    // linkOf checks names.
    if (gbit === undefined) return linkOf(text as LinkName);
    return linkOf({ gbit: Number(gbit), latencyUs: Number(latencyUs) });
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

/** The link as `launch` takes it; a named link also has its numbers. */
export function linkNumbers({ bytesPerSecond, latencySeconds }: Link): LinkNumbers {
  return { gbit: (bytesPerSecond * 8) / 1e9, latencyUs: latencySeconds * 1e6 };
}
