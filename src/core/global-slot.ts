/** A value on globalThis: all code of a process shares it, even if this package is loaded twice. */
export function globalSlot<T>(name: string): { value: T | undefined } {
  const key = Symbol.for(name);
  // globalThis has no index type for symbols; only we use this key.
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
