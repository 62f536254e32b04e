/** Returns a slot for a value that all code of a process shares, even if this package is loaded twice. */
export function globalSlot<T>(name: string): { value: T | undefined } {
  const key = Symbol.for(name);
  // TypeScript's type of globalThis has no symbols as keys; no other code uses this key.
  const host = globalThis as { [key: symbol]: T | undefined };
  return {
    get value() {
      return host[key];
    },
    set value(value) {
      host[key] = value;
    },
  };
}
