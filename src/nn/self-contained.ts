import { ConfigError } from '../core/errors';
import type { Module } from './module';
import type { Parameter, ParameterUser } from './parameter';

/** A parameter inside a module that another module outside also reads. */
export interface SharedUse {
  readonly parameter: Parameter;
  readonly user: ParameterUser;
}

/** The first parameter inside a module that is also read from outside; null if there is none. */
export function useFromOutside(module: Module): SharedUse | null {
  const inside = new Set<ParameterUser>(module.modules());
  for (const parameter of module.parameters()) {
    for (const user of parameter.users) if (!inside.has(user)) return { parameter, user };
  }
  return null;
}

/**
 * Throws: CONFIG if a module cannot be a separate unit, naming the parameter and its other reader. `what` is the
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
