import { ConfigError, classOf, shortened } from '../core';
import type { Parameter } from './parameter';

/** The key of the module inside a wrapper; no child can have this name. */
export const INNER = '';

/** Returns the full name of a part: 'blocks.0' and 'weight' become 'blocks.0.weight'. */
export function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

/** Returns a valid name. Throws: CONFIG for an empty name and for a name with a dot. */
export function checked(name: string): string {
  if (name !== '' && !name.includes('.')) return name;
  throw new ConfigError(`name "${shortened(name)}" is empty or has a dot; use another`);
}

/** Returns a valid name that is not taken. Throws: CONFIG. */
export function free(name: string, taken: ReadonlyMap<string, unknown>): string {
  if (!taken.has(name)) return checked(name);
  throw new ConfigError(`name "${shortened(name)}" is taken; use another`);
}

/** Throws: CONFIG unless `child` is a module that does not hold its parent; `inside` has the modules in `child`. */
export function requireOther(
  parent: object,
  name: string,
  child: unknown,
  inside: readonly object[] | null,
): void {
  const type = parent.constructor.name;
  if (inside === null) {
    throw new ConfigError(
      `${type} takes modules, such as new nn.Linear(7, 13); "${shortened(name)}" is ${classOf(child)}`,
    );
  }
  if (!inside.includes(parent)) return;
  throw new ConfigError(
    `${type}.${name}: this ${inside[0]?.constructor.name} holds the ${type} itself, and a ` +
      'module cannot be within itself; to store only a reference, use a private #field or a function',
  );
}

/** Makes the error for a field that has a part and gets another kind of value. The part is `tensor`, else a module. */
export function replacedPart(field: string, tensor: Parameter | undefined, value: unknown): ConfigError {
  const name = field.split('.').at(-1);
  if (tensor !== undefined && 'isPersistent' in tensor) {
    return new ConfigError(
      `${field} is a buffer, and ${classOf(value)} in its place would not be in checkpoints; write this.${name}.assign(tensor), or ` +
        'assign null to remove the buffer',
    );
  }
  const [kind, wanted] =
    tensor === undefined ? ['module', 'a module'] : ['parameter', 'new nn.Parameter(tensor)'];
  return new ConfigError(
    `${field} is a ${kind}, and ${classOf(value)} in its place would not train; assign ${wanted}, or null to remove it`,
  );
}
