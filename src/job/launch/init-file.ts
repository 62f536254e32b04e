import { statSync } from 'node:fs';
import { ConfigError } from '../../core/errors';

/** Throws: CONFIG where job.train's init is not the path of one file. Whether it can be read is told by who reads it. */
export function checkInit(init: unknown): void {
  if (init === undefined) return;
  if (typeof init !== 'string' || init === '') {
    throw new ConfigError(`job.train: init is ${String(init)}; give the path of a safetensors file`);
  }
  if (statSync(init, { throwIfNoEntry: false })?.isDirectory() !== true) return;
  throw new ConfigError(
    `job.train: init is ${init}, a folder, and takes one safetensors file; a checkpoint is gone on from with ` +
      'job.train(config).load(folder), and a model alone is taken with run.load(folder, { parametersOnly: true })',
  );
}
