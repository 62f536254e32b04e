import { ConfigError, ShardlabError } from '../core/errors';

/**
 * Reads a file that the user named on the command line. Throws: CONFIG instead of IO, because a wrong file is bad
 * input.
 */
export function readInput<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ShardlabError) || error.code !== 'IO') throw error;
    throw new ConfigError(error.message, error.details);
  }
}
