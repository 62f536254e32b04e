import { statSync } from 'node:fs';
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

/**
 * Throws: CONFIG if job.train's init is not the path of one file. The code that reads the file reports whether it is
 * readable.
 */
export function checkInit(init: unknown): void {
  if (init === undefined) return;
  if (typeof init !== 'string' || init === '') {
    throw new ConfigError(`job.train: init is ${String(init)}; give the path of a safetensors file`);
  }
  if (statSync(init, { throwIfNoEntry: false })?.isDirectory() !== true) return;
  throw new ConfigError(
    `job.train: init is ${init}, a folder, but must be one safetensors file; to continue from a checkpoint, use ` +
      'job.train(config).load(folder), and to load only a model, use run.load(folder, { parametersOnly: true })',
  );
}
