import { ConfigError, classOf } from '../core/errors';
import type { Module } from './module';
import { parametersMatching } from './name-patterns';

/**
 * From now on the named parameters are not trained. Patterns are names of modules or parameters, '*' for one part.
 * Throws: CONFIG for a name without a match, if nothing would train, and after sharding.
 */
export function freeze(model: Module, patterns: readonly string[]): void {
  if (!Array.isArray(patterns))
    throw new ConfigError(`freeze takes a list of names, as ['blocks.0'], not ${classOf(patterns)}`);
  for (const pattern of patterns) {
    for (const parameter of parametersMatching(model, pattern, 'frozen')) parameter.requiresGrad = false;
  }
  if (patterns.length > 0 && !model.parameters().some(({ requiresGrad }) => requiresGrad)) {
    throw new ConfigError(`frozen: ${patterns.join(', ')} leave nothing to train; freeze fewer modules`);
  }
}
