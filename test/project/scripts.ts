import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { repositoryRoot } from '../support/paths';

/** A file of scripts/lib. They are plain JavaScript, so each test declares the types that it uses. */
export function importScript<Exports>(name: string): Promise<Exports> {
  return import(pathToFileURL(join(repositoryRoot(), 'scripts', 'lib', `${name}.mjs`)).href);
}

/** The error of a failing step of the scripts. */
export interface StepFailure extends Error {
  readonly advice: readonly string[];
}
