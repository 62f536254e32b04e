import { ConfigError } from '../core/errors';
import type { Module } from './module';
import type { Parameter, ParameterUser } from './parameter';

/** A parameter of a module, and a module outside that also reads the parameter. */
export interface SharedUse {
  readonly parameter: Parameter;
  readonly user: ParameterUser;
}

/** Returns the first parameter of a module that a module outside also reads; null if there is none. */
export function useFromOutside(module: Module): SharedUse | null {
  const inside = new Set<ParameterUser>(module.modules());
  for (const parameter of module.parameters()) {
    for (const user of parameter.users) if (!inside.has(user)) return { parameter, user };
  }
  return null;
}

/**
 * Throws: CONFIG if a module cannot be a separate unit; the error names the parameter and its other reader. `what` is the
 * caller's name.
 */
export function requireSelfContained(module: Module, what: string): void {
  const use = useFromOutside(module);
  if (use === null) return;
  const user = use.user.path === '' ? 'the model itself' : `"${use.user.path}"`;
  throw new ConfigError(
    `${what}: "${module.path}" cannot be a separate unit, because ${user} also reads ${use.parameter.name} (a tied or shared ` +
      `parameter belongs in one unit with all its readers); leave "${module.path}" to the unit around it`,
  );
}
