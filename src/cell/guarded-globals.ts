import process from 'node:process';
import { SHARED_NAMES, WEB_NAMES } from './shared-names';

/**
 * Guards the globals of JavaScript and Node against a cell that deletes or replaces them (`delete globalThis.Promise`,
 * `JSON.stringify = undefined`), because the kernel and all libraries of the process use the same globals. A class that extends
 * the global's own class stays, and so do another function in place of a method or of `fetch`, and another `console`.
 */
export interface GuardedGlobals {
  /** Puts back what code has deleted or replaced since this guard was made. Returns the names, such as `Promise`. */
  restore(): readonly string[];
}

interface GuardedGlobal {
  readonly name: string;
  /** Whether another value of the same type may stand in for the global. */
  readonly isReplaceable: boolean;
  readonly descriptor: PropertyDescriptor;
  readonly value: unknown;
}

interface GuardedMethod {
  /** Such as `JSON`, `Array.prototype`. */
  readonly holderName: string;
  readonly holder: object;
  readonly key: string | symbol;
  readonly descriptor: PropertyDescriptor;
}

// The guard runs while globals may be missing, so it uses only what it has taken from them here.
const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object;
const { ownKeys } = Reflect;
const host: object = globalThis;

/** Makes a guard of the globals as they are now; `names` are those that the host has added for cells. */
export function guardGlobals(names: readonly string[]): GuardedGlobals {
  const globals: GuardedGlobal[] = [];
  const methods: GuardedMethod[] = [];
  for (const name of [...SHARED_NAMES, ...names]) {
    const descriptor = getOwnPropertyDescriptor(host, name);
    if (descriptor?.configurable !== true) continue;
    const isReplaceable = WEB_NAMES.has(name) || !SHARED_NAMES.has(name);
    // Node's `process` and `Buffer` have getters; getters of web interfaces may load what nobody uses.
    const value: unknown = isReplaceable ? descriptor.value : Reflect.get(host, name);
    globals.push({ name, descriptor, value, isReplaceable });
    // Other holders, such as `process`, are objects whose fields may change.
    if (isClass(value) || NAMESPACES.has(name)) addMethods(methods, name, value as object);
  }
  return {
    restore() {
      const restored: string[] = [];
      for (let i = 0; i < globals.length; i++) {
        const guarded = globals[i] as GuardedGlobal; // i is below the length
        if (isIntact(guarded)) continue;
        defineProperty(host, guarded.name, guarded.descriptor);
        if (!guarded.isReplaceable) guarded.descriptor.set?.(guarded.value);
        restored[restored.length] = guarded.name;
      }
      for (let i = 0; i < methods.length; i++) {
        const { holder, holderName, key, descriptor } = methods[i] as GuardedMethod; // i is below the length
        if (typeof getOwnPropertyDescriptor(holder, key)?.value === 'function') continue;
        defineProperty(holder, key, descriptor);
        restored[restored.length] = typeof key === 'symbol' ? holderName : `${holderName}.${key}`;
      }
      return restored;
    },
  };
}

/** Tells the user of the running cell which globals were put back. */
export function tellRestored(names: readonly string[]): void {
  if (names.length === 0) return;
  const shown = names.slice(0, MOST_SHOWN).join(', ');
  const more = names.length > MOST_SHOWN ? ` and ${names.length - MOST_SHOWN} more` : '';
  const them = names.length === 1 ? 'it has' : 'they have';
  process.stderr.write(
    `The code has deleted or replaced ${shown}${more}, which the kernel and the libraries use too; ${them} been put back.\n`,
  );
}

const MOST_SHOWN = 5;

/** The objects that hold functions of the language. */
const NAMESPACES: ReadonlySet<string> = new Set(['JSON', 'Math', 'Reflect', 'Atomics']);

function isClass(value: unknown): value is { readonly prototype: object } {
  return typeof value === 'function' && typeof value.prototype === 'object' && value.prototype !== null;
}

function addMethods(methods: GuardedMethod[], name: string, value: object): void {
  const holders: [string, object][] = [[name, value]];
  if (isClass(value)) holders.push([`${name}.prototype`, value.prototype]);
  for (const [holderName, holder] of holders) {
    for (const key of ownKeys(holder)) {
      const descriptor = getOwnPropertyDescriptor(holder, key);
      if (typeof descriptor?.value !== 'function' || descriptor.configurable !== true) continue;
      methods.push({ holderName, holder, key, descriptor });
    }
  }
}

function isIntact({ name, descriptor, value, isReplaceable }: GuardedGlobal): boolean {
  const currentDescriptor = getOwnPropertyDescriptor(host, name);
  if (currentDescriptor === undefined) return false;
  // Most getters of web interfaces replace themselves by the interface when they are first read.
  if (!('value' in descriptor))
    return isReplaceable || (currentDescriptor.get === descriptor.get && currentDescriptor.get?.() === value);
  if (currentDescriptor.value === value) return true;
  if (isReplaceable)
    return typeof currentDescriptor.value === typeof value && currentDescriptor.value !== null;
  if (typeof value !== 'function' || typeof currentDescriptor.value !== 'function') return false;
  return currentDescriptor.value.prototype !== undefined && getPrototypeOf(currentDescriptor.value) === value;
}
