import { ConfigError } from '../../core/errors';

/** Throws: CONFIG unless a job of `numRanks` ranks has `world` of them. */
export function checkWorld(what: 'train' | 'reshard', world: unknown, numRanks: number): void {
  if (typeof world === 'number' && Number.isInteger(world) && world >= 1 && world <= numRanks) return;
  const name = what === 'train' ? 'ranks' : 'world';
  throw new ConfigError(
    `${what}: ${name} is ${String(world)}, but this job has ${numRanks} ranks; give a whole number from 1 to ${numRanks}, ` +
      'or launch a job with more ranks',
    { [name]: world, numRanks },
  );
}
