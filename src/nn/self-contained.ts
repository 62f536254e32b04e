import { ConfigError } from '../core';
import type { Module } from './module';
import type { ModuleTree } from './module-tree';
import type { Parameter, ParameterUser } from './parameter';

/** A parameter of a module, and the modules outside of it that use the parameter too. */
interface SharedUse {
  readonly parameter: Parameter;
  /** The module that other modules hold too; null if they share only the parameter. */
  readonly shared: Pick<Module, 'path'> | null;
  readonly users: readonly ParameterUser[];
}

/** The most modules that a message names. */
const MOST_NAMED = 4;

/** Whether modules outside of a module use one of its parameters: they read the parameter, or hold the module that has it. */
export function isUsedFromOutside(module: Module): boolean {
  return useFromOutside([module]) !== null;
}

/**
 * Throws: CONFIG if modules cannot be a separate unit; the error names what it shares and with which modules. `caller` is the
 * caller's name.
 */
export function requireSelfContained(modules: readonly Module[], caller: string): void {
  const use = useFromOutside(modules);
  if (use === null) return;
  const { parameter, shared, users } = use;
  const names = users.slice(0, MOST_NAMED).map(nameOf);
  const others =
    names.join(', ') + (users.length > MOST_NAMED ? ` and ${users.length - MOST_NAMED} more` : '');
  const [reads, holds] = users.length === 1 ? ['reads', 'holds'] : ['read', 'hold'];
  const why =
    shared === null
      ? `${others} also ${reads} ${parameter.name}`
      : `${others} also ${holds} "${shared.path}", which has ${parameter.name}`;
  const own = modules
    .map((module) => (module.path === '' ? `this ${module.constructor.name}` : `"${module.path}"`))
    .join(' and ');
  throw new ConfigError(
    `${caller}: ${own} cannot be a separate unit, because ${why} (a tied or shared ` +
      `parameter belongs in one unit with all its readers); leave ${own} to the unit around it`,
  );
}

function useFromOutside(modules: readonly Module[]): SharedUse | null {
  const parts = new Set(modules.flatMap((module) => module.modules()));
  const inside: ReadonlySet<object> = parts;
  for (const part of parts) {
    const [parameter] = part.parameters();
    // A stage of a pipeline holds modules of another tree, which it does not run.
    const isUser = (holder: ModuleTree) =>
      !inside.has(holder) && modules.some(({ root }) => holder.root === root);
    const users = modules.includes(part) ? [] : part.holders.filter(isUser);
    if (parameter !== undefined && users.length > 0) return { parameter, shared: part, users };
  }
  for (const parameter of new Set(modules.flatMap((module) => module.parameters()))) {
    const users = [...parameter.users].filter((user) => !inside.has(user));
    if (users.length > 0) return { parameter, shared: null, users };
  }
  return null;
}

function nameOf({ path }: ParameterUser): string {
  return path === '' ? 'the model itself' : `"${path}"`;
}
