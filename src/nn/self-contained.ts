import { ConfigError } from '../core/errors';
import type { Module } from './module';
import type { Parameter, ParameterUser } from './parameter';

/** A parameter at or below a module that a module outside of it reads too. */
export interface SharedUse {
  readonly parameter: Parameter;
  readonly user: ParameterUser;
}

/** The first parameter at or below a module that is also read from outside; null where it has all of them to itself. */
export function useFromOutside(module: Module): SharedUse | null {
  const inside = new Set<ParameterUser>(module.modules());
  for (const parameter of module.parameters()) {
    for (const user of parameter.users) if (!inside.has(user)) return { parameter, user };
  }
  return null;
}

/**
 * Throws: CONFIG where a module cannot be a unit by itself, naming the parameter and who else reads it. `what` says who
 * asked for the unit.
 */
export function requireSelfContained(module: Module, what: string): void {
  const use = useFromOutside(module);
  if (use === null) return;
  const user = use.user.path === '' ? 'the model itself' : `"${use.user.path}"`;
  throw new ConfigError(
    `${what}: "${module.path}" cannot be a unit by itself, for ${user} reads ${use.parameter.name} too (a tied or shared ` +
      `parameter belongs in one unit with all that use it); leave "${module.path}" to the unit around it`,
  );
}
